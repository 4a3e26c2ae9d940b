/*
 * A commit as the words of a script, and what comes back. A large one is cut into calls of whole changes, each of which is
 * atomic. redis.lua carries them out.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "store/redis/redis_state.h"

#define COMMIT_PARTS 500u  /* checks and writes in a call, unless one change has more */
#define PLACES       1024u /* records of a call, at most */
#define SHARED       16u   /* records that many changes check: each is sent once */

struct committing {
    const ten_redis_space *space;
    ten_commit *commit;
    ten_redis_reliance reliance;
    size_t *firsts; /* change with which each call begins; and behind the last */
    size_t done;    /* calls that were carried out */
    bool other;
    bool writes_space;
    char channel[TENURE_NAMESPACE_MAX + 48];
    ten_key places[PLACES]; /* the records of the call that is put together */
    size_t numbers[PLACES]; /* under which the server knows it: those with a plain key come first */
    size_t place_count;
    size_t shared[SHARED];
    size_t shared_count;
};

static bool is_same_key(ten_key a, ten_key b) {
    return a.kind == b.kind && strcmp(a.id, b.id) == 0;
}

static size_t add_place(struct committing *state, ten_key key) {
    TEN_INVARIANT(state->place_count < PLACES);
    state->places[state->place_count] = key;
    if (key.kind <= TEN_KIND_INSTANCE && state->shared_count < SHARED)
        state->shared[state->shared_count++] = state->place_count;
    return state->place_count++;
}

/* Where the record is among those of the call. Those of targets are one change's own. */
static size_t place_of(struct committing *state, ten_key key, size_t own) {
    for (size_t i = 0; key.kind <= TEN_KIND_INSTANCE && i < state->shared_count; i++)
        if (is_same_key(state->places[state->shared[i]], key))
            return state->shared[i];
    for (size_t i = own; i < state->place_count; i++)
        if (is_same_key(state->places[i], key))
            return i;
    return add_place(state, key);
}

static void add_place_number(ten_redis_words *words, struct committing *state, ten_key key, size_t own) {
    ten_redis_word_number(words, state->numbers[place_of(state, key, own)]);
}

/* Those with a plain key, then the others, and the namespace's as the last. How many have one. */
static size_t number_places(struct committing *state, size_t order[PLACES]) {
    size_t count = 0;
    for (size_t i = 1; i < state->place_count; i++)
        if (ten_redis_plain(state->space, state->places[i].kind))
            order[count++] = i;
    size_t plain = count;
    for (size_t i = 1; i < state->place_count; i++)
        if (!ten_redis_plain(state->space, state->places[i].kind))
            order[count++] = i;
    order[count] = 0;
    for (size_t i = 0; i <= count; i++)
        state->numbers[order[i]] = i + 1;
    return plain;
}

static void add_checks(ten_redis_words *words, struct committing *state, const ten_commit_change *change, size_t own) {
    static const char *const lives[] = {[TEN_CHECK_EITHER] = "",
                                        [TEN_CHECK_ALIVE] = "alive",
                                        [TEN_CHECK_DEAD] = "dead",
                                        [TEN_CHECK_FOREIGN] = "foreign"};
    for (size_t i = 0; i < change->check_count; i++) {
        const ten_check *check = &change->checks[i];
        add_place_number(words, state, check->key, own);
        if (check->version == TEN_VERSION_ANY)
            ten_redis_word(words, "");
        else
            ten_redis_word_number(words, check->version);
        ten_redis_word(words, lives[check->life]);
    }
}

static const char *life_letter(const ten_write *write) {
    const ten_life *life = &write->life;
    if (write->kind != TEN_WRITE_PUT)
        return write->kind == TEN_WRITE_RAISE ? "R" : "X";
    if (life->kind != TEN_LIFE_LATEST)
        return life->kind == TEN_LIFE_ENDED ? "D" : "F";
    return life->as_it_is ? "K" : life->with.id || life->ttl_ms == 0 ? "W" : "T";
}

/* What other programs are to read. */
static void add_content(ten_redis_words *words, const ten_write *write) {
    bool shows = write->kind == TEN_WRITE_PUT && write->name[0] != '\0';
    if (shows && write->key.kind == TEN_KIND_LEASE) {
        ten_buf_text(&words->text, write->name);
        if (write->life.session)
            ten_buf_format(&words->text, "\tsession %llu", (unsigned long long)write->life.session);
    } else if (shows && write->key.kind == TEN_KIND_INSTANCE) {
        ten_buf_format(&words->text, "%llu", (unsigned long long)write->number);
    }
    ten_redis_word(words, "");
}

static void add_writes(ten_redis_words *words, struct committing *state, const ten_commit_change *change, size_t own) {
    for (size_t i = 0; i < change->write_count; i++) {
        const ten_write *write = &change->writes[i];
        bool puts = write->kind == TEN_WRITE_PUT;
        add_place_number(words, state, write->key, own);
        ten_redis_word(words, life_letter(write));
        ten_redis_word_number(words, puts ? write->life.ttl_ms : 0);
        if (puts && write->life.with.id)
            add_place_number(words, state, write->life.with, own);
        else
            ten_redis_word(words, "0");
        ten_redis_word(words, puts ? write->name : "");
        if (puts) {
            ten_buf_format(&words->text, "%llu%c", (unsigned long long)write->number, 0);
            ten_redis_word(words, write->value);
        } else {
            ten_redis_word(words, "");
        }
        add_content(words, write);
    }
}

