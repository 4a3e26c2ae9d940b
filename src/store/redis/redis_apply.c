/*
 * A batch of operations on Redis. It is cut into calls of the script redis_apply.lua, each with up to CALL_KEYS keys,
 * so that no call holds the server for more than about a millisecond; a few calls are under way at a time. Inside a
 * call the operations are runs that have everything but the key and the token in common. A call that is one run of
 * acquires or renewals, or one release, takes the short way first (redis_lean.h).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/encode.h"
#include "base/hash.h"
#include "base/random.h"
#include "store/redis/redis_lean.h"

#define CALL_KEYS     250u
#define CALL_ACQUIRES 100u /* they write five times as much */
#define IN_FLIGHT     4u
#define SWEEP_KEYS    "1000"
#define SWEEP_GAP_MS  1000u /* between two steps of a namespace, whoever takes them */
#define SWEEP_BEATS   8u    /* heartbeats between two steps of an instance, on average, if it has a session */
#define PROOF_LEASES  16u   /* renewals in a call for which a proof is kept */
#define SEEN_ROOM     1024u /* a power of two, well above CALL_KEYS */

/* Operations [first, first + count) of the batch travel in one call. */
struct call {
    size_t first;
    size_t count;
    bool done;
    bool lean;          /* it went the short way */
    bool unusual;       /* which has sent it to redis_apply.lua */
    bool unproved;      /* or which wants its tokens */
    uint64_t signature; /* of renewals that are one run; 0: something else */
};

struct batch {
    ten_redis_store *store;
    const ten_op *ops;
    ten_result *results;
    size_t count;
    uint64_t deadline_ms;
    struct call *calls;
    size_t call_count;
    size_t acquires;
    bool announces; /* a heartbeat is among them */
    bool writes;
    bool forces;      /* not to be repeated: it would hit the next holder */
    bool reorderable; /* a call may take effect after the next one, and nobody can tell */
};

/* ---- runs and calls ------------------------------------------------------------------------------------ */

