/*
 * A commit in etcd: one transaction with a part for each change, in which its comparisons and its operations stand; if
 * they do not hold, the part reads the records instead. etcd allows 128 comparisons or operations, and a key to be
 * written once: what does not go together goes one after the other. Called through backend.h.
 */
#include <string.h>

#include "base/alloc.h"
#include "store/etcd/etcd_state.h"

#define BODY_MAX       (1024u * 1024u) /* of a request; etcd takes half as much again */
#define TRIES_MAX      64u
#define RAISED_MAX     (2 * TEN_ETCD_TXN_MAX) /* also of a change that turns out not to fit */
#define ALL_MARKED_MAX 20u                    /* each target is up to six operations */

/* As the kind of a key: it is the mark of the holder that has the id as its name. */
#define HOLDER TEN_KIND_COUNT

/* What becomes of the life of a record that is written. */
struct fate {
    enum { STAYS, ENDS_NOW, NEVER_ENDS, GETS_LEASE } how;
    uint64_t ttl_ms; /* of the etcd lease that it gets, */
    uint64_t lease;  /* and which that is */
};

/* A commit under way. */
struct work {
    ten_etcd_store *store;
    ten_commit *commit;
    ten_etcd_reliance on;
    ten_etcd_sight *sights; /* of all checks, in their order; NULL: nobody has looked */
    /* The transaction that is being made: */
    size_t first, end;  /* its changes */
    struct fate *fates; /* of their writes */
    uint32_t room, writes;
    size_t largest;             /* of its parts */
    ten_key raised[RAISED_MAX]; /* what is written once more beside them: marks of holders, and records */
    size_t raised_count;
    size_t places; /* numbers of the feed that it gives */
    uint64_t base; /* and what they are counted from */
};

/* ---- what has to be looked at before ----------------------------------------------------------------------- */

/* Only etcd knows the end of a life. And the former holder of a lease must be known, so that its mark is raised. */
static bool depends_on_look(const ten_commit_change *change, const ten_write *write) {
    const ten_life *life = &write->life;
    const ten_check *check = ten_check_of(change, write->key);
    if (write->key.kind == TEN_KIND_LEASE && check && check->version != 0 && !check->name)
        return true;
    return write->kind == TEN_WRITE_PUT && life->kind == TEN_LIFE_LATEST &&
           (life->with.id || (life->as_it_is && life->ttl_ms));
}

/* A transaction cannot compare whether a life is in doubt. */
static bool has_to_look(const struct work *work) {
    if (ten_etcd_is_in_doubt(work->store))
        return true;
    for (size_t i = 0; i < work->commit->count; i++)
        for (size_t j = 0; j < work->commit->changes[i].write_count; j++)
            if (depends_on_look(&work->commit->changes[i], &work->commit->changes[i].writes[j]))
                return true;
    return false;
}

static int look(struct work *work) {
    size_t count = 0;
    ten_free(work->sights);
    work->sights = NULL;
    if (!has_to_look(work))
        return TENURE_OK;
    for (size_t i = 0; i < work->commit->count; i++)
        count += work->commit->changes[i].check_count;
    work->sights = ten_calloc(count + 1, sizeof *work->sights);
    if (!work->sights)
        return ten_etcd_no_memory(work->store);
    for (size_t i = 0, at = 0; i < work->commit->count; i++)
        for (size_t j = 0; j < work->commit->changes[i].check_count; j++)
            work->sights[at++].record.key = work->commit->changes[i].checks[j].key;
    return ten_etcd_look(work->store, work->sights, count);
}

/* Of the checks of a change; NULL: nobody has looked. */
static const ten_etcd_sight *sights_of(const struct work *work, size_t change) {
    size_t at = 0;
    for (size_t i = 0; i < change; i++)
        at += work->commit->changes[i].check_count;
    return work->sights ? &work->sights[at] : NULL;
}