static void add_change(ten_redis_words *words, struct committing *state, const ten_commit_change *change) {
    size_t own = state->place_count;
    ten_redis_word_number(words, change->check_count);
    ten_redis_word_number(words, change->write_count);
    ten_redis_word_number(words, change->entry_count);
    add_checks(words, state, change, own);
    add_writes(words, state, change, own);
    for (size_t i = 0; i < change->entry_count; i++) {
        ten_redis_word(words, change->entries[i].id ? change->entries[i].id : "");
        ten_redis_word(words, change->entries[i].text);
    }
}

static void add_changes(ten_redis_words *words, struct committing *state, size_t at) {
    state->place_count = state->shared_count = 0;
    (void)add_place(state, (ten_key){TEN_KIND_NAMESPACE, ""});
    for (size_t i = state->firsts[at]; i < state->firsts[at + 1]; i++)
        add_change(words, state, &state->commit->changes[i]);
}

/* The changes name the numbers of records, which come before them: so they are put together twice, first to find the records. */
static void make_commit(ten_redis_store *store, void *userdata, size_t at) {
    struct committing *state = userdata;
    ten_redis_words *words = &store->words;
    size_t order[PLACES];
    ten_redis_command(store);
    add_changes(words, state, at);
    size_t plain = number_places(state, order);
    size_t count = state->place_count;
    ten_redis_script(store, TEN_REDIS_COMMIT, 3 + plain);
    ten_redis_word(words, state->space->own[TEN_REDIS_RECORDS]);
    ten_redis_word(words, state->space->own[TEN_REDIS_IDS]);
    ten_redis_word(words, state->space->own[TEN_REDIS_FEED]);
    for (size_t i = 0; i < plain; i++)
        ten_redis_word_plain(words, state->space, state->places[order[i]]);
    ten_redis_word(words, state->reliance.replication);
    ten_redis_word_bytes(words, state->reliance.space, state->writes_space ? 0 : state->reliance.space_size);
    ten_redis_word_number(words, state->commit->least_number);
    ten_redis_word(words, state->channel);
    ten_redis_word_number(words, count);
    for (size_t i = 0; i < count; i++)
        ten_redis_word_field(words, state->places[order[i]]);
    ten_redis_word(words, "number");
    add_changes(words, state, at);
}

/* In the place of a key is something else. It is not an error of the batch, so only the message says where. */
static int fail_type(ten_redis_store *store, const struct committing *state, const ten_commit_change *change,
                     const char *type) {
    const char *id = "";
    for (size_t i = 0; i < change->write_count; i++)
        if (change->writes[i].key.kind == TEN_KIND_LEASE)
            id = change->writes[i].key.id;
    return ten_fail(
        store->base.error, TENURE_E_STORE,
        "the Redis key %s%s%s holds a %s that is not Tenure's: delete or rename it, or choose other keys with "
        "lease_key= in the store's URL",
        state->space->lease.before, id, state->space->lease.after, type);
}

static int take_conflict(ten_redis_store *store, ten_commit_change *change, const redisReply *reply, size_t *part) {
    int r = TENURE_OK;
    change->conflict = true;
    if (reply->elements < *part + 3 * change->check_count)
        return ten_redis_misunderstood(store);
    for (size_t i = 0; r == TENURE_OK && i < change->check_count; i++, *part += 3) {
        change->checks[i].present.key = change->checks[i].key;
        r = ten_redis_take_record(store, reply->element + *part, &change->checks[i].present);
    }
    return r;
}

static int take_commit(ten_redis_store *store, void *userdata, size_t at, const redisReply *reply) {
    struct committing *state = userdata;
    size_t first = state->firsts[at];
    size_t last = state->firsts[at + 1];
    if (!ten_redis_answered(store, reply) || reply->elements < 2)
        return ten_redis_misunderstood(store);
    if (ten_redis_is_other(reply)) {
        state->other = true;
        return TENURE_OK;
    }
    state->done++;
    for (size_t i = first; i < last; i++)
        for (size_t j = 0; j < state->commit->changes[i].write_count; j++) {
            ten_write *write = &state->commit->changes[i].writes[j];
            write->version = write->kind == TEN_WRITE_REMOVE ? 0 : ten_redis_number(reply->element[1]);
        }
    int r = TENURE_OK;
    for (size_t part = 2; r == TENURE_OK && part < reply->elements;) {
        long long place = reply->element[part++]->integer;
        size_t change = first + (size_t)(place < 0 ? -place : place) - 1;
        if (change < first || change >= last || (place < 0 && part == reply->elements))
            return ten_redis_misunderstood(store);
        if (place < 0)
            state->commit->changes[change].error =
                fail_type(store, state, &state->commit->changes[change], ten_redis_text(reply->element[part++]));
        else
            r = take_conflict(store, &state->commit->changes[change], reply, &part);
    }
    return r;
}

