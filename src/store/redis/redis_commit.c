/*
 * A commit as the words of a script, and what comes back. A large one is cut into calls of whole changes, each of which
 * is atomic. redis.lua carries them out.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "store/redis/redis_state.h"

#define COMMIT_PARTS 1000u /* checks and writes in a call, unless one change has more */
#define PLACES       1024u /* checks of a call that differ, at most; and what names them */
#define SHARED       16u   /* checks of many changes: each is sent once */

/* One that the server judges, and the record on which writes rest. */
struct place {
    ten_key key;
    uint64_t version;
    enum ten_check_life life;
    size_t number; /* under which the server knows it */
};

enum rank { RANK_LEASE, RANK_INSTANCE, RANK_OTHER, RANK_COUNT };

static enum rank rank_of(enum ten_kind kind) {
    return kind == TEN_KIND_LEASE ? RANK_LEASE : kind == TEN_KIND_INSTANCE ? RANK_INSTANCE : RANK_OTHER;
}

/* Of the call that is put together. Large, and the handle keeps it. */
struct ten_redis_parts {
    struct place places[PLACES];
    size_t place_count;
    size_t order[PLACES];     /* of the places, by their numbers */
    size_t up_to[RANK_COUNT]; /* so many are of this rank, or one before it */
    size_t shared[SHARED];
    size_t shared_count;
    size_t refs[PLACES]; /* the places that its changes name, in their order */
    size_t ref_count;
};

struct committing {
    ten_commit *commit;
    ten_redis_reliance reliance;
    size_t *firsts; /* change with which each call begins; and behind the last */
    bool writes_space;
    char channel[TENURE_NAMESPACE_MAX + 48];
    struct ten_redis_parts *parts;
};

static bool is_same_key(ten_key a, ten_key b) {
    return a.kind == b.kind && strcmp(a.id, b.id) == 0;
}

/* check NULL: any of this record. */
static bool is_same(const struct place *place, ten_key key, const ten_check *check) {
    return is_same_key(place->key, key) && (!check || (place->version == check->version && place->life == check->life));
}

/* Where it is among those of the call. Those of targets are one change's own, which begin there. */
static size_t place_of(struct committing *state, ten_key key, const ten_check *check, size_t own) {
    bool is_shared = key.kind <= TEN_KIND_INSTANCE;
    for (size_t i = 0; is_shared && i < state->parts->shared_count; i++)
        if (is_same(&state->parts->places[state->parts->shared[i]], key, check))
            return state->parts->shared[i];
    for (size_t i = own; i < state->parts->place_count; i++)
        if (is_same(&state->parts->places[i], key, check))
            return i;
    TEN_INVARIANT(state->parts->place_count < PLACES);
    if (is_shared && state->parts->shared_count < SHARED)
        state->parts->shared[state->parts->shared_count++] = state->parts->place_count;
    state->parts->places[state->parts->place_count] =
        (struct place){.key = key,
                       .version = check ? check->version : TEN_VERSION_ANY,
                       .life = check ? check->life : TEN_CHECK_EITHER};
    return state->parts->place_count++;
}

static void refer(struct committing *state, ten_key key, const ten_check *check, size_t own) {
    TEN_INVARIANT(state->parts->ref_count < PLACES);
    size_t place = place_of(state, key, check, own);
    state->parts->refs[state->parts->ref_count++] = place;
}

static bool takes_end(const ten_write *write) {
    return write->kind == TEN_WRITE_PUT && write->life.with.id;
}

/* Finds the places of the call's changes. */
static void find_places(struct committing *state, size_t at) {
    state->parts->place_count = state->parts->shared_count = state->parts->ref_count = 0;
    for (size_t i = state->firsts[at]; i < state->firsts[at + 1]; i++) {
        const ten_commit_change *change = &state->commit->changes[i];
        size_t own = state->parts->place_count;
        for (size_t j = 0; j < change->check_count; j++)
            refer(state, change->checks[j].key, &change->checks[j], own);
        for (size_t j = 0; j < change->write_count; j++) {
            refer(state, change->writes[j].key, NULL, own);
            if (takes_end(&change->writes[j]))
                refer(state, change->writes[j].life.with, NULL, own);
        }
    }
}

