/*
 * The CMD of the candidates that have one: its name, by which elections_pair.c finds its process.
 */
#ifndef BENCH_ELECTIONS_WORK_H
#define BENCH_ELECTIONS_WORK_H

#define WORK_NAME "elections-work" /* at most 15 bytes: the kernel keeps no more */

#endif
