// SPDX-License-Identifier: MIT OR Apache-2.0
/* knobs FILE...: the checks of knobs.h as a program. The case tune-vectors compares its lines with the kernel's. */
#include "knobs.h"

int main(int argc, char **argv)
{
	unsigned wrong = 0, checks;

	for (int i = 1; i < argc; i++) {
		wrong += knob_file(argv[i], &checks);
		printf("knob-file %s %u\n", argv[i], checks);
	}
	return wrong + knob_runs() > 0;
}