static bool same_text(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool alike(const ten_op *a, const ten_op *b) {
    return a->kind == b->kind && a->flags == b->flags && a->ttl_ms == b->ttl_ms && a->reason == b->reason &&
           a->ask == b->ask && a->target && b->target && same_text(a->holder, b->holder) &&
           same_text(a->actor, b->actor) && same_text(a->successor, b->successor) &&
           same_text(a->checkpoint, b->checkpoint) && a->group == b->group;
}

/* The targets of a run, so that none comes twice: the script reads them all before it changes the first. */
struct seen {
    const char *places[SEEN_ROOM];
    size_t used[CALL_KEYS];
    size_t count;
};

static void forget_seen(struct seen *seen) {
    for (size_t i = 0; i < seen->count; i++)
        seen->places[seen->used[i]] = NULL;
    seen->count = 0;
}

static bool see(struct seen *seen, const char *target, uint64_t hash) {
    size_t at = (size_t)hash & (SEEN_ROOM - 1);
    for (; seen->places[at]; at = (at + 1) & (SEEN_ROOM - 1))
        if (strcmp(seen->places[at], target) == 0)
            return false;
    seen->places[at] = target;
    seen->used[seen->count++] = at;
    return true;
}

/* How many operations from `first` on, at most `limit`, make one run; *ret_signature is that of its targets and tokens.
 */
static size_t run_length(const ten_op *ops, size_t limit, uint64_t *ret_signature) {
    static _Thread_local struct seen seen;
    size_t length = 0;
    *ret_signature = 1;
    if (!ops[0].target)
        return 1;
    while (length < limit && alike(&ops[0], &ops[length])) {
        uint64_t hash = ten_hash_mix(ten_hash_text(ops[length].target));
        if (!see(&seen, ops[length].target, hash))
            break;
        *ret_signature = ten_hash_mix(*ret_signature ^ hash) + ops[length].token;
        length++;
    }
    forget_seen(&seen);
    return length;
}

/* Whether an operation may travel in the call that starts with `first`: of one kind (renewals by themselves are the usual
 * case, for which the script has a short way), or the leases that are read with a heartbeat. A group has a call of its
 * own. */
static bool goes_with(const ten_op *first, const ten_op *op) {
    return first->group == op->group &&
           (first->kind == op->kind || (first->kind == TEN_OP_ANNOUNCE && op->kind == TEN_OP_READ)) &&
           same_text(first->namespace_name, op->namespace_name);
}

/* The length of the call that starts at `first`: not too many keys. */
static size_t call_length(const struct batch *batch, size_t first) {
    size_t length = 1;
    size_t most = batch->ops[first].kind == TEN_OP_ACQUIRE ? CALL_ACQUIRES : CALL_KEYS;
    while (first + length < batch->count && length < most && goes_with(&batch->ops[first], &batch->ops[first + length]))
        length++;
    return length;
}

/* Whether the operations are acquires or renewals that are alike. Heartbeats may stand before them where there are no
 * sessions: there a heartbeat is never sent back. With sessions it decides on what the leases behind it can hang. */
static bool is_reorderable(const struct batch *batch) {
    size_t first = 0;
    while (first < batch->count && batch->ops[first].kind == TEN_OP_ANNOUNCE && !batch->store->sessions)
        first++;
    for (size_t i = first; i < batch->count; i++) {
        const ten_op *op = &batch->ops[i];
        if ((op->kind != TEN_OP_ACQUIRE && op->kind != TEN_OP_RENEW) || !alike(&batch->ops[first], op) ||
            !same_text(batch->ops[first].namespace_name, op->namespace_name))
            return false;
    }
    return true;
}

static int cut_into_calls(struct batch *batch) {
    size_t calls = 0;
    for (size_t i = 0; i < batch->count; i += call_length(batch, i))
        calls++;
    batch->calls = ten_calloc(calls, sizeof *batch->calls);
    if (!batch->calls)
        return ten_fail_memory(&batch->store->base.error, "a batch of %zu operations", batch->count);
    for (size_t i = 0; i < batch->count; i += batch->calls[batch->call_count++].count)
        batch->calls[batch->call_count] = (struct call){.first = i, .count = call_length(batch, i)};
    batch->reorderable = is_reorderable(batch);
    for (size_t i = 0; i < batch->count; i++) {
        batch->acquires += batch->ops[i].kind == TEN_OP_ACQUIRE;
        batch->announces |= batch->ops[i].kind == TEN_OP_ANNOUNCE;
        batch->writes |= batch->ops[i].kind != TEN_OP_READ;
        batch->forces |= (batch->ops[i].flags & (TEN_OP_FORCE | TEN_OP_FORCE_NOW)) != 0;
    }
    return TENURE_OK;
}

/* ---- out ----------------------------------------------------------------------------------------------- */

static const char *kind_word(const ten_op *op) {
    return op->kind == TEN_OP_ASK && !op->target ? "ask_instance" : ten_op_kind_name(op->kind);
}

#define FLAGS_SIZE 64u
static const char *flag_words(const ten_redis_store *store, const ten_op *op, char text[FLAGS_SIZE]) {
    static const struct {
        unsigned flag;
        const char *word;
    } words[] = {{TEN_OP_FORCE_NOW, "force now "},
                 {TEN_OP_FORCE, "force "},
                 {TEN_OP_KEEP, "keep "},
                 {TEN_OP_FRESH, "fresh "},
                 {TEN_OP_REQUIRE_TARGET, "require "},
                 {TEN_OP_WITH_CHECKPOINT, "checkpoint "},
                 {TEN_OP_SESSION, "session "}};
    size_t size = (size_t)snprintf(text, FLAGS_SIZE, "%s", op->group ? "group " : "");
    for (size_t i = 0; i < TEN_COUNT(words); i++)
        if ((op->flags & words[i].flag) && (store->sessions || words[i].flag != TEN_OP_SESSION))
            size += (size_t)snprintf(text + size, FLAGS_SIZE - size, "%s", words[i].word);
    return text;
}

static const char *or_empty(const char *text) {
    return text ? text : "";
}

static void add_run(ten_redis_store *store, const ten_op *ops, size_t count) {
    ten_redis_words *words = &store->words;
    const ten_op *op = &ops[0];
    char flags[FLAGS_SIZE];
    ten_redis_word(words, kind_word(op));
    ten_redis_word_number(words, count);
    ten_redis_word(words, flag_words(store, op, flags));
    ten_redis_word(words, or_empty(op->holder));
    ten_redis_word_number(words, op->ttl_ms);
    ten_redis_word_number(words, op->reason);
    ten_redis_word(words, or_empty(op->actor));
    ten_redis_word_number(words, op->kind == TEN_OP_ANNOUNCE ? op->weight : op->ask);
    ten_redis_word(words, or_empty(op->kind == TEN_OP_HAND         ? op->successor
                                   : op->kind == TEN_OP_CHECKPOINT ? op->checkpoint
                                                                   : op->metadata));
    bool has_tokens = op->kind == TEN_OP_RENEW || op->kind == TEN_OP_RELEASE || op->kind == TEN_OP_HAND ||
                      op->kind == TEN_OP_CHECKPOINT;
    ten_redis_word_tokens(words, ops, has_tokens ? count : 0);
}

static uint64_t *place_of_proof(ten_redis_store *store, uint64_t signature) {
    return &store->proved[signature % TEN_REDIS_PROOFS];
}

static uint64_t sign(const ten_op *op, uint64_t signature) {
    signature = ten_hash_mix(signature ^ ten_hash_text(op->namespace_name)) + op->ttl_ms;
    signature = ten_hash_mix(signature ^ ten_hash_text(op->holder));
    return signature ? signature : 1;
}

/* Only where the server need not go through many fences is the proof worth a second request when it is over. */
static const char *proof_for(ten_redis_store *store, const struct call *call) {
    bool proved = call->signature && store->proof[0] && *place_of_proof(store, call->signature) == call->signature;
    return proved && !call->unproved && call->count >= PROOF_LEASES ? store->proof : NULL;
}

/* A call that the server sends back is repeated after the calls behind it. */
static bool may_be_lean(const struct batch *batch, const struct call *call, size_t run) {
    bool beats = batch->ops[call->first].kind == TEN_OP_ANNOUNCE;
    return (beats ? batch->store->sessions : run == call->count) && !call->unusual &&
           (batch->call_count == 1 || batch->reorderable) && ten_redis_lean_fits(&batch->ops[call->first], call->count);
}

static void make_call(struct batch *batch, const struct call *call, const ten_redis_space *space) {
    ten_redis_store *store = batch->store;
    const ten_op *ops = &batch->ops[call->first];
    ten_redis_script_in(store, TEN_REDIS_APPLY, space, call->count);
    for (size_t i = 0; i < call->count; i++)
        ten_redis_word_key(&store->words, ops[i].target ? &space->lease : &space->node,
                           ops[i].target ? ops[i].target : ops[i].holder);
    ten_redis_arguments(store, space);
    for (size_t i = 0; i < call->count;) {
        uint64_t ignored;
        size_t length = run_length(&ops[i], call->count - i, &ignored);
        add_run(store, &ops[i], length);
        i += length;
    }
}

static int send_call(struct batch *batch, struct call *call) {
    ten_redis_store *store = batch->store;
    const ten_op *ops = &batch->ops[call->first];
    const ten_redis_space *space;
    uint64_t signature;
    int r = ten_redis_space_get(&store->layout, ops[0].namespace_name, &space, &store->base.error);
    if (r < 0)
        return r;
    call->lean = may_be_lean(batch, call, run_length(ops, call->count, &signature));
    call->signature = call->lean && ops[0].kind == TEN_OP_RENEW ? sign(ops, signature) : 0;
    if (call->lean)
        ten_redis_lean_make(store, space, ops, call->count, proof_for(store, call));
    else
        make_call(batch, call, space);
    return ten_redis_send(store);
}

/* ---- in ------------------------------------------------------------------------------------------------ */

/* Done as it was asked. */
static int take_plain(ten_redis_store *store, const ten_op *op, uint64_t token, ten_result *result) {
    result->outcome = TEN_OK;
    result->token = token;
    if (op->kind == TEN_OP_RELEASE)
        return TENURE_OK;
    result->ttl_ms = op->ttl_ms;
    result->remaining_ms = op->ttl_ms;
    result->holder = op->holder ? ten_arena_text(&store->results, op->holder) : NULL;
    return op->holder && !result->holder ? ten_fail_memory(&store->base.error, "an answer") : TENURE_OK;
}

/* Where the lease should be is something else. It is not an error of the batch, so only the message says where. */
static void tell_foreign_key(ten_redis_store *store, const ten_op *op, const char *type) {
    const ten_redis_space *space;
    ten_error ignored;
    if (ten_redis_space_get(&store->layout, op->namespace_name, &space, &ignored) < 0)
        return;
    (void)ten_fail(
        &store->base.error, TENURE_E_STORE,
        "the Redis key %s%s%s holds a %s that is not Tenure's: delete or rename it, or choose other keys with "
        "lease_key= in the store's URL",
        space->lease.before, op->target, space->lease.after, type);
}

/* The leases of a fleet are kept in one way: the keys of the others would not mean what this one's do. */
static int fail_mode(ten_redis_store *store, const ten_op *op, bool others_have_sessions) {
    return ten_fail(
        &store->base.error, TENURE_E_INVALID,
        "%s: the instances of namespace %s use leases=%s, but this URL says leases=%s%s; use one setting for "
        "a namespace",
        ten_redis_settings_name(store->settings), op->namespace_name, others_have_sessions ? "session" : "key",
        store->sessions ? "session" : "key", store->sessions ? "" : " (the default)");
}

static int take_error(ten_redis_store *store, const ten_op *op, redisReply *const *fields, ten_result *result) {
    const char *name = ten_redis_text(fields[1]);
    if (strcmp(name, "mode") == 0)
        return fail_mode(store, op, ten_redis_number(fields[2]) == 1);
    result->outcome = TEN_ERROR;
    if (strcmp(name, "gone") == 0)
        result->error = TENURE_E_GONE;
    else if (strcmp(name, "token") == 0)
        result->error = TENURE_E_TOKEN;
    else if (strcmp(name, "ttl") == 0)
        result->error = TENURE_E_TTL;
    else if (strcmp(name, "type") == 0) {
        result->error = TENURE_E_STORE;
        tell_foreign_key(store, op, ten_redis_text(fields[2]));
    } else
        return ten_redis_misunderstood(store);
    if (result->error == TENURE_E_TTL)
        result->ttl_ms = ten_redis_number(fields[2]);
    return TENURE_OK;
}

enum { IS_BARRED = 1, IS_RECOVERING = 2, IS_REGISTERED = 4, IS_PAUSED = 8 };

static int take_details(ten_redis_store *store, const ten_op *op, const redisReply *reply, ten_result *result) {
    redisReply *const *fields = reply->element;
    uint64_t outcome = reply->elements > 0 ? ten_redis_number(fields[0]) : UINT64_MAX;
    if (outcome == TEN_UNKNOWN) {
        result->outcome = TEN_UNKNOWN;
        return TENURE_OK;
    }
    if (outcome == TEN_ERROR && reply->elements == 3)
        return take_error(store, op, fields, result);
    if (outcome > TEN_UNKNOWN || (reply->elements != 8 && reply->elements != 9 && reply->elements != 11))
        return ten_redis_misunderstood(store);
    uint64_t flags = ten_redis_number(fields[5]);
    result->outcome = (enum ten_outcome)outcome;
    result->token = ten_redis_number(fields[1]);
    result->ttl_ms = ten_redis_number(fields[2]);
    result->remaining_ms = ten_redis_number(fields[3]);
    result->barred = flags & IS_BARRED;
    result->recovering = flags & IS_RECOVERING;
    result->registered = flags & IS_REGISTERED;
    result->paused = flags & IS_PAUSED;
    result->ask = (enum ten_ask)ten_redis_number(fields[6]);
    result->acquired_at_ms = ten_redis_number(fields[7]);
    if (fields[4]->type == REDIS_REPLY_STRING && !(result->holder = ten_arena_text(&store->results, fields[4]->str)))
        return ten_fail_memory(&store->base.error, "an answer");
    result->session = reply->elements > 8 ? ten_redis_number(fields[8]) : 0; /* the lean scripts know none */
    if (op->kind == TEN_OP_ANNOUNCE) {
        result->session_version = result->token;
        result->token = 0;
    }
    if (reply->elements < 11)
        return TENURE_OK;
    result->checkpoint = ten_arena_text(&store->results, ten_redis_text(fields[9]));
    result->checkpoint_token = ten_redis_number(fields[10]);
    return result->checkpoint ? TENURE_OK : ten_fail_memory(&store->base.error, "an answer");
}

static int take_one(ten_redis_store *store, const ten_op *op, const redisReply *reply, ten_result *result) {
    *result = (ten_result){0};
    if (!reply)
        return take_plain(store, op, op->token, result);
    if (reply->type == REDIS_REPLY_INTEGER && op->kind == TEN_OP_ACQUIRE && reply->integer > 0 &&
        (uint64_t)reply->integer <= TENURE_TOKEN_MAX)
        return take_plain(store, op, ten_redis_number(reply), result);
    return reply->type == REDIS_REPLY_ARRAY ? take_details(store, op, reply, result) : ten_redis_misunderstood(store);
}

static void forget_proofs(ten_redis_store *store) {
    memset(store->proved, 0, sizeof store->proved);
    store->proof[0] = '\0';
}

static void keep_proof(ten_redis_store *store, const struct call *call, const char *proof) {
    if (!call->signature || strlen(proof) >= sizeof store->proof)
        return;
    if (strcmp(store->proof, proof) != 0) {
        forget_proofs(store);
        snprintf(store->proof, sizeof store->proof, "%s", proof);
    }
    *place_of_proof(store, call->signature) = call->signature;
}

/* An answer of redis_lean_run.lua or redis_lean_beat.lua: of renewals nothing, or the state to show the next time. */
static int take_run(struct batch *batch, const struct call *call, const redisReply *reply) {
    ten_redis_store *store = batch->store;
    const ten_op *ops = &batch->ops[call->first];
    ten_result *results = &batch->results[call->first];
    bool renews = ops[0].kind == TEN_OP_RENEW;
    bool has_state = renews && reply->elements == 1 && reply->element[0]->type == REDIS_REPLY_STRING;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != (renews ? has_state : call->count))
        return ten_redis_misunderstood(store);
    if (has_state)
        keep_proof(store, call, reply->element[0]->str);
    int r = TENURE_OK;
    for (size_t i = 0; r == TENURE_OK && i < call->count; i++)
        r = take_one(store, &ops[i], renews ? NULL : reply->element[i], &results[i]);
    return r;
}

