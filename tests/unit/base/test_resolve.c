/*
 * Bounded name resolution. The system's resolver is ours here (the linker wraps getaddrinfo): it can answer, refuse,
 * be slow, or hang until it is let go.
 */
#include "unit/unit.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/un.h>

#include "base/alloc.h"
#include "base/resolve.h"

/* ---- the resolver */

int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **found);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **found);

static pthread_mutex_t resolver_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t resolver_moved = PTHREAD_COND_INITIALIZER;
static struct {
    atomic_bool hangs;
    atomic_int failure;
    atomic_uint slow_ms;
    atomic_uint asked;       /* questions about names, ever */
    atomic_uint running;     /* at this moment */
    atomic_uint most;        /* at one moment */
    atomic_bool saw_signals; /* a thread that asked did not block them */
} resolver;

static void resolver_reset(void) {
    pthread_mutex_lock(&resolver_lock);
    resolver.hangs = false;
    resolver.failure = 0;
    resolver.slow_ms = 0;
    pthread_cond_broadcast(&resolver_moved);
    while (resolver.running > 0)
        pthread_cond_wait(&resolver_moved, &resolver_lock);
    resolver.asked = resolver.most = 0;
    resolver.saw_signals = false;
    pthread_mutex_unlock(&resolver_lock);
}

static int resolver_begin(void) {
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    pthread_mutex_lock(&resolver_lock);
    if (!sigismember(&blocked, SIGALRM) || !sigismember(&blocked, SIGTERM))
        resolver.saw_signals = true;
    resolver.asked++;
    resolver.running++;
    if (resolver.running > resolver.most)
        resolver.most = resolver.running;
    unsigned slow_ms = resolver.slow_ms;
    while (resolver.hangs)
        pthread_cond_wait(&resolver_moved, &resolver_lock);
    int failure = resolver.failure;
    pthread_mutex_unlock(&resolver_lock);
    usleep(slow_ms * 1000);
    return failure;
}

static void resolver_end(void) {
    pthread_mutex_lock(&resolver_lock);
    resolver.running--;
    pthread_cond_broadcast(&resolver_moved);
    pthread_mutex_unlock(&resolver_lock);
}

/* "N.test" has the N addresses 127.0.0.1, 127.0.0.2... */
static int make_answer(int count, const char *port, const struct addrinfo *hints, struct addrinfo **found) {
    struct addrinfo **last = found;
    for (int i = 1; i <= count; i++) {
        char address[24];
        snprintf(address, sizeof address, "127.0.0.%d", i);
        int failure = __real_getaddrinfo(address, port, hints, last);
        if (failure)
            return failure;
        last = &(*last)->ai_next;
    }
    return 0;
}

int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **found) {
    if (hints->ai_flags & AI_NUMERICHOST)
        return __real_getaddrinfo(host, port, hints, found);
    int failure = resolver_begin();
    if (!failure)
        failure = make_answer(atoi(host), port, hints, found);
    else
        errno = EMFILE;
    int failed_by = errno;
    resolver_end();
    errno = failed_by;
    return failure;
}

/* ---- the questions */

static uint64_t in_ms(uint64_t ms) {
    return ten_boot_ms(&ten_system_clock) + ms;
}

static int ask(const char *host, uint64_t wait_ms, ten_addresses *addresses, ten_error *error) {
    *addresses = (ten_addresses){.count = 99};
    return ten_resolve(host, 6379, in_ms(wait_ms), addresses, error);
}

static int setup(void **state) {
    (void)state;
    resolver_reset();
    return 0;
}

static int teardown(void **state) {
    (void)state;
    resolver_reset();
    return 0;
}

#define CASE(name) TEST_WITH(name, setup, teardown)

static void assert_shown(const ten_addresses *addresses, size_t which, const char *text) {
    char shown[128];
    ten_address_show((const struct sockaddr *)&addresses->at[which].address, addresses->at[which].size, shown,
                     sizeof shown);
    assert_string_equal(shown, text);
}

CASE(a_literal_address_asks_nobody) {
    ten_addresses addresses;
    ten_error error;
    resolver.hangs = true;
    assert_int_equal(ask("127.0.0.1", 0, &addresses, &error), TENURE_OK);
    assert_int_equal(addresses.count, 1);
    assert_shown(&addresses, 0, "127.0.0.1:6379");
    assert_int_equal(ask("::1", 0, &addresses, &error), TENURE_OK);
    assert_shown(&addresses, 0, "[::1]:6379");
    assert_int_equal(resolver.asked, 0);
}

