/*
 * A private `tenure serve` for tests: on a free loopback port, with a SQLite file in a directory of its own, and gone
 * when its test is gone. The program is the one that the environment variable TENURE names.
 */
#ifndef TESTS_LIB_TENURE_SERVER_H
#define TESTS_LIB_TENURE_SERVER_H

#include <sys/types.h>

struct tenure_server {
    pid_t pid; /* 0: not running */
    int port;
    char directory[256];
};

/* Starts one and waits until it listens. 0, or -1 after saying why on stderr. */
int tenure_server_start(struct tenure_server *server);
/* The same again, after it was killed: on its port, with its file. */
int tenure_server_start_again(struct tenure_server *server);
void tenure_server_kill(struct tenure_server *server); /* SIGKILL */
/* Ends the connections of this process to it, as a network would: the descriptors stay open. */
void tenure_server_cut(const struct tenure_server *server);
/* Kills it if it runs. Its directory is the caller's to remove. */
void tenure_server_remove(struct tenure_server *server);

#endif
