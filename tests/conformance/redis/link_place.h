/*
 * What the tests of connections to Redis share: a server, a connection to it and what was said about it; strangers who
 * listen and do as they like; relays that cut a real conversation short; certificates; and names that resolve as told.
 * Each test checks at its end that no descriptor is left open.
 */
#ifndef CONFORMANCE_LINK_PLACE_H
#define CONFORMANCE_LINK_PLACE_H

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/io.h"
#include "conformance/late.h"
#include "lib/cases.h"
#include "lib/redis_server.h"
#include "store/redis/redis_link_state.h"

#define SECRET   "open-sesame" /* the password everywhere: no message may show it */
#define OPEN_MS  UINT64_C(5000)
#define SLACK_MS (UINT64_C(1000) + late_ms()) /* of a busy machine, beyond a deadline */

struct link_place {
    struct redis_server server;
    ten_redis_settings *settings;
    ten_redis_link *link;
    ten_error error;
    char *text; /* of the last reply */
    int fds;    /* open before */
};

int link_setup(void **state);         /* with a server */
int link_setup_without(void **state); /* the test starts its own */
int link_teardown(void **state);
#define LINK_CASE(name)       TEST_WITH(name, link_setup, link_teardown)
#define LINK_CASE_ALONE(name) TEST_WITH(name, link_setup_without, link_teardown)

/* ---- connections; whatever was open or set before is closed */

ten_redis_settings *make_settings(const char *format, ...) TEN_PRINTF(1, 2);
/* New settings; opened by hand. */
void use_url(struct link_place *place, const char *format, ...) TEN_PRINTF(2, 3);
/* Opens by the settings within wait_ms, and sees to it that no more time passes and no secret is told. */
int try_open(struct link_place *place, enum ten_redis_need need, uint64_t wait_ms);
/* use_url() and try_open(), which must succeed. */
void must_open(struct link_place *place, const char *format, ...) TEN_PRINTF(2, 3);
/* ...which must fail with the code, and `says` in its message. */
void expect_refused(struct link_place *place, int code, const char *says, const char *format, ...) TEN_PRINTF(4, 5);
void must_reopen(struct link_place *place);
/* Opens again and again while one allocation after the other fails: each time that is what is told. Afterwards it is
 * open. */
void fail_allocations(struct link_place *place, long least);
void expect_said(const struct link_place *place, const char *says);
void close_link(struct link_place *place);

uint64_t boot_ms(void);
void pause_ms(uint64_t ms);

/* The text of the reply to a command of up to 8 words, the last NULL; errors with their "-". Fails the test when the
 * connection does. */
const char *ask(struct link_place *place, const char *word, ...);
/* The same on a connection of its own by the server's Unix socket, as an administrator. */
void tell_server(const struct redis_server *server, const char *format, ...) TEN_PRINTF(2, 3);
void expect_works(struct link_place *place);

/* ---- strangers and relays, each with a thread */

struct peer {
    int fd;
    int port;
    pthread_t thread;
    void (*serve)(struct peer *peer, int client); /* for one after the other */
    const char *say;                              /* for the ready-made ones: sent once something was heard */
    size_t say_size;
    int to_port;        /* a relay's server, on the loopback */
    atomic_size_t pass; /* a relay: so many bytes of the server, then... */
    atomic_int then;    /* PEER_STALL, PEER_CLOSE, PEER_RESET */
    atomic_size_t passed;
    atomic_size_t heard_size;
    char heard[65536]; /* the first bytes of all clients */
    atomic_bool stops;
    atomic_int client;
    atomic_uint accepted;
};
enum { PEER_STALL, PEER_CLOSE, PEER_RESET };

void peer_start(struct peer *peer, void (*serve)(struct peer *, int));
void peer_start_relay(struct peer *peer, int to_port);
void peer_stop(struct peer *peer);

void peer_is_silent(struct peer *peer, int client);
void peer_says(struct peer *peer, int client); /* `say`, then it is silent */
void peer_says_and_closes(struct peer *peer, int client);
void peer_closes(struct peer *peer, int client);
void peer_resets(struct peer *peer, int client);
/* Reads into heard; 0 at the end. */
size_t peer_hear(struct peer *peer, int client);
bool peer_write(struct peer *peer, int client, const void *data, size_t size);

/* ---- certificates, in a directory that goes away: ca.crt, other-ca.crt, and NAME.crt with NAME.key */

struct certificates {
    char directory[128];
    char ca[160];
};
struct certificate_wish {
    const char *name;
    const char *alternatives; /* "DNS:redis.test,IP:127.0.0.1" */
    const char *authority;    /* "ca" */
    long ends_s;              /* from now */
    const char *pass_phrase;  /* of the key; NULL: none */
};
int certificates_make(struct certificates *certificates);
int certificate_make(const struct certificates *certificates, const struct certificate_wish *wish);
void certificates_remove(struct certificates *certificates);

/* ---- names: redis.test and other.test are 127.0.0.1, two.test is 127.0.0.9 first, where nobody is */

extern atomic_bool names_hang;
extern atomic_bool names_fail;
extern atomic_uint names_asked;
void names_reset(void);

#endif