CASE(a_name_has_its_addresses_up_to_eight) {
    ten_addresses addresses;
    ten_error error;
    assert_int_equal(ask("2.test", 5000, &addresses, &error), TENURE_OK);
    assert_int_equal(addresses.count, 2);
    assert_shown(&addresses, 1, "127.0.0.2:6379");
    assert_int_equal(ask("12.test", 5000, &addresses, &error), TENURE_OK);
    assert_int_equal(addresses.count, TEN_ADDRESSES_MAX);
    assert_shown(&addresses, 7, "127.0.0.8:6379");
    assert_false(resolver.saw_signals);
}

CASE(a_name_that_is_not_known_is_told_with_the_reason) {
    ten_addresses addresses;
    ten_error error;
    resolver.failure = EAI_NONAME;
    assert_int_equal(ask("1.test", 5000, &addresses, &error), TENURE_E_UNREACHABLE);
    assert_contains(error.message, "1.test");
    assert_contains(error.message, gai_strerror(EAI_NONAME));
    assert_int_equal(addresses.count, 99);
    resolver.failure = EAI_SYSTEM;
    assert_int_equal(ask("1.test", 5000, &addresses, &error), TENURE_E_UNREACHABLE);
    assert_contains(error.message, strerror(EMFILE));
    resolver.failure = 0;
    assert_int_equal(ask("0.test", 5000, &addresses, &error), TENURE_E_UNREACHABLE);
}

CASE(a_name_that_is_too_long_is_not_cut) {
    char host[2000];
    memset(host, '1', sizeof host);
    host[sizeof host - 1] = '\0';
    ten_addresses addresses;
    ten_error error;
    assert_int_equal(ask(host, 5000, &addresses, &error), TENURE_E_UNREACHABLE);
    assert_contains(error.message, "too long");
    assert_int_equal(resolver.asked, 0);
}

CASE(a_resolver_that_hangs_costs_the_time_that_it_was_given) {
    ten_addresses addresses;
    ten_error error;
    resolver.hangs = true;
    uint64_t start_us = ten_boot_us();
    assert_int_equal(ask("1.test", 80, &addresses, &error), TENURE_E_TIMEOUT);
    assert_took(start_us, 80, 600);
    assert_contains(error.message, "1.test");
    /* What was left of the 80 ms when it began to wait: a busy machine has used some of them by then. */
    const char *within = strstr(error.message, "within ");
    assert_non_null(within);
    assert_in_range(strtoul(within + strlen("within "), NULL, 10), 1, 80);
    assert_int_equal(addresses.count, 99);
}

