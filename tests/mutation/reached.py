# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which units of the C core a check reaches: the others may be mutated without it.

A copy of the library notes each unit of which a function is called, and tells at the end of the process.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from linked import TOLD, CannotBuildError, Library

HEAD = """#include <stdio.h>
#include <stdlib.h>
static const char *const names[] = { %s };
static char reached[sizeof(names) / sizeof(names[0])];
void linnet_left(void *function, void *from) { }
__attribute__((destructor)) static void tell(void)
{
	FILE *to = getenv("%s") ? fopen(getenv("%s"), "a") : NULL;

	for (size_t k = 0; to && k < sizeof(reached); k++)
		if (reached[k])
			fprintf(to, "%%s\\n", names[k]);
	if (to)
		fclose(to);
}
"""


def noting(library: Library, to: Path) -> Path:
    """The directory of the library that notes."""
    to.mkdir(exist_ok=True)
    objects = []
    source = HEAD % (", ".join(f'"{name}"' for name in library.linked), TOLD, TOLD)
    for number, name in enumerate(library.linked):
        own = f"{to}/{name}.o"
        objects.append(own)
        calls = {"__cyg_profile_func_enter": f"linnet_entered_{number}", "__cyg_profile_func_exit": "linnet_left"}
        renamed = [f"--redefine-sym={old}={new}" for old, new in calls.items()]
        source += f"void linnet_entered_{number}(void *function, void *from) {{ reached[{number}] = 1; }}\n"
        for command in (
            [*library.commands[name][:-1], own, "-finstrument-functions"],
            ["objcopy", *renamed, own],
        ):
            subprocess.run(command, check=True)
    (to / "reached.c").write_text(source)
    link = ["cc", "-shared", "-fPIC", "-w", str(to / "reached.c"), *objects, "-o", str(to / library.file.name)]
    if subprocess.run(link, check=False).returncode:
        raise CannotBuildError(str(to))
    return to
