/*
 * Directories, databases and leases for the benchmarks. Called by those who measure stores.
 */
#include "ground.h"

#include <errno.h>
#include <ftw.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"

#define REGISTERED_AT_ONCE 1000u

/* ---- directories */

bool ground_make(char directory[GROUND_PATH_SIZE]) {
    const char *base = getenv("TMPDIR");
    snprintf(directory, GROUND_PATH_SIZE, "%s/tenure-bench-XXXXXX", base && base[0] ? base : "/tmp");
    if (mkdtemp(directory))
        return true;
    fprintf(stderr, "bench: cannot make %s: %s\n", directory, strerror(errno));
    return false;
}

static int remove_one(const char *path, const struct stat *info, int flag, struct FTW *ftw) {
    (void)info;
    (void)flag;
    (void)ftw;
    return remove(path);
}

void ground_remove(const char *directory) {
    if (nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0)
        fprintf(stderr, "bench: %s could not be removed\n", directory);
}

const char *ground_programs(void) {
    static char programs[GROUND_PATH_SIZE];
    ssize_t length = readlink("/proc/self/exe", programs, sizeof programs - 1);
    TEN_INVARIANT(length > 0);
    programs[length] = '\0';
    *strrchr(programs, '/') = '\0';
    return programs;
}

/* ---- stores */

ten_store *ground_open(const char *format, ...) {
    char url[GROUND_PATH_SIZE + 16];
    ten_error error = {0};
    ten_store *store = NULL;
    va_list args;
    va_start(args, format);
    vsnprintf(url, sizeof url, format, args);
    va_end(args);
    if (ten_store_open(url, &(ten_store_config){.clock = &ten_system_clock}, &store, &error) == TENURE_OK)
        return store;
    fprintf(stderr, "bench: %s\n", error.message);
    return NULL;
}

bool ground_apply(ten_store *store, const ten_op *ops, ten_result *results, size_t count) {
    return ground_apply_within(store, ops, results, count, GROUND_TIMEOUT_MS);
}

bool ground_apply_within(ten_store *store, const ten_op *ops, ten_result *results, size_t count, uint64_t timeout_ms) {
    if (ten_store_apply(store, ops, results, count, timeout_ms) < 0) {
        fprintf(stderr, "bench: %s\n", store->error.message);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (results[i].outcome != TEN_OK) {
            fprintf(stderr, "bench: %s: outcome %d\n", ops[i].target, (int)results[i].outcome);
            return false;
        }
    }
    return true;
}

/* ---- leases */

static bool make_leases(ground_leases *leases, unsigned holder, size_t count) {
    *leases = (ground_leases){.count = count};
    leases->targets = ten_calloc(count, sizeof *leases->targets);
    leases->ops = ten_calloc(count, sizeof *leases->ops);
    leases->results = ten_calloc(count, sizeof *leases->results);
    if (!leases->targets || !leases->ops || !leases->results)
        return false;
    snprintf(leases->holder, sizeof leases->holder, "bench-1700000000000000000-%08x", holder);
    for (size_t i = 0; i < count; i++) {
        snprintf(leases->targets[i], GROUND_NAME_SIZE, "site-%u.target-%05zu", holder, i);
        leases->ops[i] = (ten_op){.kind = TEN_OP_ACQUIRE,
                                  .namespace_name = GROUND_NAMESPACE,
                                  .target = leases->targets[i],
                                  .holder = leases->holder,
                                  .ttl_ms = GROUND_TTL_MS};
    }
    return true;
}

bool ground_acquire(ten_store *store, unsigned holder, size_t count, ground_leases *ret_leases) {
    if (!make_leases(ret_leases, holder, count))
        return false;
    if (!ground_apply_within(store, ret_leases->ops, ret_leases->results, count, 12 * GROUND_TIMEOUT_MS))
        return false; /* not measured */
    for (size_t i = 0; i < count; i++) {
        ret_leases->ops[i].kind = TEN_OP_RENEW;
        ret_leases->ops[i].token = ret_leases->results[i].token;
    }
    return true;
}

void ground_free(ground_leases *leases) {
    ten_free(leases->targets);
    ten_free(leases->ops);
    ten_free(leases->results);
    *leases = (ground_leases){0};
}

/* ---- targets */

bool ground_register(const char *url, size_t count) {
    static tenure_target targets[REGISTERED_AT_ONCE];
    static char ids[REGISTERED_AT_ONCE][GROUND_NAME_SIZE];
    tenure_context *context = NULL;
    tenure_options options = {.size = sizeof options, .instance_name = "registrar", .timeout_ms = 30000};
    bool done = tenure_open(url, &options, &context) == TENURE_OK;
    for (size_t at = 0; done && at < count; at += REGISTERED_AT_ONCE) {
        size_t some = ten_min_u64(count - at, REGISTERED_AT_ONCE);
        for (size_t i = 0; i < some; i++) {
            snprintf(ids[i], sizeof ids[i], GROUND_SESSION, at + i);
            targets[i] = (tenure_target){.size = sizeof targets[i], .id = ids[i]};
        }
        done = tenure_registry_put(context, targets, some, NULL) == TENURE_OK;
    }
    if (!done)
        fprintf(stderr, "bench: %s\n", tenure_message(context));
    tenure_close(context);
    return done;
}
