/*
 * Takes states of protocol.pml for one that differ in names only: each target's tokens are numbered anew in their
 * order, instances and targets are put in an order, and what nothing can read any more is cleared. Included by pan.c in
 * searches of the rule as it is (-DFOLD); searches with a broken rule do without: there, what is cleared here could
 * still matter, and their story is to be read.
 */
enum { RENEW = 2, RELEASE = 3, HAND = 4, SEATS = INSTANCES * TARGETS }; /* as in protocol.pml */

#define BIT(token) (1u << (token))

static int target_of(int seat) {
    return seat % TARGETS;
}

/* Whether an acquire of this seat could still be granted a token that is not above the one that it gave up. */
static int can_return(int seat) {
    unsigned token = now.seat[seat].token;
    const struct Lease *lease = &now.lease[target_of(seat)];
    int me = seat / TARGETS + 1;
    if ((lease->holder == me || lease->last == me) && lease->counter <= token)
        return 1;
    if (now.seat[seat].granted && now.seat[seat].granted <= token)
        return 1;
    for (int place = 0; place < LATE; place++)
        if (now.late[place].by == seat && now.late[place].ask == RENEW && now.late[place].token <= token)
            return 1;
    return 0;
}

/* A late release or hand of a token that no lease has or will have again, and a token that was given up and cannot return. */
static void clear_past(void) {
    for (int place = 0; place < LATE; place++) {
        struct Request *late = &now.late[place];
        if (late->ask < RELEASE)
            continue;
        const struct Seat *seat = &now.seat[late->by];
        const struct Lease *lease = &now.lease[target_of(late->by)];
        int found = lease->counter == late->token || seat->token == late->token || seat->granted == late->token;
        for (int other = 0; other < LATE; other++)
            found |=
                now.late[other].by == late->by && now.late[other].ask == RENEW && now.late[other].token == late->token;
        if (!found)
            late->by = late->ask = late->token = 0;
    }
    for (int seat = 0; seat < SEATS; seat++)
        if (now.seat[seat].token && !now.seat[seat].belief && !can_return(seat))
            now.seat[seat].token = 0;
}

static unsigned tokens_in_use(int target) {
    const struct Lease *lease = &now.lease[target];
    unsigned used = BIT(0) | BIT(lease->counter) | BIT(lease->floor) | BIT(lease->best);
    for (int seat = target; seat < SEATS; seat += TARGETS)
        used |= BIT(now.seat[seat].token) | BIT(now.seat[seat].granted);
    for (int place = 0; place < LATE; place++)
        if (target_of(now.late[place].by) == target)
            used |= BIT(now.late[place].token);
    return used;
}

/* Only their order counts: a new token is either the counter's next, where the counter is the highest, or the floor,
 * which is above all. */
static void number_tokens(int target) {
    struct Lease *lease = &now.lease[target];
    unsigned used = tokens_in_use(target);
    unsigned char renumbered[32];
    unsigned next = 0;
    for (unsigned token = 0; token < 32; token++)
        renumbered[token] = (unsigned char)(used & BIT(token) ? next++ : 0);
    lease->counter = renumbered[lease->counter];
    lease->floor = renumbered[lease->floor];
    lease->best = renumbered[lease->best];
    for (int seat = target; seat < SEATS; seat += TARGETS) {
        now.seat[seat].token = renumbered[now.seat[seat].token];
        now.seat[seat].granted = renumbered[now.seat[seat].granted];
    }
    for (int place = 0; place < LATE; place++)
        if (target_of(now.late[place].by) == target)
            now.late[place].token = renumbered[now.late[place].token];
    lease->top = next - 1 - (lease->floor != 0);
}

static unsigned long key_of_seat(int seat) {
    const struct Seat *it = &now.seat[seat];
    unsigned long key = it->belief | it->token << 3 | it->ask << 7 | it->granted << 9;
    for (int place = 0; place < LATE; place++)
        if (now.late[place].ask && now.late[place].by == seat) {
            unsigned long ask = now.late[place].ask < HAND ? now.late[place].ask : HAND; /* to whomever */
            key |= (1ul | ask << 1 | (unsigned long)now.late[place].token << 4) << (13 + 8 * place);
        }
    return key << 2 | (now.lease[target_of(seat)].holder == seat / TARGETS + 1) << 1 |
           (now.lease[target_of(seat)].best_by == seat / TARGETS + 1);
}

static void swap_seats(int a, int b) {
    struct Seat moved = now.seat[a];
    now.seat[a] = now.seat[b];
    now.seat[b] = moved;
    for (int place = 0; place < LATE; place++)
        if (now.late[place].ask)
            now.late[place].by = now.late[place].by == a ? b : now.late[place].by == b ? a : now.late[place].by;
}

#define RENAME(field, a, b) (field) = (field) == (a) + 1 ? (b) + 1 : (field) == (b) + 1 ? (a) + 1 : (field)

static void swap_instances(int a, int b) {
    struct Instance moved = now.it[a];
    now.it[a] = now.it[b];
    now.it[b] = moved;
    for (int target = 0; target < TARGETS; target++) {
        swap_seats(a * TARGETS + target, b * TARGETS + target);
        RENAME(now.lease[target].holder, a, b);
        RENAME(now.lease[target].last, a, b);
        RENAME(now.lease[target].best_by, a, b);
    }
    for (int place = 0; place < LATE; place++) {
        int successor = (int)now.late[place].ask - HAND;
        if (successor == a || successor == b)
            now.late[place].ask = (unsigned)(HAND + (successor == a ? b : a));
    }
}

static int instance_is_after(int a, int b) {
    unsigned long timed_a = now.it[a].worth | now.it[a].steady << 3;
    unsigned long timed_b = now.it[b].worth | now.it[b].steady << 3;
    if (timed_a != timed_b)
        return timed_a > timed_b;
    for (int target = 0; target < TARGETS; target++) {
        unsigned long key_a = key_of_seat(a * TARGETS + target);
        unsigned long key_b = key_of_seat(b * TARGETS + target);
        if (key_a != key_b)
            return key_a > key_b;
    }
    return 0;
}

static void sort_instances(void) {
    for (int end = INSTANCES - 1; end > 0; end--)
        for (int i = 0; i < end; i++)
            if (instance_is_after(i, i + 1))
                swap_instances(i, i + 1);
}

#if TARGETS == 2
/* In an order that does not depend on that of the instances: by what is the same whatever they are called. */
static unsigned long key_of_target(int target) {
    const struct Lease *lease = &now.lease[target];
    unsigned long key = lease->left | lease->counter << 2 | lease->floor << 6 | lease->top << 10 | lease->best << 14 |
                        (lease->holder != 0) << 18 | (lease->last != 0) << 19;
    unsigned long seats = 0;
    for (int seat = target; seat < SEATS; seat += TARGETS)
        seats += key_of_seat(seat) * key_of_seat(seat) + 1000003ul * key_of_seat(seat);
    return key << 40 ^ seats;
}

static void sort_targets(void) {
    if (key_of_target(0) <= key_of_target(1))
        return;
    struct Lease moved = now.lease[0];
    now.lease[0] = now.lease[1];
    now.lease[1] = moved;
    for (int i = 0; i < INSTANCES; i++)
        swap_seats(i * TARGETS, i * TARGETS + 1);
}
#endif

static void fold(void) {
    clear_past();
    for (int target = 0; target < TARGETS; target++)
        number_tokens(target);
#if TARGETS == 2
    sort_targets();
#endif
    sort_instances();
}