/* A write of a change, with the check of its record. */
struct put {
    const ten_commit_change *change;
    const ten_etcd_sight *sights; /* of the checks of the change, or NULL */
    const ten_write *write;
    const ten_check *check; /* NULL: there is none */
    struct fate *fate;
};

/* NULL: nobody has looked. */
static const ten_etcd_sight *sight_of(const struct put *put, ten_key key) {
    const ten_check *check = put->sights ? ten_check_of(put->change, key) : NULL;
    return check ? &put->sights[check - put->change->checks] : NULL;
}

/* The name that the record had; "": none. */
static const char *former_name(const struct put *put) {
    const ten_etcd_sight *sight = sight_of(put, put->write->key);
    if (!put->check || put->check->version == 0)
        return "";
    return put->check->name ? put->check->name : sight ? sight->record.name : "";
}

/* The checks of the change say that the record is dead. */
static bool has_no_life(const struct put *put) {
    const ten_check *check = put->check;
    return check && (check->life == TEN_CHECK_DEAD || (check->version == 0 && check->life != TEN_CHECK_FOREIGN));
}

/* ---- checks ------------------------------------------------------------------------------------------------ */

/* A record in doubt counts as alive, in the version that was read; the transaction compares that the doubt is still the
 * same one. */
static void compare_check(const struct work *work, ten_etcd_txn *part, const ten_check *check,
                          const ten_etcd_sight *sight) {
    const ten_etcd_dir *dir = &work->store->dir;
    bool has_life = ten_etcd_has_life(check->key.kind);
    bool in_doubt = sight && sight->in_doubt && check->life != TEN_CHECK_EITHER;
    ten_etcd_key record = ten_etcd_record_key(dir, check->key);
    ten_etcd_key life = has_life ? ten_etcd_life_key(dir, check->key) : record;
    if (check->version != TEN_VERSION_ANY)
        ten_etcd_txn_compare(part, record.text, check->version);
    else if (in_doubt || (sight && check->key.kind == TEN_KIND_LEASE))
        ten_etcd_txn_compare(part, record.text, sight->record.version);
    if (in_doubt && check->life == TEN_CHECK_DEAD)
        ten_etcd_txn_compare(part, record.text, 0); /* never */
    if (in_doubt)
        return;
    bool is_new = check->version == 0 && check->life != TEN_CHECK_FOREIGN;
    if (check->life == TEN_CHECK_FOREIGN) {
        ten_etcd_txn_compare(part, record.text, 0);
        ten_etcd_txn_compare_exists(part, life.text);
    } else if (check->life == TEN_CHECK_ALIVE)
        ten_etcd_txn_compare_exists(part, is_new ? record.text : life.text);
    else if (check->life == TEN_CHECK_DEAD || (is_new && has_life))
        ten_etcd_txn_compare(part, life.text, 0);
}

/* ---- lives ------------------------------------------------------------------------------------------------- */

static uint64_t longest_of_sight(const struct work *work, const ten_etcd_sight *sight) {
    return sight->in_doubt ? work->store->space->longest_ms : sight->ttl_ms;
}

/* What is done to the life so that it gets that end. The time that is left of another etcd lease is not known exactly,
 * so that its whole TTL is taken. */
static struct fate decide(const struct work *work, const struct put *put) {
    const ten_life *life = &put->write->life;
    uint64_t ttl_ms = life->ttl_ms;
    if (put->write->kind == TEN_WRITE_REMOVE || life->kind == TEN_LIFE_ENDED)
        return (struct fate){ENDS_NOW};
    if (life->kind == TEN_LIFE_ENDLESS)
        return (struct fate){NEVER_ENDS};
    const ten_etcd_sight *own = life->as_it_is ? sight_of(put, put->write->key) : NULL;
    const ten_etcd_sight *other = life->with.id ? sight_of(put, life->with) : NULL;
    bool own_lives = own && own->record.alive;
    bool other_lives = other && other->record.alive;
    if (life->as_it_is && !ttl_ms && !other_lives)
        return (struct fate){STAYS};
    if ((own_lives && ten_etcd_is_endless(own)) || (other_lives && ten_etcd_is_endless(other)))
        return (struct fate){NEVER_ENDS};
    if (other_lives)
        ttl_ms = ten_max_u64(ttl_ms, longest_of_sight(work, other));
    if (own_lives)
        ttl_ms = ten_max_u64(ttl_ms, longest_of_sight(work, own));
    return (struct fate){ttl_ms ? GETS_LEASE : ENDS_NOW, ttl_ms};
}

