/*
 * A private server of one of the five stores: started empty, with room for a large fleet.
 */
#ifndef BENCH_STORE_SERVER_H
#define BENCH_STORE_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

#include "ground.h"

typedef struct store_server {
    char url[400];
    char directory[GROUND_PATH_SIZE];
    void *server; /* of tests/lib */
    const struct scale_kind *kind;
    pid_t pid; /* 0: the store has no server, this process does its work */
} store_server;

/* False: failed, and said so. */
bool store_server_start(store_server *server, const char *store);
void store_server_stop(store_server *server);

/* Of PostgreSQL: the number that a statement has as its result. */
double store_server_query(const store_server *server, const char *statement);
/* Of Redis: the number behind `field`, in or behind this line of what INFO says of a section. 0: there is none. */
double store_server_info(const store_server *server, const char *section, const char *line, const char *field);

#endif
