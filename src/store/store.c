/*
 * Opening a store by its URL, and what no backend has to repeat. Called by the runtime. backends.c knows which backends
 * there are; this file knows none of them.
 */
#include "store/store.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/duration.h"
#include "base/encode.h"
#include "base/utf8.h"
#include "core/turns.h"
#include "rules/instance_row.h"
#include "store/backends.h"

#define OPEN_TIMEOUT_MS 5000u

static int default_path(ten_buf *path, ten_error *error) {
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    if (state && state[0] == '/')
        ten_buf_format(path, "%s/tenure", state);
    else if (home && home[0] == '/')
        ten_buf_format(path, "%s/.local/state/tenure", home);
    else
        return ten_fail(
            error, TENURE_E_INVALID,
            "no store was named, and neither XDG_STATE_HOME nor HOME says where the default one is: use --store "
            "or TENURE_STORE");
    if (path->failed)
        return ten_fail_memory(error, "the default URL");
    return TENURE_OK;
}

/* As the XDG rules want it: private, each missing part made on the way. */
static int make_directories(char *path, ten_error *error) {
    for (char *at = strchr(path + 1, '/');; at = strchr(at + 1, '/')) {
        if (at)
            *at = '\0';
        int failed = mkdir(path, 0700) != 0 && errno != EEXIST ? errno : 0;
        if (at)
            *at = '/';
        if (failed)
            return ten_fail_errno(error, TENURE_E_UNREACHABLE, failed,
                                  "cannot make the directory %s for the default store", path);
        if (!at)
            return TENURE_OK;
    }
}

/* `sqlite:` with $XDG_STATE_HOME/tenure/tenure.db, in memory that the caller frees. */
static int default_url(char **ret_url, ten_error *error) {
    ten_buf path = {0};
    ten_buf url = {0};
    int r = default_path(&path, error);
    if (r == 0)
        r = make_directories(path.data, error);
    if (r == 0) {
        ten_buf_text(&url, "sqlite:");
        ten_percent_encode_only(&url, path.data, "%?");
        ten_buf_text(&url, "/tenure.db");
        if (url.failed)
            r = ten_fail_memory(error, "the default URL");
    }
    ten_buf_free(&path);
    if (r < 0)
        ten_buf_free(&url);
    else
        *ret_url = url.data;
    return r;
}

/* The URL's own time-out, which every backend understands; 0: not given. */
static int read_timeout(const ten_url *url, uint64_t *ret_timeout_ms, ten_error *error) {
    const char *timeout = ten_url_option(url, "timeout");
    ten_error why = {0};
    *ret_timeout_ms = 0;
    if (!timeout)
        return TENURE_OK;
    if (ten_duration_parse(timeout, ret_timeout_ms, &why) < 0)
        return ten_fail(error, TENURE_E_INVALID, "the store URL's timeout: %s", why.message);
    return *ret_timeout_ms
               ? TENURE_OK
               : ten_fail(error, TENURE_E_INVALID, "the store URL's timeout is 0: nothing can answer in that time");
}

static int open_backend(const ten_url *url, const ten_store_config *config, ten_store **ret_store, ten_error *error) {
    const ten_store_ops *ops = NULL;
    uint64_t url_timeout_ms;
    int r = read_timeout(url, &url_timeout_ms, error);
    if (r == 0)
        r = ten_backend_find(url->scheme, &ops, error);
    if (r < 0)
        return r;
    ten_store *store = ten_calloc(1, ops->size);
    if (!store)
        return ten_fail_memory(error, "the %s store", ops->name);
    *store = (ten_store){.ops = ops,
                         .clock = config && config->clock ? config->clock : &ten_system_clock,
                         .capabilities = ops->capabilities,
                         .timeout_ms = url_timeout_ms};
    uint64_t timeout_ms = config && config->timeout_ms ? config->timeout_ms : OPEN_TIMEOUT_MS;
    r = ops->open(store, url, url_timeout_ms ? url_timeout_ms : timeout_ms);
    if (r < 0) {
        if (error)
            *error = store->error;
        ten_store_close(store);
        return r;
    }
    *ret_store = store;
    return TENURE_OK;
}

int ten_store_open(const char *url, const ten_store_config *config, ten_store **ret_store, ten_error *error) {
    TEN_CLEANUP(ten_free_string) char *by_default = NULL;
    int r = url ? TENURE_OK : default_url(&by_default, error);
    if (r < 0)
        return r;
    ten_url parsed;
    r = ten_url_parse(url ? url : by_default, &parsed, error);
    if (r < 0)
        return r;
    r = open_backend(&parsed, config, ret_store, error);
    ten_url_free(&parsed);
    return r;
}

void ten_store_close(ten_store *store) {
    if (!store)
        return;
    store->ops->close(store);
    ten_free(store);
}

/* A caller has checked its names by base/id.h; what a backend relies on is checked here once more, because a name that
 * is cut could be somebody else's. */
