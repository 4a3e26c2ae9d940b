/*
 * Private PostgreSQL servers, and poolers in front of them, for tests and benchmarks: each in a directory of its own,
 * on Unix sockets, run by an unprivileged user, and gone when its test is gone.
 */
#ifndef TESTS_LIB_POSTGRES_SERVER_H
#define TESTS_LIB_POSTGRES_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

#define POSTGRES_SERVER_USER "tenure" /* its superuser */

struct postgres_server {
    pid_t pid;    /* 0: not running */
    pid_t pooler; /* PgBouncer, pooling by transaction; 0: not running */
    char directory[200];
    char clock_file[220];        /* "": it has the real clock */
    const char *const *settings; /* "work_mem=1MB", NULL-terminated; NULL: none */
};

/* A new, empty server. Returns 0, or -1 after saying why on stderr. */
int postgres_server_start(struct postgres_server *server);
/* The same server again, after one of the two below. */
int postgres_server_start_again(struct postgres_server *server);
void postgres_server_stop(struct postgres_server *server); /* as an operator does */
void postgres_server_kill(struct postgres_server *server); /* at once; it recovers when it is started again */
/* Sets its wall clock that far off ("+10m", "-1h", "+0"); the first time before it is started again. */
int postgres_server_set_clock(struct postgres_server *server, const char *offset);
/* A pooler in front of it, under the same directory. */
int postgres_server_start_pooler(struct postgres_server *server);
/* A standby of `primary`, from a base backup. */
int postgres_server_start_standby(struct postgres_server *standby, const struct postgres_server *primary);
/* Ends what runs, and removes the directory. */
void postgres_server_remove(struct postgres_server *server);

/* A store's URL: the database, the role, and more options ("&timeout=1s" or ""). */
void postgres_server_url(const struct postgres_server *server, const char *database, const char *role,
                         const char *options, char *url, size_t size);
/* The same through the pooler. */
void postgres_server_pooled_url(const struct postgres_server *server, const char *database, const char *role,
                                const char *options, char *url, size_t size);
/* Runs a statement as the superuser; the first value that came back, or NULL for none, to be freed by the caller. An
 * error is said on stderr, and *ret_done false. */
char *postgres_server_query(const struct postgres_server *server, const char *database, const char *statement,
                            bool *ret_done);

#endif
