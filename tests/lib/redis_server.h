/*
 * Private Redis servers and Sentinels for tests and benchmarks: each in a directory of its own, on a free loopback port
 * and a Unix socket, without persistence unless asked for, and gone when its test is gone.
 */
#ifndef TESTS_LIB_REDIS_SERVER_H
#define TESTS_LIB_REDIS_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

#define REDIS_SERVER_ARGUMENTS 24u

struct redis_server {
    pid_t pid; /* 0: not running */
    int port;
    bool tls;      /* on the port; the socket is plain */
    bool sentinel; /* configured by sentinel.conf in its directory */
    char directory[256];
    char socket[280];
    const char *arguments[REDIS_SERVER_ARGUMENTS]; /* more of them, NULL-terminated */
};

/* Starts one and waits until it answers. `more` are further arguments ("--appendonly", "yes", NULL), which must stay
 * valid; NULL: none. Returns 0, or -1 after saying why on stderr. */
int redis_server_start(struct redis_server *server, const char *const *more);
/* The same with TLS; `more` names the certificates. */
int redis_server_start_tls(struct redis_server *server, const char *const *more);
/* A Sentinel with these lines in its configuration. */
int redis_sentinel_start(struct redis_server *sentinel, const char *lines);
/* The same server again, after one of the two below: on its port, with what it saved in its directory. */
int redis_server_start_again(struct redis_server *server);
void redis_server_stop(struct redis_server *server); /* SIGTERM */
void redis_server_kill(struct redis_server *server); /* SIGKILL */
/* Kills it if it runs, and removes its directory. */
void redis_server_remove(struct redis_server *server);

#endif