static bool names_fit(const ten_op *op) {
    bool about_instance = op->kind == TEN_OP_ANNOUNCE || op->kind == TEN_OP_LEAVE;
    bool needs_target = !about_instance && op->kind != TEN_OP_ASK;
    bool hands = op->kind == TEN_OP_HAND;
    bool needs_holder =
        about_instance || hands || op->kind == TEN_OP_ACQUIRE || (op->kind == TEN_OP_ASK && !op->target);
    if (hands && (!op->successor || op->successor[0] == '\0' || strlen(op->successor) > TENURE_HOLDER_MAX))
        return false;
    return op->namespace_name && strlen(op->namespace_name) <= TENURE_NAMESPACE_MAX && (op->target || !needs_target) &&
           !(op->target && (about_instance || strlen(op->target) > TENURE_TARGET_MAX)) &&
           (op->holder || !needs_holder) &&
           !(op->holder && (op->holder[0] == '\0' || strlen(op->holder) > TENURE_HOLDER_MAX));
}

static int check_op(ten_store *store, const ten_op *op) {
    if (!names_fit(op))
        return ten_fail(&store->error, TENURE_E_INVALID,
                        "an operation has no namespace, target or holder, or one that is too long");
    if (op->kind == TEN_OP_HAND && !store->capabilities.hands)
        return ten_fail(&store->error, TENURE_E_UNSUPPORTED, "this store cannot hand a lease over");
    if (op->actor && (strlen(op->actor) > TENURE_HOLDER_MAX || !ten_utf8_is_text(op->actor, strlen(op->actor))))
        return ten_fail(&store->error, TENURE_E_INVALID, "the actor of an operation must be UTF-8 of at most %u bytes",
                        TENURE_HOLDER_MAX);
    if (op->kind == TEN_OP_HAND && op->token == 0)
        return ten_fail(&store->error, TENURE_E_INVALID, "a lease is handed over under its token, which is missing");
    if (op->metadata && strlen(op->metadata) > TEN_METADATA_MAX)
        return ten_fail(&store->error, TENURE_E_INVALID, "the metadata of an instance is over %u bytes",
                        TEN_METADATA_MAX);
    bool sets_ttl = op->kind == TEN_OP_ACQUIRE || op->kind == TEN_OP_ANNOUNCE || op->kind == TEN_OP_HAND;
    if (op->token > TENURE_TOKEN_MAX)
        return ten_fail(&store->error, TENURE_E_TOKEN, "token %llu is above 2^53 - 1", (unsigned long long)op->token);
    if ((sets_ttl && op->ttl_ms < store->capabilities.ttl_min_ms) || op->ttl_ms > TENURE_TTL_MAX_MS ||
        (op->kind == TEN_OP_RENEW && op->ttl_ms && op->ttl_ms < store->capabilities.ttl_min_ms))
        return ten_fail(&store->error, TENURE_E_TTL, "a TTL of %llu ms is outside of %llu ms to 366 days%s%s",
                        (unsigned long long)op->ttl_ms, (unsigned long long)store->capabilities.ttl_min_ms,
                        store->capabilities.ttl_min_reason ? ": " : "",
                        store->capabilities.ttl_min_reason ? store->capabilities.ttl_min_reason : "");
    return store->ops->check_op ? store->ops->check_op(store, op) : TENURE_OK;
}

/* What the backends rely on. */
static bool is_group(const ten_op *ops, size_t length) {
    for (size_t i = 0; i < length; i++) {
        if (ops[i].kind != TEN_OP_ACQUIRE || ops[i].flags != ops[0].flags || ops[i].ttl_ms != ops[0].ttl_ms ||
            strcmp(ops[i].namespace_name, ops[0].namespace_name) != 0 || strcmp(ops[i].holder, ops[0].holder) != 0)
            return false;
        for (size_t j = 0; j < i; j++)
            if (strcmp(ops[i].target, ops[j].target) == 0)
                return false;
    }
    return length <= TEN_GROUP_MAX;
}

int ten_store_check_ops(ten_store *store, const ten_op *ops, size_t count) {
    int r = TENURE_OK;
    for (size_t i = 0; r == TENURE_OK && i < count; i++)
        r = check_op(store, &ops[i]);
    for (size_t i = 0, length; r == TENURE_OK && i < count; i += length) {
        length = ten_op_group_length(&ops[i], count - i);
        if (ops[i].group && !is_group(&ops[i], length))
            r = ten_fail(&store->error, TENURE_E_INVALID,
                         "a group is at most %u acquires of different targets, alike in everything else",
                         TEN_GROUP_MAX);
    }
    return r;
}

/* What answers need not be our store, nor whole: a lease is never held under a token that is none, nor renewed under
 * another than its own. */
static bool is_possible(const ten_op *op, const ten_result *result) {
    if (result->outcome != TEN_OK || (op->kind != TEN_OP_ACQUIRE && op->kind != TEN_OP_RENEW))
        return true;
    if (op->kind == TEN_OP_RENEW && op->token != 0 && result->token != op->token)
        return false;
    return result->token >= 1 && result->token <= TENURE_TOKEN_MAX;
}

/* ---- drains */