/* An answer of redis_lean.lua: a token, a 1, or the lease of somebody else. */
static int take_lean(struct batch *batch, const struct call *call, const redisReply *reply) {
    const ten_op *op = &batch->ops[call->first];
    if (call->count > 1 || op->kind == TEN_OP_ANNOUNCE)
        return take_run(batch, call, reply);
    bool plain = op->kind != TEN_OP_ACQUIRE && reply->type == REDIS_REPLY_INTEGER;
    return take_one(batch->store, op, plain ? NULL : reply, &batch->results[call->first]);
}

static int take_call(struct batch *batch, const struct call *call, const redisReply *reply) {
    ten_redis_store *store = batch->store;
    const ten_op *ops = &batch->ops[call->first];
    ten_result *results = &batch->results[call->first];
    size_t run = 0;
    if (call->lean)
        return take_lean(batch, call, reply);
    int r = reply->type == REDIS_REPLY_ARRAY ? TENURE_OK : ten_redis_misunderstood(store);
    for (size_t i = 0; r == TENURE_OK && i < call->count; run++) {
        uint64_t ignored;
        size_t length = run_length(&ops[i], call->count - i, &ignored);
        const redisReply *answers = run < reply->elements ? reply->element[run] : NULL;
        if (!answers || answers->type != REDIS_REPLY_ARRAY || answers->elements != length)
            return ten_redis_misunderstood(store);
        for (size_t j = 0; r == TENURE_OK && j < length; j++)
            r = take_one(store, &ops[i + j], answers->element[j], &results[i + j]);
        i += length;
    }
    return r;
}