/* Leases first, then the others that have plain keys. */
static void number_places(struct committing *state) {
    size_t count = 0;
    for (enum rank rank = 0; rank < RANK_COUNT; rank++) {
        for (size_t i = 0; i < state->parts->place_count; i++)
            if (rank_of(state->parts->places[i].key.kind) == rank) {
                state->parts->order[count++] = i;
                state->parts->places[i].number = count;
            }
        state->parts->up_to[rank] = count;
    }
}

/* ---- the plan: what the server has to do, in bytes. redis.lua says how it reads. */

static void add_place(ten_buf *plan, size_t number) {
    ten_buf_char(plan, (char)(number / 256));
    ten_buf_char(plan, (char)(number % 256));
}

static void add_ref(ten_buf *plan, struct committing *state) {
    add_place(plan, state->parts->places[state->parts->refs[state->parts->ref_count++]].number);
}

static char life_letter(const ten_write *write) {
    const ten_life *life = &write->life;
    if (write->kind != TEN_WRITE_PUT)
        return write->kind == TEN_WRITE_RAISE ? 'R' : 'X';
    if (life->kind != TEN_LIFE_LATEST)
        return life->kind == TEN_LIFE_ENDED ? 'D' : 'F';
    return life->as_it_is ? 'K' : life->with.id || life->ttl_ms == 0 ? 'W' : 'T';
}

/* Of its plain key. */
static char key_letter(const ten_write *write) {
    if (write->name[0] == '\0')
        return '-';
    if (rank_of(write->key.kind) == RANK_OTHER)
        return 'n';
    return write->key.kind == TEN_KIND_LEASE && write->life.session ? 's' : 'k';
}

static bool has_content(const ten_write *write) {
    char letter = key_letter(write);
    return write->kind == TEN_WRITE_PUT && (letter == 'k' || letter == 's');
}

static bool has_ttl(const ten_write *write) {
    return write->kind == TEN_WRITE_PUT && write->life.kind == TEN_LIFE_LATEST;
}

static bool is_same_content(const ten_write *one, const ten_write *other) {
    return one->key.kind == TEN_KIND_LEASE && other->key.kind == TEN_KIND_LEASE &&
           one->life.session == other->life.session && strcmp(one->name, other->name) == 0;
}

/* Which words are not those of the writes before it in the call, that is noted here: a content, a TTL. */
struct said {
    const ten_write *content, *ttl;
};

static unsigned words_of(struct said *said, const ten_write *write) {
    unsigned words = 0;
    if (has_content(write) && !(said->content && is_same_content(said->content, write)))
        words |= 1;
    if (has_ttl(write) && !(said->ttl && said->ttl->life.ttl_ms == write->life.ttl_ms))
        words |= 2;
    said->content = words & 1 ? write : said->content;
    said->ttl = words & 2 ? write : said->ttl;
    return words;
}

static void plan_write(ten_buf *plan, struct committing *state, const ten_write *write, struct said *said) {
    add_ref(plan, state);
    ten_buf_char(plan, life_letter(write));
    if (takes_end(write))
        add_ref(plan, state);
    else
        add_place(plan, 0);
    ten_buf_char(plan, key_letter(write));
    ten_buf_char(plan, (char)words_of(said, write));
}

static void add_content(ten_redis_words *words, const ten_write *write) {
    if (write->key.kind == TEN_KIND_INSTANCE)
        ten_redis_add_number(words, write->number);
    else
        ten_buf_text(&words->text, write->name);
    if (key_letter(write) == 's')
        ten_buf_format(&words->text, "\tsession %llu", (unsigned long long)write->life.session);
    ten_redis_word(words, "");
}

