/*
 * Which process is this? A number that is different in a child of fork(), readable for the price of a load, so that a
 * check of a lease can be false in the child without a system call.
 */
#ifndef TEN_BASE_FORK_H
#define TEN_BASE_FORK_H

#include <stdbool.h>
#include <stdint.h>

/* This process's number, never 0; made at the first call in a process. 0 when the kernel refused the memory for it. */
uint64_t ten_fork_number(void);
/* Whether `number` came from this process. Never waits. */
bool ten_fork_is(uint64_t number);

#endif
