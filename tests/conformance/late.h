/*
 * What a test that measures real time has to allow for: clocks that are rounded, and a machine that is busy with other
 * things. In suite.c; included by whoever measures.
 */
#ifndef CONFORMANCE_LATE_H
#define CONFORMANCE_LATE_H

#include <stdint.h>

#define ROUNDING_MS 3u /* of two clocks that are read in ms */

/* By how much anything may have been late since the case began (or since then), because the machine was busy. */
uint64_t late_ms(void);
void late_from_now(void);

#endif