/* ---- the batch ----------------------------------------------------------------------------------------- */

/* The lean script wants the tokens of these renewals, or leaves the call to the full one. */
static bool is_sent_back(struct batch *batch, struct call *call, const redisReply *reply) {
    if (!call->lean || reply->type != REDIS_REPLY_STATUS)
        return false;
    call->unproved = true;
    call->unusual = strcmp(reply->str, "AGAIN") != 0;
    if (!call->unusual)
        forget_proofs(batch->store);
    return true;
}

/* What has become of the calls that were sent. */
struct exchange {
    size_t sent;
    size_t under_way;
    bool forgotten; /* the server did not know a script */
    bool sent_back; /* a call has to be sent again: in another form, and before those that follow */
};

static int send_calls(struct batch *batch, struct exchange *state) {
    int r = TENURE_OK;
    bool stopped = state->forgotten || state->sent_back;
    for (; r == TENURE_OK && !stopped && state->sent < batch->call_count && state->under_way < IN_FLIGHT;
         state->sent++) {
        if (batch->calls[state->sent].done)
            continue;
        r = send_call(batch, &batch->calls[state->sent]);
        if (r == TENURE_OK) /* the server starts while the next is put together */
            r = ten_redis_link_flush(batch->store->link, batch->deadline_ms, &batch->store->base.error);
        state->under_way++;
    }
    return r;
}

