/*
 * A private etcd of one member for etcdctl's rows: on free loopback ports, its data in the benchmark's directory, gone
 * when the benchmark is gone.
 */
#ifndef BENCH_ELECTIONS_ETCD_H
#define BENCH_ELECTIONS_ETCD_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct etcd_server {
    pid_t pid; /* 0: not running */
    int port;
} etcd_server;

/* Starts one and waits until it is healthy. False: it is not there, or does not start. */
bool etcd_start(etcd_server *server, const char *directory);
void etcd_stop(etcd_server *server);

#endif