/* A life that stays as it is was dead by its check, or may be alive. */
static enum ten_etcd_life_word word_of(const struct put *put) {
    const struct fate *fate = put->fate;
    bool stays_dead = fate->how == STAYS && put->check && put->check->life == TEN_CHECK_DEAD;
    return fate->how == ENDS_NOW || stays_dead ? TEN_ETCD_ENDED
           : fate->how == NEVER_ENDS           ? TEN_ETCD_ENDLESS
                                               : TEN_ETCD_ENDS;
}

static int put_life(ten_etcd_store *store, const struct put *put) {
    struct fate *fate = put->fate;
    ten_etcd_key key = ten_etcd_life_key(&store->dir, put->write->key);
    char value[24];
    if (fate->how == GETS_LEASE) {
        ten_etcd_group *group;
        int r = ten_etcd_group_get(store, put->write->name, fate->ttl_ms, &group);
        if (r < 0)
            return r;
        group->uncertain = true; /* until the answer is there */
        fate->lease = group->lease;
    }
    snprintf(value, sizeof value, "%llu", (unsigned long long)fate->ttl_ms);
    if (fate->how == NEVER_ENDS || fate->how == GETS_LEASE)
        ten_etcd_txn_put(&store->part, key.text, value, fate->lease);
    else if (fate->how == ENDS_NOW && !has_no_life(put))
        ten_etcd_txn_put(&store->part, key.text, NULL, 0);
    return TENURE_OK;
}

/* ---- writes ------------------------------------------------------------------------------------------------ */

static void add_raise(struct work *work, ten_key raised) {
    for (size_t i = 0; i < work->raised_count; i++)
        if (ten_key_is(work->raised[i], raised))
            return;
    TEN_INVARIANT(work->raised_count < RAISED_MAX);
    work->raised[work->raised_count++] = raised;
}

/* Updates the index of leases that have a name, and raises the mark of the former holder. In a change with many targets
 * there is no room for the marks of leases that have ended: those would only show what was deleted by hand. */
static void put_name(struct work *work, const struct put *put) {
    ten_etcd_store *store = work->store;
    const char *former = former_name(put);
    const char *name = put->write->kind == TEN_WRITE_PUT ? put->write->name : "";
    if (strcmp(name, former) != 0)
        ten_etcd_txn_put(&store->part, ten_etcd_place(&store->dir, TEN_ETCD_NAMED, put->write->key.id).text,
                         name[0] != '\0' ? name : NULL, 0);
    if (former[0] != '\0' && (put->change->write_count <= ALL_MARKED_MAX || !has_no_life(put)))
        add_raise(work, (ten_key){HOLDER, former});
}

static int put_record(struct work *work, const struct put *put) {
    ten_etcd_store *store = work->store;
    const ten_etcd_dir *dir = &store->dir;
    const ten_write *write = put->write;
    bool removes = write->kind == TEN_WRITE_REMOVE;
    *put->fate = decide(work, put);
    if (!removes)
        ten_etcd_record_write(&store->value, write, word_of(put));
    const char *value = removes ? NULL : ten_buf_string(&store->value);
    ten_etcd_txn_put(&store->part, ten_etcd_record_key(dir, write->key).text, value, 0);
    if (write->key.kind == TEN_KIND_NAMESPACE) {
        ten_etcd_epoch_value(&store->value, write->name, write->number);
        value = removes ? NULL : ten_buf_string(&store->value);
        ten_etcd_txn_put(&store->part, ten_etcd_place(dir, TEN_ETCD_EPOCH, NULL).text, value, 0);
        ten_etcd_txn_put(&store->part, ten_etcd_namespace_key(dir).text, removes ? NULL : "", 0);
    }
    if (write->key.kind == TEN_KIND_LEASE)
        put_name(work, put);
    return ten_etcd_has_life(write->key.kind) ? put_life(store, put) : TENURE_OK;
}