/* Sends the calls that are not done, a few ahead of the answers, until all are done or one has to be sent again. */
static int exchange(struct batch *batch, struct exchange *state) {
    *state = (struct exchange){0};
    int r = send_calls(batch, state);
    for (size_t i = 0; r == TENURE_OK && state->under_way > 0; i++) {
        struct call *call = &batch->calls[i];
        if (call->done)
            continue;
        TEN_CLEANUP(ten_redis_free_reply) redisReply *reply = NULL;
        r = ten_redis_receive(batch->store, "a batch of leases", batch->deadline_ms, &reply);
        if (r < 0)
            return r;
        state->under_way--;
        if (!reply) {
            state->forgotten = true;
        } else if (is_sent_back(batch, call, reply)) {
            state->sent_back = true;
        } else {
            r = take_call(batch, call, reply);
            call->done = true;
        }
        if (r == TENURE_OK)
            r = send_calls(batch, state);
    }
    return r;
}

/* A call is sent back at most twice, so this comes to an end. */
static int run_calls(struct batch *batch) {
    struct exchange state;
    unsigned reloads = 0;
    int r = exchange(batch, &state);
    while (r == TENURE_OK && (state.sent_back || (state.forgotten && reloads < 3))) {
        reloads += state.forgotten;
        if (state.forgotten)
            r = ten_redis_load_scripts(batch->store, batch->deadline_ms);
        if (r == TENURE_OK)
            r = exchange(batch, &state);
    }
    if (r == TENURE_OK && state.forgotten)
        r = ten_fail(&batch->store->base.error, TENURE_E_STORE,
                     "%s: the script cache was flushed repeatedly (NOSCRIPT); stop what runs SCRIPT FLUSH",
                     ten_redis_settings_name(batch->store->settings));
    return r;
}