static size_t count_threads(void) {
    size_t count = 0;
    DIR *tasks = opendir("/proc/self/task");
    if (!tasks)
        return 0;
    for (struct dirent *entry; (entry = readdir(tasks));)
        count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

static size_t idle_threads; /* of the program, before anybody asked */

/* Threads that have answered need a moment to end. */
static void assert_threads(size_t more) {
    for (uint64_t i = 0; i < HANG_MS && count_threads() != idle_threads + more; i++)
        usleep(1000);
    assert_int_equal(count_threads(), idle_threads + more);
}

static void hang_all(void) {
    ten_addresses addresses;
    ten_error error;
    resolver.hangs = true;
    for (int i = 0; i < 4; i++)
        assert_int_equal(ask("1.test", 10, &addresses, &error), TENURE_E_TIMEOUT);
    while (resolver.running < 4)
        usleep(1000);
}

CASE(four_threads_hang_and_not_one_more) {
    ten_addresses addresses;
    ten_error error;
    hang_all();
    for (int i = 0; i < 20; i++) {
        uint64_t start_us = ten_boot_us();
        assert_int_equal(ask("1.test", 3 * HANG_MS, &addresses, &error), TENURE_E_TIMEOUT);
        assert_took(start_us, 0, HANG_MS); /* it does not wait for its own time to pass */
        assert_contains(error.message, "does not answer");
    }
    assert_threads(4);
    assert_int_equal(resolver.asked, 4);
    assert_int_equal(ask("127.0.0.1", 0, &addresses, &error), TENURE_OK);
    resolver_reset();
    assert_int_equal(ask("1.test", 5000, &addresses, &error), TENURE_OK);
    assert_threads(0);
}

struct asker {
    pthread_t thread;
    int done;
    ten_addresses addresses;
    ten_error error;
};

static void *run_asker(void *arg) {
    struct asker *asker = arg;
    asker->done = ask("2.test", 10000, &asker->addresses, &asker->error);
    return NULL;
}

CASE(more_who_ask_at_once_wait_for_their_turn) {
    static struct asker askers[24];
    resolver.slow_ms = 10;
    for (size_t i = 0; i < TEN_COUNT(askers); i++)
        assert_int_equal(pthread_create(&askers[i].thread, NULL, run_asker, &askers[i]), 0);
    for (size_t i = 0; i < TEN_COUNT(askers); i++) {
        pthread_join(askers[i].thread, NULL);
        if (askers[i].done != TENURE_OK)
            fail_msg("asker %zu: %s", i, askers[i].error.message);
        assert_int_equal(askers[i].addresses.count, 2);
    }
    assert_int_equal(resolver.asked, TEN_COUNT(askers));
    assert_in_range(resolver.most, 1, 4);
}

/* The child has none of its parent's threads, and must not wait for them. */
static void ask_in_child(void *arg) {
    (void)arg;
    ten_addresses addresses;
    ten_error error;
    pthread_mutex_init(&resolver_lock, NULL);
    resolver.hangs = false;
    CHILD_CHECK(ask("1.test", 5000, &addresses, &error) == TENURE_OK);
    resolver.hangs = true;
    for (int i = 0; i < 4; i++)
        CHILD_CHECK(ask("1.test", 10, &addresses, &error) == TENURE_E_TIMEOUT);
    CHILD_CHECK(ask("1.test", 5000, &addresses, &error) == TENURE_E_TIMEOUT);
}

CASE(a_child_of_a_process_whose_resolver_hangs_can_ask) {
    hang_all();
    assert_child_is_content(ask_in_child, NULL);
}

CASE(signals_do_not_end_the_wait) {
    ten_addresses addresses;
    ten_error error;
    storm_start();
    resolver.slow_ms = 20;
    int r = ask("1.test", 5000, &addresses, &error);
    resolver.slow_ms = 0;
    resolver.hangs = true;
    uint64_t start_us = ten_boot_us();
    int hung = ask("1.test", 50, &addresses, &error);
    uint64_t took_ms = elapsed_ms(start_us);
    uint64_t late_ms = machine_stalled_ms();
    storm_stop();
    assert_int_equal(r, TENURE_OK);
    assert_int_equal(hung, TENURE_E_TIMEOUT);
    assert_in_range(took_ms, 50 - MACHINE_ROUNDING_MS, 600 + late_ms);
}

CASE(no_memory_is_told_and_costs_no_turn) {
    ten_addresses addresses;
    ten_error error;
    for (int i = 0; i < 10; i++) {
        ten_alloc_fail_after(0);
        assert_int_equal(ask("1.test", 5000, &addresses, &error), TENURE_E_NOMEM);
        assert_true(ten_alloc_has_failed());
        ten_alloc_fail_after(-1);
    }
    assert_int_equal(ask("1.test", 5000, &addresses, &error), TENURE_OK);
}

CASE(an_endless_deadline_is_no_overflow) {
    ten_addresses addresses;
    ten_error error;
    resolver.slow_ms = 5;
    assert_int_equal(ten_resolve("1.test", 1, UINT64_MAX, &addresses, &error), TENURE_OK);
    resolver.hangs = true; /* a slow one can be done before it is looked for */
    assert_int_equal(ten_resolve("1.test", 1, 0, &addresses, &error), TENURE_E_TIMEOUT);
}

CASE(the_address_of_a_unix_socket_is_its_path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "/run/x.sock"};
    char shown[64];
    ten_address_show((struct sockaddr *)&address, sizeof address, shown, sizeof shown);
    assert_string_equal(shown, "/run/x.sock");
    ten_address_show((struct sockaddr *)&(struct sockaddr_in){.sin_family = AF_INET}, 3, shown, sizeof shown);
    assert_string_equal(shown, "?");
}

/* A child that starts threads is what is tested: the thread sanitizer would refuse. */
const char *__tsan_default_options(void) __attribute__((visibility("default")));
const char *__tsan_default_options(void) {
    return "die_after_fork=0";
}

static void *do_nothing(void *arg) {
    return arg;
}

int main(void) {
    pthread_t first; /* the thread sanitizer starts one of its own with it */
    if (pthread_create(&first, NULL, do_nothing, NULL) != 0 || pthread_join(first, NULL) != 0)
        return 1;
    usleep(10000);
    idle_threads = count_threads();
    return run_cases(NULL, NULL);
}