static size_t parts_of(const ten_commit_change *change) {
    return change->check_count + 2 * change->write_count + 1;
}

/* Whole changes, as many in each call as it bears. The number of calls. */
static size_t cut(const ten_commit *commit, size_t *firsts) {
    size_t calls = 0;
    size_t parts = 0;
    for (size_t i = 0; i < commit->count; i++) {
        size_t more = parts_of(&commit->changes[i]);
        if (i == 0 || parts + more > COMMIT_PARTS) {
            firsts[calls++] = i;
            parts = 0;
        }
        parts += more;
    }
    firsts[calls] = commit->count;
    return calls;
}

/* Whether the commit writes the namespace's record; *ret_makes: which was not there. */
static bool writes_space(const ten_commit *commit, bool *ret_makes) {
    bool writes = false;
    *ret_makes = false;
    for (size_t i = 0; i < commit->count; i++) {
        const ten_commit_change *change = &commit->changes[i];
        for (size_t j = 0; j < change->write_count; j++)
            writes |= change->writes[j].key.kind == TEN_KIND_NAMESPACE;
        for (size_t j = 0; j < change->check_count; j++)
            *ret_makes |= change->checks[j].key.kind == TEN_KIND_NAMESPACE && change->checks[j].version == 0;
    }
    return writes;
}

static int run_commit(ten_redis_store *store, struct committing *state, uint64_t deadline_ms) {
    bool makes;
    bool found;
    state->writes_space = writes_space(state->commit, &makes);
    int r = state->writes_space && makes
                ? ten_redis_look_elsewhere(store, state->space, state->commit->identity, deadline_ms, &found)
                : TENURE_OK;
    if (r == TENURE_OK)
        r = ten_redis_call(store, "a commit", cut(state->commit, state->firsts), make_commit, take_commit, state,
                           deadline_ms);
    if (r < 0 || (state->other && state->done == 0))
        return r < 0 ? r : TEN_OTHER_EPOCH;
    if (state->other)
        return ten_fail(store->base.error, TENURE_E_UNREACHABLE, "%s: an epoch began in the middle of a commit",
                        ten_redis_settings_name(store->settings));
    memmove(store->base.identity, state->commit->identity, strlen(state->commit->identity) + 1);
    return ten_redis_wait(store, state->space, deadline_ms);
}

/* A lease that could never be had is not registered either. */
static int check_keys(ten_redis_store *store, const ten_redis_space *space, const ten_commit_change *change) {
    int r = TENURE_OK;
    for (size_t i = 0; r == TENURE_OK && i < change->write_count; i++)
        if (change->writes[i].key.kind == TEN_KIND_TARGET)
            r = ten_redis_space_check(space, change->writes[i].key.id, store->base.error);
    return r;
}

int ten_redis_carry_out(ten_redis_store *store, ten_commit *commit, uint64_t deadline_ms) {
    struct committing state = {.commit = commit, .reliance = ten_redis_rely_on(store, commit->identity, commit->epoch)};
    state.firsts = ten_malloc((commit->count + 1) * sizeof *state.firsts);
    int r = state.firsts ? ten_redis_space_get(&store->layout, commit->namespace_name, &state.space, store->base.error)
                         : ten_fail_memory(store->base.error, "a commit");
    for (size_t i = 0; i < commit->count; i++) {
        commit->changes[i].conflict = false;
        commit->changes[i].error = 0;
    }
    for (size_t i = 0; r == TENURE_OK && i < commit->count; i++)
        r = check_keys(store, state.space, &commit->changes[i]);
    if (r == TENURE_OK) {
        snprintf(state.channel, sizeof state.channel, "%s@%llu", state.space->own[TEN_REDIS_FEED],
                 (unsigned long long)ten_redis_settings_database(store->settings));
        r = run_commit(store, &state, deadline_ms);
    }
    ten_free(state.firsts);
    return r;
}

static bool announces(const ten_commit *commit) {
    for (size_t i = 0; i < commit->count; i++)
        for (size_t j = 0; j < commit->changes[i].write_count; j++) {
            const ten_write *write = &commit->changes[i].writes[j];
            if (write->key.kind == TEN_KIND_INSTANCE && write->kind == TEN_WRITE_PUT && write->name[0] != '\0')
                return true;
        }
    return false;
}

int ten_redis_commit(ten_backend *base, ten_commit *commit, uint64_t timeout_ms) {
    ten_redis_store *store = (ten_redis_store *)base;
    uint64_t deadline_ms = ten_add_saturating(ten_now_ms(), timeout_ms);
    ten_arena_reset(&store->texts);
    int r = ten_redis_carry_out(store, commit, deadline_ms);
    if (r == TENURE_OK && announces(commit))
        ten_redis_sweep(store, commit->namespace_name, commit->identity, commit->epoch, deadline_ms);
    return r;
}