/* ---- replicas ------------------------------------------------------------------------------------------ */

/* The number of replicas that have what this connection wrote. */
static int ask_replicas(struct batch *batch, uint64_t *ret_count) {
    ten_redis_store *store = batch->store;
    uint64_t left_ms = ten_sub_saturating(batch->deadline_ms, ten_now_ms());
    char number[24];
    char time[24];
    snprintf(number, sizeof number, "%llu", (unsigned long long)store->wait_replicas);
    /* Redis looks after its waiting clients ten times a second: its own "not enough" is to come before our deadline. */
    snprintf(time, sizeof time, "%llu",
             (unsigned long long)ten_max_u64(ten_sub_saturating(left_ms, left_ms / 4 + 100), 1));
    const char *const words[] = {"WAIT", number, time};
    TEN_CLEANUP(ten_redis_free_reply) redisReply *reply = NULL;
    int r = ten_redis_link_ask(store->link, batch->deadline_ms, &reply, &store->base.error, words, TEN_COUNT(words));
    *ret_count = r == TENURE_OK ? ten_redis_number(reply) : 0;
    return r;
}

/* An epoch counts from the moment at which the replicas had a write of it. They have one now; if nobody has said so
 * yet, this does. */
static int confirm_epoch(struct batch *batch, const char *namespace_name) {
    ten_redis_store *store = batch->store;
    const ten_redis_space *space;
    int r = ten_redis_space_get(&store->layout, namespace_name, &space, &store->base.error);
    if (r < 0)
        return r;
    const char *const words[] = {"HGET", space->own[TEN_REDIS_EPOCH], "provisional"};
    TEN_CLEANUP(ten_redis_free_reply) redisReply *found = NULL;
    r = ten_redis_link_ask(store->link, batch->deadline_ms, &found, &store->base.error, words, TEN_COUNT(words));
    if (r < 0 || ten_redis_number(found) == 0)
        return r;
    ten_redis_script_in(store, TEN_REDIS_CONFIRM, space, 0);
    ten_redis_arguments(store, space);
    r = ten_redis_send(store);
    TEN_CLEANUP(ten_redis_free_reply) redisReply *reply = NULL;
    return r < 0 ? r : ten_redis_receive(store, "confirming an epoch", batch->deadline_ms, &reply);
}

