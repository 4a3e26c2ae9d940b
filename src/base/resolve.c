/*
 * Bounded name resolution. See resolve.h.
 */
#include "base/resolve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"

#define HANGING_MAX 4 /* threads that wait for a resolver; more would only pile up behind it */

/* Owned by both the asker and the thread; the last one frees it. */
struct question {
    pthread_mutex_t lock;
    pthread_cond_t answered;
    unsigned owners;
    bool done;
    int failure; /* of getaddrinfo */
    char host[256];
    char port[8];
    ten_addresses addresses;
};

static atomic_int hanging;

static void drop(struct question *question) {
    pthread_mutex_lock(&question->lock);
    bool last = --question->owners == 0;
    pthread_mutex_unlock(&question->lock);
    if (!last)
        return;
    pthread_mutex_destroy(&question->lock);
    pthread_cond_destroy(&question->answered);
    ten_free(question);
}

static int look_up(const char *host, const char *port, int flags, ten_addresses *ret_addresses) {
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags};
    struct addrinfo *found = NULL;
    int failure = getaddrinfo(host, port, &hints, &found);
    if (failure)
        return failure;
    ret_addresses->count = 0;
    for (const struct addrinfo *at = found; at && ret_addresses->count < TEN_ADDRESSES_MAX; at = at->ai_next) {
        if (at->ai_addrlen > sizeof ret_addresses->at[0].address)
            continue;
        memcpy(&ret_addresses->at[ret_addresses->count].address, at->ai_addr, at->ai_addrlen);
        ret_addresses->at[ret_addresses->count++].size = at->ai_addrlen;
    }
    freeaddrinfo(found);
    return ret_addresses->count ? 0 : EAI_NONAME;
}

static void *answer(void *arg) {
    struct question *question = arg;
    ten_addresses addresses = {.count = 0};
    int failure = look_up(question->host, question->port, AI_ADDRCONFIG, &addresses);
    pthread_mutex_lock(&question->lock);
    question->addresses = addresses;
    question->failure = failure;
    question->done = true;
    pthread_cond_signal(&question->answered);
    pthread_mutex_unlock(&question->lock);
    atomic_fetch_sub(&hanging, 1);
    drop(question);
    return NULL;
}

static struct question *new_question(const char *host, const char *port) {
    struct question *question = ten_calloc(1, sizeof *question);
    pthread_condattr_t attributes;
    if (!question)
        return NULL;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&question->lock, NULL);
    pthread_cond_init(&question->answered, &attributes);
    pthread_condattr_destroy(&attributes);
    question->owners = 2;
    snprintf(question->host, sizeof question->host, "%s", host);
    snprintf(question->port, sizeof question->port, "%s", port);
    return question;
}

/* With all signals blocked: they are the program's. */
static int start_thread(struct question *question) {
    pthread_attr_t attributes;
    sigset_t all;
    sigset_t old;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int failed = pthread_create(&thread, &attributes, answer, question);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attributes);
    return failed;
}

static bool wait_for_answer(struct question *question, uint64_t wait_ms) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(wait_ms / 1000);
    until.tv_nsec += (long)(wait_ms % 1000) * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000L;
    }
    pthread_mutex_lock(&question->lock);
    int waited = 0;
    while (!question->done && waited == 0)
        waited = pthread_cond_timedwait(&question->answered, &question->lock, &until);
    bool done = question->done;
    pthread_mutex_unlock(&question->lock);
    return done;
}

static int ask(const char *host, const char *port, uint64_t wait_ms, ten_addresses *ret_addresses, ten_error *error) {
    if (atomic_fetch_add(&hanging, 1) >= HANGING_MAX) {
        atomic_fetch_sub(&hanging, 1);
        return ten_fail(error, TENURE_E_TIMEOUT, "the resolver does not answer: %s cannot be looked up", host);
    }
    struct question *question = new_question(host, port);
    if (!question || start_thread(question) != 0) {
        atomic_fetch_sub(&hanging, 1);
        if (question) {
            question->owners = 1;
            drop(question);
        }
        return ten_fail(error, TENURE_E_NOMEM, "cannot start a thread to look %s up", host);
    }
    int done = TENURE_OK;
    if (!wait_for_answer(question, wait_ms))
        done = ten_fail(error, TENURE_E_TIMEOUT, "the resolver did not answer for %s within %llu ms", host,
                        (unsigned long long)wait_ms);
    else if (question->failure)
        done =
            ten_fail(error, TENURE_E_UNREACHABLE, "cannot find the host %s: %s", host, gai_strerror(question->failure));
    else
        *ret_addresses = question->addresses;
    drop(question);
    return done;
}

int ten_resolve(const char *host, uint16_t port, uint64_t deadline_ms, ten_addresses *ret_addresses, ten_error *error) {
    char text[8];
    snprintf(text, sizeof text, "%u", port);
    ten_addresses literal = {.count = 0};
    if (look_up(host, text, AI_NUMERICHOST | AI_NUMERICSERV, &literal) == 0) {
        *ret_addresses = literal;
        return TENURE_OK;
    }
    return ask(host, text, ten_left_u64(deadline_ms, ten_boot_ms(&ten_system_clock)), ret_addresses, error);
}

void ten_address_show(const struct sockaddr *address, socklen_t size, char *text, size_t room) {
    char host[NI_MAXHOST];
    char port[NI_MAXSERV];
    if (address->sa_family == AF_UNIX)
        snprintf(text, room, "%s", ((const struct sockaddr_un *)address)->sun_path);
    else if (getnameinfo(address, size, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        snprintf(text, room, "?");
    else
        snprintf(text, room, address->sa_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}