struct asked {
    const char *instance;
    bool is_lock;
};

static int look_at_asked(const ten_instance *instance, void *userdata) {
    struct asked *asked = userdata;
    if (strcmp(instance->instance, asked->instance) != 0)
        return 0;
    asked->is_lock = ten_turns_is_lock(instance->metadata);
    return 1;
}

/* Whoever has a lock, or waits for it, would never do what a drain asks: nobody is told that it was asked. */
static int check_drains(ten_store *store, const ten_op *ops, size_t count, uint64_t timeout_ms) {
    for (size_t i = 0; i < count; i++) {
        struct asked asked = {.instance = ops[i].holder};
        if (ops[i].kind != TEN_OP_ASK || ops[i].ask != TEN_ASK_DRAIN || ops[i].target)
            continue;
        int r = store->ops->list_instances(store, ops[i].namespace_name, look_at_asked, &asked, timeout_ms);
        if (r < 0)
            return r;
        if (asked.is_lock)
            return ten_fail(&store->error, TENURE_E_INVALID,
                            "%s cannot be drained: it has a lock or waits for it, until its command ends. Stop that "
                            "command, or take the lock away with 'tenure release NAME --force'",
                            asked.instance);
    }
    return TENURE_OK;
}

int ten_store_apply(ten_store *store, const ten_op *ops, ten_result *results, size_t count, uint64_t timeout_ms) {
    for (size_t i = 0; i < count; i++)
        results[i] = (ten_result){0};
    int r = ten_store_check_ops(store, ops, count);
    if (r == TENURE_OK)
        r = check_drains(store, ops, count, timeout_ms);
    if (r == TENURE_OK && count > 0)
        r = store->ops->apply(store, ops, results, count, timeout_ms);
    for (size_t i = 0; r == TENURE_OK && i < count; i++)
        if (!is_possible(&ops[i], &results[i]))
            r = ten_fail(&store->error, TENURE_E_STORE, "the store answered with a token that it cannot have granted");
    for (size_t i = 0; r < 0 && i < count; i++)
        results[i] = (ten_result){.outcome = TEN_ERROR, .error = r};
    return r;
}

static int forget_items(ten_store *store, const char *namespace_name, ten_forget *items, size_t count,
                        uint64_t timeout_ms, size_t *ret_forgotten) {
    if (!store->ops->forget)
        return ten_fail(&store->error, TENURE_E_UNSUPPORTED, "a store on %s cannot forget targets", store->ops->name);
    int r = TENURE_OK;
    *ret_forgotten = 0;
    for (size_t at = 0, some; r == TENURE_OK && at < count; at += some) {
        some = (size_t)ten_min_u64(count - at, TEN_FORGET_STEP);
        r = store->ops->forget(store, namespace_name, items + at, some, timeout_ms);
        for (size_t i = at; r == TENURE_OK && i < at + some; i++)
            *ret_forgotten += items[i].outcome == TEN_FORGET_DONE;
    }
    return r;
}

int ten_store_forget(ten_store *store, const char *namespace_name, ten_forget *items, size_t count,
                     uint64_t timeout_ms) {
    size_t forgotten;
    return forget_items(store, namespace_name, items, count, timeout_ms, &forgotten);
}

struct unregistered {
    size_t looked_at;
    size_t count;
    char last[TENURE_TARGET_MAX + 1];
    char ids[TEN_FORGET_STEP][TENURE_TARGET_MAX + 1];
};

static int note_unregistered(const ten_row *row, void *userdata) {
    struct unregistered *found = userdata;
    found->looked_at++;
    snprintf(found->last, sizeof found->last, "%s", row->target.id);
    if (!row->registered)
        snprintf(found->ids[found->count++], sizeof found->ids[0], "%s", row->target.id);
    return 0;
}

int ten_store_forget_unregistered(ten_store *store, const char *namespace_name, char after[TENURE_TARGET_MAX + 1],
                                  size_t *ret_forgotten, uint64_t timeout_ms) {
    if (store->ops->forget_unregistered)
        return store->ops->forget_unregistered(store, namespace_name, after, ret_forgotten, timeout_ms);
    ten_forget items[TEN_FORGET_STEP];
    struct unregistered *found = ten_calloc(1, sizeof *found);
    if (!found)
        return ten_fail_memory(&store->error, "a list of targets");
    ten_query query = {.namespace_name = namespace_name,
                       .filter = TENURE_FREE,
                       .after = after[0] ? after : NULL,
                       .limit = TEN_FORGET_STEP};
    *ret_forgotten = 0;
    int r = store->ops->list(store, &query, note_unregistered, found, timeout_ms);
    for (size_t i = 0; i < found->count; i++)
        items[i] = (ten_forget){.id = found->ids[i]};
    if (r == TENURE_OK)
        r = forget_items(store, namespace_name, items, found->count, timeout_ms, ret_forgotten);
    bool more = found->looked_at == TEN_FORGET_STEP;
    snprintf(after, TENURE_TARGET_MAX + 1, "%s", more ? found->last : "");
    ten_free(found);
    return r;
}