/* With wait_replicas nothing counts that is not on that many replicas: a failover would forget it. */
static int wait_for_replicas(struct batch *batch) {
    ten_redis_store *store = batch->store;
    uint64_t count;
    int r = ask_replicas(batch, &count);
    if (r == TENURE_OK && count < store->wait_replicas)
        return ten_fail(&store->base.error, TENURE_E_TIMEOUT,
                        "%s: %llu of the %llu replicas that wait_replicas asks for have acknowledged the change in "
                        "time, so it does not count; start the others, or lower wait_replicas",
                        ten_redis_settings_name(store->settings), (unsigned long long)count,
                        (unsigned long long)store->wait_replicas);
    const char *last = NULL;
    for (size_t i = 0; r == TENURE_OK && i < batch->call_count; i++) {
        const char *namespace_name = batch->ops[batch->calls[i].first].namespace_name;
        if (!last || strcmp(last, namespace_name) != 0)
            r = confirm_epoch(batch, namespace_name);
        last = namespace_name;
    }
    return r;
}

/* ---- the sweep ----------------------------------------------------------------------------------------- */

/* A step in the search for instances that another program announced. What it finds comes by the feed. A failure costs
 * nothing: the next heartbeat takes the step again. */
static int sweep(struct batch *batch) {
    ten_redis_store *store = batch->store;
    const ten_redis_space *space;
    int r = ten_redis_space_get(&store->layout, batch->ops[0].namespace_name, &space, &store->base.error);
    if (r < 0)
        return r;
    ten_redis_script_in(store, TEN_REDIS_SWEEP, space, 0);
    ten_redis_arguments(store, space);
    ten_redis_word(&store->words, space->node_glob);
    ten_redis_word(&store->words, SWEEP_KEYS);
    ten_redis_word_number(&store->words, SWEEP_GAP_MS);
    r = ten_redis_send(store);
    TEN_CLEANUP(ten_redis_free_reply) redisReply *reply = NULL;
    if (r == TENURE_OK)
        r = ten_redis_link_receive(store->link, batch->deadline_ms, &reply, &store->base.error);
    const char *eviction = r == TENURE_OK && reply->type == REDIS_REPLY_STRING ? reply->str : "";
    /* It was set to evict while this was connected. The next call connects again, and is refused with the reason. */
    if (eviction[0] != '\0' && strcmp(eviction, "noeviction") != 0)
        r = TENURE_E_STORE;
    return r;
}