static void add_write(ten_redis_words *words, const ten_write *write, struct said *said) {
    unsigned more = words_of(said, write);
    ten_buf_add(&words->text, write->name, strlen(write->name) + 1);
    ten_redis_add_number(words, write->number);
    ten_buf_char(&words->text, '\0');
    ten_redis_word(words, write->value);
    if (more & 1)
        add_content(words, write);
    if (more & 2)
        ten_redis_word_number(words, write->life.ttl_ms);
}

static void plan_change(ten_buf *plan, struct committing *state, const ten_commit_change *change, struct said *said) {
    TEN_INVARIANT(change->check_count < 256 && change->write_count < 256 && change->entry_count < 256);
    ten_buf_char(plan, (char)change->check_count);
    ten_buf_char(plan, (char)change->write_count);
    ten_buf_char(plan, (char)change->entry_count);
    for (size_t i = 0; i < change->check_count; i++)
        add_ref(plan, state);
    for (size_t i = 0; i < change->write_count; i++)
        plan_write(plan, state, &change->writes[i], said);
}

static void add_plan(ten_redis_words *words, struct committing *state, size_t at) {
    static const char lives[] = {
        [TEN_CHECK_EITHER] = '-', [TEN_CHECK_ALIVE] = 'a', [TEN_CHECK_DEAD] = 'd', [TEN_CHECK_FOREIGN] = 'f'};
    add_place(&words->text, state->parts->place_count);
    add_place(&words->text, state->parts->up_to[RANK_LEASE]);
    for (size_t i = 0; i < state->parts->place_count; i++) {
        const struct place *place = &state->parts->places[state->parts->order[i]];
        ten_buf_char(&words->text, place->version == 0 ? 'Z' : place->version == TEN_VERSION_ANY ? 'A' : 'E');
        ten_buf_char(&words->text, lives[place->life]);
    }
    state->parts->ref_count = 0;
    struct said said = {0};
    for (size_t i = state->firsts[at]; i < state->firsts[at + 1]; i++)
        plan_change(&words->text, state, &state->commit->changes[i], &said);
    ten_redis_word(words, "");
}

static void add_places(ten_redis_words *words, const struct committing *state) {
    for (size_t i = 0; i < state->parts->place_count; i++)
        ten_redis_word_field(words, state->parts->places[state->parts->order[i]].key);
    for (size_t i = 0; i < state->parts->place_count; i++) {
        uint64_t version = state->parts->places[state->parts->order[i]].version;
        if (version != 0 && version != TEN_VERSION_ANY) {
            ten_redis_add_version(words, version);
            ten_redis_word(words, "");
        }
    }
}

static void add_words(ten_redis_words *words, const ten_commit_change *change, struct said *said) {
    for (size_t i = 0; i < change->write_count; i++)
        if (change->writes[i].kind == TEN_WRITE_PUT)
            add_write(words, &change->writes[i], said);
    for (size_t i = 0; i < change->entry_count; i++) {
        if (change->entries[i].id)
            ten_buf_text(&words->text, change->entries[i].id);
        ten_buf_char(&words->text, '\0');
        ten_redis_word(words, change->entries[i].text);
    }
}

static void make_commit(ten_redis_store *store, void *userdata, size_t at) {
    struct committing *state = userdata;
    ten_redis_words *words = &store->words;
    find_places(state, at);
    number_places(state);
    ten_redis_script(store, TEN_REDIS_COMMIT, 3 + state->parts->up_to[RANK_INSTANCE]);
    ten_redis_word(words, state->reliance.names->own[TEN_REDIS_RECORDS]);
    ten_redis_word(words, state->reliance.names->own[TEN_REDIS_IDS]);
    ten_redis_word(words, state->reliance.names->own[TEN_REDIS_FEED]);
    for (size_t i = 0; i < state->parts->up_to[RANK_INSTANCE]; i++)
        ten_redis_word_plain(words, state->reliance.names, state->parts->places[state->parts->order[i]].key);
    ten_redis_word(words, state->reliance.replication);
    ten_redis_word_bytes(words, state->reliance.space, state->writes_space ? 0 : state->reliance.space_size);
    ten_redis_word(words, state->channel);
    ten_redis_word_number(words, state->commit->least_number);
    add_plan(words, state, at);
    add_places(words, state);
    struct said said = {0};
    for (size_t i = state->firsts[at]; i < state->firsts[at + 1]; i++)
        add_words(words, &state->commit->changes[i], &said);
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
        state->reliance.names->lease.before, id, state->reliance.names->lease.after, type);
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

