/*
 * Takes states of epoch.pml for one that differ in names only, so that a search of all of them ends: tokens are
 * numbered anew in their order, instances are put in an order, and what nothing can read any more is cleared. Included
 * by pan.c in searches of the rule as it is (-DFOLD); the searches with a broken rule do without, because there what is
 * cleared here could still matter, and because their story is to be read.
 */
enum { RENEW = 2, RELEASE = 3 }; /* as in epoch.pml */

#define BIT(token) (1u << (token))

/* Tokens that were granted. */
static unsigned tokens_granted(void) {
    unsigned used = BIT(0) | BIT(now.live.counter) | BIT(now.saved.counter) | BIT(now.best);
#ifdef REPLICAS
    used |= BIT(now.former.counter);
#endif
    for (int i = 0; i < INSTANCES; i++)
        used |= BIT(now.it[i].token) | BIT(now.it[i].granted_token);
    for (int i = 0; i < INSTANCES * LATE; i++)
        used |= BIT(now.late[i].token);
    return used;
}

static unsigned tokens_in_use(void) {
    unsigned used = tokens_granted() | BIT(now.live.floor);
#ifdef REPLICAS
    used |= BIT(now.former.floor);
#endif
    return used;
}

/* A replication id never comes back: a record with another begins an epoch, whatever else it says. Of a saved record
 * that fits, the quarantine and the floor are cleared, too: should a loss ever bring it back unnoticed, it would
 * protect less than it did, which hides nothing. */
static void clear_epochs(void) {
    if (!now.live.replication_id)
        now.live.run_id = now.live.quarantine = now.live.floor = 0;
    if (!now.saved.replication_id)
        now.saved.run_id = 0;
    now.saved.quarantine = now.saved.floor = 0;
#ifdef REPLICAS
    if (!now.live.replication_id)
        now.live.provisional = 0;
    now.saved.provisional = 0;
    /* Of a former primary without replicas nothing counts, and the next one starts anew. */
    if (now.moved)
        memset(&now.former, 0, sizeof now.former);
    else if (!now.former.replication_id)
        now.former.run_id = now.former.quarantine = now.former.floor = now.former.provisional = 0;
#endif
}

/* Whether a script could find this token beside this instance's name, now or after a loss. */
static int can_return(int i, unsigned token) {
    int found = token == now.live.counter || token == now.saved.counter || token == now.it[i].granted_token;
#ifdef REPLICAS
    found |= token == now.former.counter;
#endif
    for (int place = i * LATE; place < (i + 1) * LATE; place++)
        found |= now.late[place].ask == RENEW && now.late[place].token == token;
    return found;
}

/* Releases, and the tokens of sent releases, that concern nothing any more. */
static void clear_releases(void) {
    for (int i = 0; i < INSTANCES; i++) {
        struct Instance *it = &now.it[i];
        if (it->token && !it->belief && !can_return(i, it->token))
            it->token = 0;
        for (int place = i * LATE; place < (i + 1) * LATE; place++) {
            struct Request *late = &now.late[place];
            if (late->ask == RELEASE && late->token != it->token && !can_return(i, late->token))
                late->ask = late->token = 0;
        }
    }
}

/* Only their order counts: a new token is either the counter's next, where the counter is the highest, or the floor,
 * which is above all. */
static void number_tokens(void) {
    unsigned used;
    unsigned gap;
#define CLOSE(token)                                                                                                   \
    if ((token) > gap)                                                                                                 \
    (token)--
    for (;;) {
        used = tokens_in_use();
        for (gap = 1; used & BIT(gap); gap++)
            ;
        if (!(used >> gap))
            break;
        CLOSE(now.live.counter);
        CLOSE(now.live.floor);
        CLOSE(now.saved.counter);
        CLOSE(now.best);
#ifdef REPLICAS
        CLOSE(now.former.counter);
        CLOSE(now.former.floor);
#endif
        for (int i = 0; i < INSTANCES; i++) {
            CLOSE(now.it[i].token);
            CLOSE(now.it[i].granted_token);
        }
        for (int i = 0; i < INSTANCES * LATE; i++)
            CLOSE(now.late[i].token);
    }
    used = tokens_granted();
    for (now.top = 0; used >> (now.top + 1); now.top++)
        ;
}

static unsigned long key_of_request(int place) {
    return now.late[place].ask | (unsigned long)now.late[place].token << 2;
}

static unsigned long key_of_instance(int i) {
    const struct Instance *it = &now.it[i];
    unsigned long key =
        it->belief | it->token << 3 | it->ask << 7 | it->worth << 9 | it->granted << 12 | it->granted_token << 13;
#ifdef REPLICAS
    key = key << 1 | it->waits;
#endif
    for (int place = i * LATE; place < (i + 1) * LATE; place++)
        key = key << 6 | key_of_request(place);
    return key;
}

static void swap_requests(int a, int b) {
    struct Request moved = now.late[a];
    now.late[a] = now.late[b];
    now.late[b] = moved;
}

#define RENAME(field, a, b) (field) = (field) == (a) + 1 ? (b) + 1 : (field) == (b) + 1 ? (a) + 1 : (field)

static void swap_instances(int a, int b) {
    struct Instance moved = now.it[a];
    now.it[a] = now.it[b];
    now.it[b] = moved;
    for (int place = 0; place < LATE; place++)
        swap_requests(a * LATE + place, b * LATE + place);
    RENAME(now.live.holder, a, b);
    RENAME(now.live.last, a, b);
    RENAME(now.saved.holder, a, b);
    RENAME(now.saved.last, a, b);
#ifdef REPLICAS
    RENAME(now.former.holder, a, b);
    RENAME(now.former.last, a, b);
#endif
    RENAME(now.best_by, a, b);
}

static void sort(void) {
    for (int i = 0; i < INSTANCES; i++)
        for (int first = i * LATE, end = first + LATE - 1; first < end; end--)
            for (int place = first; place < end; place++)
                if (key_of_request(place) > key_of_request(place + 1))
                    swap_requests(place, place + 1);
#ifndef UNEQUAL_TTLS
    for (int end = INSTANCES - 1; end > 0; end--)
        for (int i = 0; i < end; i++)
            if (key_of_instance(i) > key_of_instance(i + 1))
                swap_instances(i, i + 1);
#endif
}

static void fold(void) {
    clear_epochs();
    clear_releases();
    number_tokens();
    sort();
}