/* Where leases hang on sessions there are no other programs to be found: it is enough to hear of the policy of eviction
 * now and then. */
static bool is_time_to_sweep(const struct batch *batch) {
    return batch->announces && (!batch->store->sessions || ten_random_u64() % SWEEP_BEATS == 0);
}

/* ---- what nobody has used for long --------------------------------------------------------------------- */

#define AGED_EVERY 125u /* acquires between two steps, on average; a step looks at twice as many targets */

/* A step in the search for counters that can be forgotten, whoever writes: a program that runs once makes it by chance. */
static int forget_aged(struct batch *batch) {
    ten_redis_store *store = batch->store;
    const ten_redis_space *space;
    int r = ten_redis_space_get(&store->layout, batch->ops[0].namespace_name, &space, &store->base.error);
    if (r < 0)
        return r;
    ten_redis_script_in(store, TEN_REDIS_FORGET, space, 0);
    ten_redis_arguments(store, space);
    r = ten_redis_send(store);
    TEN_CLEANUP(ten_redis_free_reply) redisReply *reply = NULL;
    return r < 0 ? r : ten_redis_link_receive(store->link, batch->deadline_ms, &reply, &store->base.error);
}

static bool is_time_to_forget(const struct batch *batch) {
    uint64_t *left = &batch->store->aged_after;
    if (*left == 0)
        *left = 1 + ten_random_u64() % (2 * AGED_EVERY - 1);
    bool due = batch->acquires >= *left;
    *left = due ? 0 : *left - batch->acquires;
    return due;
}

/* ---- the batch, once ----------------------------------------------------------------------------------- */

static int run_batch(struct batch *batch) {
    int r = ten_redis_connect(batch->store, batch->deadline_ms);
    if (r == TENURE_OK)
        r = run_calls(batch);
    if (r == TENURE_OK && batch->writes && batch->store->wait_replicas > 0)
        r = wait_for_replicas(batch);
    if (r < 0)
        ten_redis_disconnect(batch->store);
    else if ((is_time_to_sweep(batch) && sweep(batch) < 0) || (is_time_to_forget(batch) && forget_aged(batch) < 0))
        ten_redis_disconnect(batch->store);
    return r;
}

int ten_redis_check_op(ten_store *base, const ten_op *op) {
    const ten_redis_space *space;
    int r = ten_redis_space_get(&((ten_redis_store *)base)->layout, op->namespace_name, &space, &base->error);
    return r == TENURE_OK && op->target ? ten_redis_space_check(space, op->target, &base->error) : r;
}

int ten_redis_apply(ten_store *base, const ten_op *ops, ten_result *results, size_t count, uint64_t timeout_ms) {
    ten_redis_store *store = (ten_redis_store *)base;
    struct batch batch = {.store = store,
                          .ops = ops,
                          .results = results,
                          .count = count,
                          .deadline_ms = ten_add_saturating(ten_now_ms(), timeout_ms)};
    ten_arena_reset(&store->results);
    int r = cut_into_calls(&batch);
    bool was_connected = store->link != NULL;
    if (r == TENURE_OK)
        r = run_batch(&batch);
    if (batch.calls && !batch.forces && ten_dial_worth_another(r, was_connected, batch.deadline_ms)) {
        for (size_t i = 0; i < batch.call_count; i++)
            batch.calls[i].done = false;
        r = run_batch(&batch);
    }
    ten_free(batch.calls);
    return r;
}