static bool is_done(const ten_commit_change *change) {
    return !change->conflict && !change->error;
}

/* The number that the namespace has after a commit. Its own version is the first of its numbers. */
static void note_commit(ten_redis_store *store, const struct committing *state, size_t at, uint64_t version) {
    uint64_t entries = 0;
    bool done = false;
    for (size_t i = state->firsts[at]; i < state->firsts[at + 1]; i++)
        if (is_done(&state->commit->changes[i])) {
            entries += state->commit->changes[i].entry_count;
            done = true;
        }
    if (done) /* else it has raised nothing */
        ten_redis_note_number(store, state->reliance.names, version - 1, version + ten_max_u64(entries, 1) - 1);
}

static int take_commit(ten_redis_store *store, void *userdata, size_t at, const redisReply *reply) {
    struct committing *state = userdata;
    size_t first = state->firsts[at];
    size_t last = state->firsts[at + 1];
    uint64_t version = 0;
    if (reply->type == REDIS_REPLY_STRING) {
        version = ten_redis_take_times(store, reply);
    } else if (!ten_redis_answered(store, reply)) {
        return ten_redis_misunderstood(store);
    } else if (reply->elements >= 3) {
        version = ten_redis_number(reply->element[2]);
    }
    if (ten_redis_is_other(store, &state->reliance, reply))
        return TENURE_OK;
    if (version == 0)
        return ten_redis_misunderstood(store);
    for (size_t i = first; i < last; i++)
        for (size_t j = 0; j < state->commit->changes[i].write_count; j++) {
            ten_write *write = &state->commit->changes[i].writes[j];
            write->version = write->kind == TEN_WRITE_REMOVE ? 0 : version;
        }
    int r = TENURE_OK;
    for (size_t part = 3; r == TENURE_OK && reply->type == REDIS_REPLY_ARRAY && part < reply->elements;) {
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
    note_commit(store, state, at, version);
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
                ? ten_redis_look_elsewhere(store, state->reliance.names, state->commit->identity, deadline_ms, &found)
                : TENURE_OK;
    if (r == TENURE_OK)
        r = ten_redis_call(store, "a commit", cut(state->commit, state->firsts), make_commit, take_commit, state,
                           deadline_ms);
    if (r == TENURE_OK)
        r = ten_redis_settle(store, &state->reliance, "a commit", deadline_ms);
    if (r == TENURE_OK)
        memmove(store->base.identity, state->commit->identity, strlen(state->commit->identity) + 1);
    return r;
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
    struct committing state = {.commit = commit};
    store->parts = store->parts ? store->parts : ten_malloc(sizeof *store->parts);
    state.parts = store->parts;
    state.firsts = ten_malloc((commit->count + 1) * sizeof *state.firsts);
    int r = state.firsts && state.parts
                ? ten_redis_rely_on(store, commit->namespace_name, commit->identity, commit->epoch, &state.reliance)
                : ten_fail_memory(store->base.error, "a commit");
    for (size_t i = 0; i < commit->count; i++) {
        commit->changes[i].conflict = false;
        commit->changes[i].error = 0;
    }
    for (size_t i = 0; r == TENURE_OK && i < commit->count; i++)
        r = check_keys(store, state.reliance.names, &commit->changes[i]);
    if (r == TENURE_OK) {
        snprintf(state.channel, sizeof state.channel, "%s@%llu", state.reliance.names->own[TEN_REDIS_FEED],
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
