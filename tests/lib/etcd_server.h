/*
 * A private etcd of one member, for tests and benchmarks: on free loopback ports, its data in the caller's directory,
 * gone when its process is gone.
 */
#ifndef TESTS_LIB_ETCD_SERVER_H
#define TESTS_LIB_ETCD_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct etcd_server {
    pid_t pid; /* 0: not running */
    int port;
    int peer_port;
    char data[512];
    bool alarmed;                 /* an alarm stands: it is never healthy, and started when it answers */
    const char *const *arguments; /* more of them, NULL-terminated; NULL: none */
} etcd_server;

/* Starts one and waits until it is healthy. False: it is not there, or does not start. */
bool etcd_start(etcd_server *server, const char *directory);
/* The same again, after etcd_stop(): on its ports, with its data. */
bool etcd_start_again(etcd_server *server);
void etcd_stop(etcd_server *server); /* SIGKILL */

#endif