static int make_part(struct work *work, size_t change) {
    ten_etcd_store *store = work->store;
    ten_etcd_txn *part = &store->part;
    const ten_commit_change *it = &work->commit->changes[change];
    const ten_etcd_sight *sights = sights_of(work, change);
    int r = TENURE_OK;
    if (!TEN_GROW(work->fates, work->room, work->writes + (uint32_t)it->write_count))
        return ten_etcd_no_memory(store);
    ten_etcd_txn_clear(part);
    for (size_t i = 0; i < it->check_count; i++) {
        compare_check(work, part, &it->checks[i], sights ? &sights[i] : NULL);
        ten_etcd_record_get(store, &part->otherwise, it->checks[i].key);
    }
    for (size_t i = 0; r == TENURE_OK && i < it->write_count; i++) {
        const ten_write *write = &it->writes[i];
        struct put put = {it, sights, write, ten_check_of(it, write->key), &work->fates[work->writes + i]};
        if (write->kind == TEN_WRITE_RAISE)
            add_raise(work, write->key);
        else
            r = put_record(work, &put);
    }
    for (size_t i = 0; i < it->entry_count; i++)
        ten_etcd_feed_put(store, part, work->base, &it->entries[i], work->places + i);
    return r;
}

/* Each key once, although several changes may raise it: one more revision harms nobody. */
static void add_raises(struct work *work) {
    const ten_etcd_dir *dir = &work->store->dir;
    for (size_t i = 0; i < work->raised_count; i++) {
        ten_key raised = work->raised[i];
        ten_etcd_key key =
            raised.kind == HOLDER ? ten_etcd_place(dir, TEN_ETCD_MARK, raised.id) : ten_etcd_record_key(dir, raised);
        ten_etcd_txn_raise(&work->store->txn, key.text);
    }
}

/* ---- the transaction --------------------------------------------------------------------------------------- */

static void begin_txn(struct work *work) {
    ten_etcd_store *store = work->store;
    const ten_etcd_space *space = store->space;
    ten_etcd_tell_clock(store);
    work->on.is_written = ten_change_writes_namespace(&work->commit->changes[work->first]);
    ten_etcd_rely_begin(store, &work->on);
    ten_etcd_txn_compare(&store->txn, ten_etcd_place(&store->dir, TEN_ETCD_TERM, NULL).text, space->term_revision);
    ten_etcd_txn_compare(&store->txn, ten_etcd_place(&store->dir, TEN_ETCD_WAIT, NULL).text, space->wait_revision);
    work->writes = 0;
    work->largest = work->places = work->raised_count = 0;
    /* Numbers grow with the revisions, and the base that they are counted from never becomes smaller. */
    uint64_t next = space->base + (store->revision + 1) * TEN_ETCD_PLACES;
    work->base = next > work->commit->least_number ? space->base : work->commit->least_number;
}

static void put_newest(struct work *work, ten_etcd_txn *txn) {
    char value[48];
    snprintf(value, sizeof value, "%llu %zu", (unsigned long long)work->base, work->places);
    if (work->places)
        ten_etcd_txn_put(txn, ten_etcd_place(&work->store->dir, TEN_ETCD_NEWEST, NULL).text, value, 0);
}

/* Takes as many changes as fit into one transaction, at least one. A change that writes the namespace's record goes
 * alone: it may begin an epoch, and only if it is carried out the numbers of the feed have a new base. */
