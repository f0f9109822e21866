# SPDX-License-Identifier: GPL-2.0-only
"""Print spec/vectors as C, for modules that have no files: `embed.py FILE... > goldens.c`."""

import sys
from pathlib import Path


def main() -> int:
    """One array of bytes per file, because C limits the length of a string literal."""
    print("/* SPDX-License-Identifier: MIT OR Apache-2.0 */\n/* Made by embed.py from spec/vectors. */")
    print("#include <stdio.h>\n")
    for i, name in enumerate(sys.argv[1:]):
        # The last byte terminates the text.
        data = Path(name).read_bytes() + b"\0"
        print(f"static char text_{i}[] = {{")
        print("\n".join(",".join(map(str, data[at : at + 32])) + "," for at in range(0, len(data), 32)))
        print("};\n")
    print("FILE linnet_goldens[] = {")
    for i, name in enumerate(sys.argv[1:]):
        path = name[name.rindex("vectors/") :]
        print(f'\t{{ .path = "{path}", .text = text_{i} }},')
    print("\t{ .path = NULL },\n};")
    return 0


if __name__ == "__main__":
    sys.exit(main())
