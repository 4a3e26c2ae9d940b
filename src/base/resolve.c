/*
 * Bounded name resolution. See resolve.h.
 */
#include "base/resolve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fork.h"
#include "base/io.h"
#include "base/thread.h"

#define SLOTS    4u /* threads that ask; more would only pile up behind a resolver that hangs */
#define RETRY_US 2000u

/* Owned by both the asker and the thread; the last one frees it. */
struct question {
    pthread_mutex_t lock;
    pthread_cond_t answered;
    unsigned owners;
    bool done;
    int failure; /* of getaddrinfo */
    int system_failure;
    size_t place;
    char host[NI_MAXHOST];
    char port[8];
    ten_addresses addresses;
};

/* ---- places, one a thread
 *
 * A place has the number of the process whose thread asks, which is odd, and that number minus one when no thread waits
 * for the answer any more. A child of fork() has none of its parent's threads: for it all of the places are free. */

static atomic_uint_fast64_t places[SLOTS];

static uint64_t this_process(void) {
    uint64_t number = ten_fork_number();
    return number ? number : 3u;
}

/* *ret_hopeless: every thread has been given up, so a place may never be free again. */
static bool try_place(size_t *ret_place, bool *ret_hopeless) {
    uint64_t mine = this_process();
    *ret_hopeless = true;
    for (size_t i = 0; i < SLOTS; i++) {
        uint_fast64_t now = atomic_load(&places[i]);
        if ((now | 1u) != mine && atomic_compare_exchange_strong(&places[i], &now, mine)) {
            *ret_place = i;
            return true;
        }
        *ret_hopeless &= now == (mine & ~UINT64_C(1));
    }
    return false;
}

static bool get_place(uint64_t deadline_ms, size_t *ret_place) {
    for (;;) {
        bool hopeless;
        if (try_place(ret_place, &hopeless))
            return true;
        if (hopeless || ten_now_ms() >= deadline_ms)
            return false;
        ten_sleep_us(RETRY_US);
    }
}

/* ---- questions */

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
    int system_failure = errno;
    pthread_mutex_lock(&question->lock);
    question->addresses = addresses;
    question->failure = failure;
    question->system_failure = system_failure;
    question->done = true;
    atomic_store(&places[question->place], 0);
    pthread_cond_signal(&question->answered);
    pthread_mutex_unlock(&question->lock);
    drop(question);
    return NULL;
}

static struct question *new_question(const char *host, const char *port, size_t place) {
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
    question->place = place;
    snprintf(question->host, sizeof question->host, "%s", host);
    snprintf(question->port, sizeof question->port, "%s", port);
    return question;
}

static int start_thread(struct question *question) {
    pthread_t thread;
    int failed = ten_thread_start(&thread, answer, question);
    if (!failed)
        pthread_detach(thread);
    return failed;
}

/* False: it took too long, and the thread is on its own now. */
static bool wait_for_answer(struct question *question, uint64_t wait_ms) {
    struct timespec until = ten_monotonic_end(wait_ms);
    pthread_mutex_lock(&question->lock);
    int waited = 0;
    while (!question->done && waited == 0)
        waited = pthread_cond_timedwait(&question->answered, &question->lock, &until);
    bool done = question->done;
    if (!done)
        atomic_fetch_and(&places[question->place], ~UINT64_C(1));
    pthread_mutex_unlock(&question->lock);
    return done;
}

static int refused(const struct question *question, ten_error *error) {
    return ten_fail(error, TENURE_E_UNREACHABLE, "cannot find the host %s: %s", question->host,
                    question->failure == EAI_SYSTEM ? strerrordesc_np(question->system_failure)
                                                    : gai_strerror(question->failure));
}

static int ask(const char *host, const char *port, uint64_t deadline_ms, ten_addresses *ret_addresses,
               ten_error *error) {
    uint64_t start_ms = ten_now_ms();
    size_t place;
    if (!get_place(deadline_ms, &place))
        return ten_fail(error, TENURE_E_TIMEOUT, "the resolver does not answer: %s cannot be looked up", host);
    struct question *question = new_question(host, port, place);
    if (!question || start_thread(question) != 0) {
        atomic_store(&places[place], 0);
        if (question) {
            question->owners = 1;
            drop(question);
        }
        return ten_fail(error, TENURE_E_NOMEM, "cannot start a thread to look %s up", host);
    }
    int r = TENURE_OK;
    if (!wait_for_answer(question, ten_sub_saturating(deadline_ms, ten_now_ms())))
        r = ten_fail(error, TENURE_E_TIMEOUT, "the resolver did not answer for %s within %llu ms", host,
                     (unsigned long long)ten_sub_saturating(deadline_ms, start_ms));
    else if (question->failure)
        r = refused(question, error);
    else
        *ret_addresses = question->addresses;
    drop(question);
    return r;
}

int ten_resolve(const char *host, uint16_t port, uint64_t deadline_ms, ten_addresses *ret_addresses, ten_error *error) {
    char text[8];
    snprintf(text, sizeof text, "%u", port);
    ten_addresses literal = {.count = 0};
    if (look_up(host, text, AI_NUMERICHOST | AI_NUMERICSERV, &literal) == 0) {
        *ret_addresses = literal;
        return TENURE_OK;
    }
    if (strlen(host) >= NI_MAXHOST)
        return ten_fail(error, TENURE_E_UNREACHABLE, "the host name %.40s... is too long", host);
    return ask(host, text, deadline_ms, ret_addresses, error);
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
