/*
 * The rows of `tenure serve`: renewals by wrk over 64 keep-alive connections, beside the same HTTP library that answers
 * a constant, and beside etcd's HTTP gateway that does the like in a transaction.
 */
#ifndef BENCH_SERVER_H
#define BENCH_SERVER_H

#include "bench.h"

bool server_measure(bench_report *report, const char *directory);

#endif
