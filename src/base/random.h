/*
 * Random numbers from the kernel, for instance ids, marks of commands and jitter. Tests that must repeat do not call
 * this.
 */
#ifndef TEN_BASE_RANDOM_H
#define TEN_BASE_RANDOM_H

#include <stdint.h>

uint64_t ten_random_u64(void);

#endif
