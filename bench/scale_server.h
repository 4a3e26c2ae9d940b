/*
 * A private server of one of the five stores, for scale.c: started empty, with room for a large fleet, and with its
 * processor time read from /proc.
 */
#ifndef BENCH_SCALE_SERVER_H
#define BENCH_SCALE_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

#include "ground.h"

typedef struct scale_server {
    char url[400];
    char directory[GROUND_PATH_SIZE];
    void *server; /* of tests/lib */
    const struct scale_kind *kind;
    pid_t pid; /* 0: the store has no server, this process does its work */
} scale_server;

/* False: failed, and said so. */
bool scale_server_start(scale_server *server, const char *store);
void scale_server_stop(scale_server *server);
/* Of the server and its children; of this process where there is no server. */
double scale_server_cpu_ms(const scale_server *server);

#endif