static int fill_txn(struct work *work) {
    ten_etcd_store *store = work->store;
    const ten_commit *commit = work->commit;
    int r = TENURE_OK;
    begin_txn(work);
    for (work->end = work->first; work->end < commit->count; work->end++) {
        const ten_commit_change *change = &commit->changes[work->end];
        size_t raised = work->raised_count;
        r = make_part(work, work->end);
        if (r < 0)
            return r;
        size_t largest = ten_max_u64(work->largest, ten_etcd_txn_size(&store->part));
        size_t changes = work->end + 1 - work->first;
        size_t operations = changes + work->raised_count + 1 + largest;
        bool fits = operations <= TEN_ETCD_TXN_MAX &&
                    store->txn.operations.text.size + store->part.operations.text.size < BODY_MAX &&
                    work->places + change->entry_count <= TEN_ETCD_PLACES;
        if (work->end > work->first && (!fits || work->on.is_written || ten_change_writes_namespace(change))) {
            work->raised_count = raised;
            break;
        }
        if (operations > TEN_ETCD_TXN_MAX)
            return ten_fail(store->base.error, TENURE_E_STORE, "a change is too large for a transaction of etcd");
        work->largest = largest;
        work->places += change->entry_count;
        work->writes += (uint32_t)change->write_count;
        if (work->on.is_written)
            put_newest(work, &store->part);
        ten_etcd_txn_add_part(&store->txn, &store->part);
    }
    add_raises(work);
    if (!work->on.is_written)
        put_newest(work, &store->txn);
    return TENURE_OK;
}

/* ---- the answer -------------------------------------------------------------------------------------------- */

/* Notes to which group the life is attached now. */
static int note_life(ten_etcd_store *store, const ten_write *write, const struct fate *fate) {
    ten_etcd_key key = ten_etcd_life_key(&store->dir, write->key);
    ten_etcd_group *group = ten_etcd_group_by_lease(store, fate->lease);
    if (!group) {
        if (fate->how != STAYS)
            ten_etcd_hold_drop(store, key.text);
        return TENURE_OK;
    }
    int r = ten_etcd_hold_set(store, group, key.text);
    if (r < 0)
        return r;
    if (!ten_etcd_group_is_kept(store, group))
        return ten_fail(store->base.error, TENURE_E_UNREACHABLE, "etcd is changing its leader; try again");
    /* The record whose end it takes may have been extended since this etcd lease was granted. */
    group->is_wanted = write->life.with.id != NULL;
    return group->is_wanted ? ten_etcd_groups_keep(store) : TENURE_OK;
}

static int take_conflict(struct work *work, size_t change, const json_t *part) {
    ten_commit_change *it = &work->commit->changes[change];
    ten_etcd_sight sights[TEN_ETCD_TXN_MAX] = {0}; /* each is read by an operation or two */
    int r = TENURE_OK;
    it->conflict = true;
    for (size_t i = 0, at = 0; r == TENURE_OK && i < it->check_count; i++) {
        sights[i].record.key = it->checks[i].key;
        r = ten_etcd_record_take(work->store, part, &at, &sights[i]);
    }
    if (r == TENURE_OK)
        r = ten_etcd_tell_left(work->store, sights, it->check_count);
    for (size_t i = 0; r == TENURE_OK && i < it->check_count; i++)
        it->checks[i].present = sights[i].record;
    return r;
}

