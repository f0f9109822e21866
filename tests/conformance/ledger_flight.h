/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* For ledger.c: its checks of the writes in flight, which end the program when one fails. */
#ifndef LEDGER_FLIGHT_H
#define LEDGER_FLIGHT_H

/* Random writes, parts and ends against a list that is searched from end to end. */
void check_flight(unsigned long seed, unsigned long steps);

/* How many writes a path passes with 4,096 in flight, of whatever order: what each call looks at, in each tree it asks. */
void check_depth(unsigned long seed);

#endif
