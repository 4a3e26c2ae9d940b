/*
 * Processor time and memory, from what the system counts of processes and threads.
 */
#ifndef BENCH_USAGE_H
#define BENCH_USAGE_H

#include <sys/types.h>

double usage_self_us(void);     /* of this process */
double usage_children_us(void); /* of its children that have ended */
/* What threads have run, to the nanosecond: at rest a tick is too much. */
double usage_first_thread_us(pid_t pid);
double usage_threads_us(pid_t pid); /* of all of them that run now */
/* Of a server and its children, also of those that have ended. */
double usage_server_ms(pid_t pid);
double usage_resident_bytes(void); /* of this process */

#endif