static int take_answer(struct work *work, const json_t *answer) {
    ten_etcd_store *store = work->store;
    uint64_t revision = store->head.revision;
    int r = TENURE_OK;
    ten_etcd_groups_answered(store);
    for (size_t i = work->first, at = 0; r == TENURE_OK && i < work->end;
         at += work->commit->changes[i++].write_count) {
        const json_t *part = ten_etcd_part(answer, i - work->first);
        ten_commit_change *change = &work->commit->changes[i];
        if (!ten_etcd_succeeded(part)) {
            r = take_conflict(work, i, part);
            continue;
        }
        for (size_t j = 0; r == TENURE_OK && j < change->write_count; j++) {
            ten_write *write = &change->writes[j];
            write->version = write->kind == TEN_WRITE_REMOVE ? 0 : revision;
            if (write->kind != TEN_WRITE_RAISE && ten_etcd_has_life(write->key.kind))
                r = note_life(store, write, &work->fates[at + j]);
        }
    }
    for (size_t i = 0; r == TENURE_OK && i < work->raised_count; i++)
        if (work->raised[i].kind == HOLDER)
            ten_etcd_mark_raised(store, work->raised[i].id, ten_etcd_part(answer, work->end - work->first + i));
    bool counts = !work->on.is_written || !work->commit->changes[work->first].conflict;
    if (work->places && counts) {
        work->store->space->base = work->base;
        work->store->space->last = work->base + revision * TEN_ETCD_PLACES + work->places - 1;
        store->fed += work->places;
    }
    return r;
}

/* On 0: *ret_sent tells whether it was carried out; if not, its changes have to be prepared again. */
static int send_txn(struct work *work, bool *ret_sent) {
    json_t *answer = NULL;
    int r = ten_etcd_rely_send(work->store, &work->on, true, &answer, ret_sent);
    if (r == TENURE_OK && *ret_sent)
        r = take_answer(work, answer);
    json_decref(answer);
    return r;
}

/* The longest TTL that a holder relies on. */
static uint64_t longest_of(const ten_commit *commit) {
    uint64_t longest_ms = 0;
    for (size_t i = 0; i < commit->count; i++)
        for (size_t j = 0; j < commit->changes[i].write_count; j++) {
            const ten_life *life = &commit->changes[i].writes[j].life;
            if (commit->changes[i].writes[j].kind == TEN_WRITE_PUT && life->kind == TEN_LIFE_LATEST &&
                !life->only_keeps)
                longest_ms = ten_max_u64(longest_ms, life->ttl_ms);
        }
    return longest_ms;
}

static int prepare(struct work *work) {
    ten_etcd_store *store = work->store;
    int r = work->store->space->known ? TENURE_OK : ten_etcd_state_read(store);
    if (r == TENURE_OK)
        r = ten_etcd_set_term(store, longest_of(work->commit));
    return r < 0 ? r : look(work);
}

static int carry_out(struct work *work) {
    unsigned tries = 0;
    int r = prepare(work);
    while (r == TENURE_OK && work->first < work->commit->count) {
        bool sent = false;
        r = fill_txn(work);
        if (r == TENURE_OK)
            r = send_txn(work, &sent);
        if (r == TENURE_E_GONE) { /* an etcd lease is gone: the next try gets other ones */
            work->store->call++;
            r = TENURE_OK;
        }
        if (r == TENURE_OK && sent)
            work->first = work->end;
        else if (r == TENURE_OK && ++tries >= TRIES_MAX)
            r = ten_fail(work->store->base.error, TENURE_E_UNREACHABLE,
                         "etcd: gave up after %u conflicting changes; try again", TRIES_MAX);
        else if (r == TENURE_OK)
            r = prepare(work);
    }
    return r;
}

int ten_etcd_commit(ten_backend *base, ten_commit *commit, uint64_t timeout_ms) {
    ten_etcd_store *store = (ten_etcd_store *)base;
    struct work work = {.store = store, .commit = commit, .on = {.identity = commit->identity, .epoch = commit->epoch}};
    int r = ten_etcd_begin(store, commit->namespace_name, timeout_ms);
    if (r == TENURE_OK)
        r = ten_etcd_enter_as(store, commit->identity);
    if (r == TENURE_OK)
        r = carry_out(&work);
    ten_free(work.sights);
    ten_free(work.fates);
    if (r == TENURE_OK)
        ten_etcd_feed_trim(store);
    if (r != TENURE_E_FULL)
        return r;
    /* etcd has no room: the remaining changes are refused one by one, so that the call itself does not fail. */
    for (size_t i = work.first; i < commit->count; i++)
        commit->changes[i].error = TENURE_E_FULL;
    return TENURE_OK;
}
