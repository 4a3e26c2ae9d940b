/*
 * The rows of the etcd store: renewals of one holder beside a keep-alive for each lease, and locks beside etcdctl's.
 */
#ifndef BENCH_ETCD_H
#define BENCH_ETCD_H

#include "bench.h"

bool etcd_measure(bench_report *report, const char *directory);

#endif
