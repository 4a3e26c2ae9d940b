/*
 * The epoch rule: how a store that forgets (a Redis that restarts, is flushed, or is replaced by a replica that lags)
 * still never has two holders, and never a lower token. One target, a few instances, requests that are late, lost or
 * doubled. README.md says what this leaves out; epoch.sh runs it, whole and with one rule at a time broken.
 *
 * Time is a number of ticks that are left, never a date: so the same situation is the same state whenever it comes, and
 * a search ends although losses, grants and ticks have no bound. The margin is 0 and all clocks run alike: a margin
 * only ends a belief earlier, and an instance may stop believing at any moment here.
 *
 * Flags: a name from README.md breaks a rule; REPLICAS adds replicas; NO_LATE leaves late requests out; REACH_* asserts
 * that a situation is not reached; FOLD (epoch_fold.c) takes states for one that differ in names only; STORY makes
 * `spin -t` tell what happens.
 */
#if defined(FOLD) && (defined(RUN_ID_ONLY) || defined(QUARANTINE_NOT_RESTARTED) || defined(RENEW_AFTER_DEADLINE) ||    \
                      defined(LATE_REPLY_REVIVES) || defined(FORMER_PRIMARY_ANSWERS))
#error "what epoch_fold.c clears can still matter here"
#endif

#ifndef INSTANCES
#define INSTANCES 2
#endif
#ifndef TTL
#define TTL 3
#endif
#ifndef LATE
#define LATE 1 /* requests of one instance that may be under way when it no longer waits for them */
#endif
#define TOKEN_MAX 14

/* Whose run id the epoch's record has. A promotion makes the one the other; a restart makes it nobody's. */
#define NOBODY  0
#define SERVING 1
#define STANDBY 2

/* What a request asks for. */
#define NOTHING 0
#define ACQUIRE 1
#define RENEW   2
#define RELEASE 3

#define ME (i + 1)

/* With UNEQUAL_TTLS the first instance has a shorter one: the quarantine is then still the longest in use. */
#ifdef UNEQUAL_TTLS
#define TTL_OF_ME (i == 0 -> TTL - 1 : TTL)
#else
#define TTL_OF_ME TTL
#endif

typedef Store {
    unsigned holder : 2;     /* the lease's key; NOBODY: there is none */
    unsigned left : 3;       /* until that ends */
    unsigned counter : 4;    /* the last token granted */
    unsigned last : 2;       /* to whom; NOBODY once it was released */
    unsigned run_id : 2;     /* the epoch's record */
    bit replication_id;      /* in that record: is it the server's present one? */
    unsigned quarantine : 3; /* what is left of it */
    unsigned floor : 4;      /* the least token that may be granted; 0: below the counter anyway */
#ifdef REPLICAS
    bit provisional; /* no write of this epoch was acknowledged by the replicas yet: the quarantine does not begin */
#endif
};
Store live;  /* what the server has */
Store saved; /* what an old dump has, or a replica that lags */
#if defined(FORMER_PRIMARY_ANSWERS) || defined(REPLICAS)
#define FORMER
Store former; /* what the primary before the last promotion has, as long as it does not know */
#endif
#ifdef REPLICAS
bit moved = 1; /* whether the replicas follow `live`; else they still follow `former` */
#define ACKNOWLEDGED_LIVE   moved
#define ACKNOWLEDGED_FORMER !moved
#else
#define ACKNOWLEDGED_LIVE true
#endif

typedef Instance {
    unsigned belief : 3; /* until its deadline; 0: it does not believe */
    unsigned token : 4;  /* that it believes in, or whose release it has sent; else 0 */
    unsigned ask : 2;    /* the request whose answer it waits for */
    unsigned worth : 3;  /* how long a good answer to it would be worth something: counted from its sending */
    bit granted;         /* a good answer is on its way. A bad one tells nothing that giving up would not */
#ifdef REPLICAS
    bit waits; /* it is not, before the replicas of `live` have acknowledged the change */
#endif
    unsigned granted_token : 4;
};
Instance it[INSTANCES];

typedef Request {
    unsigned ask : 2;
    unsigned token : 4;
};
Request late[INSTANCES * LATE];

/* What no one in the system knows. */
unsigned top : 4;     /* the highest token granted */
unsigned best : 4;    /* the highest token believed in */
unsigned best_by : 2; /* and by whom */

/* The promises. Constant as long as they are kept, so they cost no states, and pan names the one that was broken. With
 * -DONLY_NAME only that one is judged: what breaks two of them is to be seen breaking the one that matters. */
bit believes_alone = 1; /* nobody begins to believe while another does */
bit token_is_above = 1; /* nobody begins to believe in a token that is not above all that another believed in */
bit living_go_on = 1;   /* no renewal is refused that arrives while its sender believes */
bit tokens_suffice = 1; /* of the model, not of the rule: its numbers are large enough */
bit not_reached = 1;
#if defined(ONLY_BELIEVES_ALONE)
#define JUDGE_ALONE
#elif defined(ONLY_TOKEN_IS_ABOVE)
#define JUDGE_ABOVE
#elif defined(ONLY_LIVING_GO_ON)
#define JUDGE_LIVING
#else
#define JUDGE_ALONE
#define JUDGE_ABOVE
#define JUDGE_LIVING
#endif

/* Used within a step, 0 between steps. */
byte n;
bit yes;
unsigned new : 5;

/* What spin -t tells; a search does without, because it would take every word for a step. */
#ifdef STORY
#define TELL(...) printf(__VA_ARGS__)
#else
#define TELL(...) skip
#endif

inline end_step() {
    n = 0;
    yes = 0;
    new = 0;
#ifdef FOLD
    c_code { fold(); };
#endif
}

/* ---- the server: one script, one step ---- */

#ifdef RUN_ID_ONLY
#define EPOCH_IS_KNOWN(s) (s.run_id == SERVING)
#else
#define EPOCH_IS_KNOWN(s) (s.run_id == SERVING && s.replication_id)
#endif

#if defined(QUARANTINE_TOO_SHORT)
#define QUARANTINE(s) (TTL - 1)
#elif defined(QUARANTINE_NOT_RESTARTED)
#define QUARANTINE(s) (s.quarantine > 0 -> s.quarantine : TTL)
#elif defined(QUARANTINE_OF_THE_CALLER)
#define QUARANTINE(s) TTL_OF_ME
#elif defined(NO_EPOCH)
#define QUARANTINE(s) 0
#else
#define QUARANTINE(s) TTL
#endif

/* The server's wall clock is the floor: above every token that was granted before. */
#if defined(FLOOR_ZERO) || defined(NO_EPOCH)
#define FLOOR 0
#else
#define FLOOR (top + 1)
#endif

inline check_epoch(s) {
    if
    :: EPOCH_IS_KNOWN(s) -> skip
    :: else ->
        TELL("store: an epoch begins (%d asks), floor %d\n", i, FLOOR);
        s.run_id = SERVING;
        s.replication_id = 1;
        s.quarantine = QUARANTINE(s);
        s.floor = FLOOR;
#ifdef REPLICAS
#ifndef EPOCH_COUNTS_AT_ONCE
        s.provisional = 1
#endif
#endif
    fi
}

#ifdef REPLICAS
/* The replicas have acknowledged a write of this epoch: from now on no other server gets their acknowledgement. What it
 * granted until now, with tokens that may be higher than this server's floor was, ends within a TTL. */
inline confirm(s) {
    TELL("store: the epoch is confirmed\n");
    s.provisional = 0;
    s.quarantine = TTL;
#ifndef FLOOR_NOT_RAISED
    s.floor = FLOOR;
#endif
}
#endif

inline give(s, token_given) {
    s.holder = ME;
    s.last = ME;
    s.left = TTL_OF_ME;
    s.counter = token_given;
    yes = 1
}

/* A lease that was put back has a token from before the epoch, and another may have believed in a higher one since: it
 * can be renewed by who believes in it, but is not given to who only finds its own name there. */
#ifdef OLD_TOKEN_IS_GIVEN_AGAIN
#define IS_OF_THIS_EPOCH(s) true
#else
#define IS_OF_THIS_EPOCH(s) (s.counter >= s.floor)
#endif
#ifdef ACQUIRE_RECOGNISES_ITSELF_IN_QUARANTINE
#define MAY_RECOGNISE_ITSELF(s) (s.quarantine > 0 || IS_OF_THIS_EPOCH(s))
#else
#define MAY_RECOGNISE_ITSELF(s) (s.quarantine == 0 && IS_OF_THIS_EPOCH(s))
#endif

inline acquire(s) {
    if
    :: s.holder == ME && MAY_RECOGNISE_ITSELF(s) ->
        TELL("store: %d holds it already, token %d\n", i, s.counter);
        s.left = TTL_OF_ME;
        new = s.counter;
        yes = 1
    :: s.holder == NOBODY && s.quarantine == 0 ->
        new = (s.counter + 1 > s.floor -> s.counter + 1 : s.floor);
#ifdef REACH_GRANT_AFTER_LOSS
        not_reached = !(s.counter == 0 && best > 0);
        assert(not_reached);
#endif
        tokens_suffice = new <= TOKEN_MAX;
        assert(tokens_suffice);
        s.floor = 0;
        top = (new > top -> new : top);
        TELL("store: gives it to %d, token %d\n", i, new);
        give(s, new)
    :: else -> TELL("store: %d does not get it; %d ticks of quarantine left\n", i, s.quarantine)
    fi
}

#if defined(PUT_BACK_ANY_TOKEN)
#define MAY_PUT_BACK(s, shown) true
#elif defined(PUT_BACK_NOTHING)
#define MAY_PUT_BACK(s, shown) false
#elif defined(PUT_BACK_ONLY_ABOVE)
#define MAY_PUT_BACK(s, shown) (shown > s.counter)
#else
#define MAY_PUT_BACK(s, shown) (shown > s.counter || (shown == s.counter && s.last == ME))
#endif

inline renew(s, acknowledged, shown) {
    if
    :: s.holder == ME && s.counter == shown ->
#ifdef REACH_KEPT_OVER_LOSS
        not_reached = !(s.quarantine == 0 && s.floor > shown && it[i].belief > 0);
        assert(not_reached);
#endif
        TELL("store: renews the lease of %d, token %d\n", i, shown);
        s.left = TTL_OF_ME;
        yes = 1
    :: else ->
        if
        :: s.quarantine > 0 && MAY_PUT_BACK(s, shown) ->
#ifdef REACH_PUT_BACK_BY_NOBODY
            not_reached = it[i].belief > 0;
            assert(not_reached);
#endif
            TELL("store: puts the lease of %d back, token %d\n", i, shown);
            give(s, shown)
        :: else ->
            TELL("store: refuses to renew for %d, token %d\n", i, shown);
#ifdef JUDGE_LIVING
            living_go_on = !(acknowledged && it[i].belief > 0 && it[i].token == shown);
#endif
            assert(living_go_on)
        fi
    fi
}

inline release(s, shown) {
    if
    :: s.holder == ME && s.counter == shown ->
        TELL("store: ends the lease of %d, token %d: released\n", i, shown);
        s.holder = NOBODY;
        s.left = 0;
#ifndef LAST_IS_KEPT
        s.last = NOBODY;
#endif
        yes = 1
    :: else -> TELL("store: %d has nothing to release under token %d\n", i, shown)
    fi
}

inline execute(s, acknowledged, asked, shown) {
    check_epoch(s);
    if
    :: asked == ACQUIRE -> acquire(s)
    :: asked == RENEW -> renew(s, acknowledged, shown)
    :: asked == RELEASE -> release(s, shown)
    fi
}

/* ---- an instance: what it asks for, and what it believes ---- */

inline be_idle(who) {
    it[who].ask = NOTHING;
    it[who].worth = 0;
    it[who].granted = 0;
#ifdef REPLICAS
    it[who].waits = 0;
#endif
    it[who].granted_token = 0
}

/* Its deadline has passed, or it gave up. An answer to a renewal would revive nothing, so it waits for none. */
inline stop_believing(who) {
    it[who].belief = 0;
#if !defined(LATE_REPLY_REVIVES) && !defined(RENEW_AFTER_DEADLINE)
    it[who].token = 0;
    if
    :: it[who].ask == RENEW -> be_idle(who)
    :: else -> skip
    fi
#elif defined(LATE_REPLY_REVIVES)
    if
    :: it[who].ask != RENEW -> it[who].token = 0
    :: else -> skip
    fi
#endif
}

inline believe(token_granted) {
    it[i].token = token_granted;
#ifdef DEADLINE_FROM_RECEIVE
    it[i].belief = TTL_OF_ME;
#else
    it[i].belief = it[i].worth;
#endif
    TELL("%d: BELIEVES in token %d\n", i, it[i].token);
#ifdef JUDGE_ALONE
    for (n : 0 .. INSTANCES - 1) {
        believes_alone = believes_alone && (n == i || it[n].belief == 0)
    }
    assert(believes_alone);
#endif
#ifdef JUDGE_ABOVE
    token_is_above = it[i].token > best || (it[i].token == best && best_by == ME);
    assert(token_is_above);
#endif
    if
    :: it[i].token > best ->
        best = it[i].token;
        best_by = ME
    :: else -> skip
    fi
}

/* The release of a token may still be under way, and would end the lease under whoever believes in it again. */
#ifdef RELEASED_TOKEN_IS_BELIEVED
#define MAY_BE_BELIEVED true
#else
#define MAY_BE_BELIEVED (it[i].granted_token != it[i].token)
#endif

#ifdef RENEW_AFTER_DEADLINE
#define MAY_RENEW (it[i].token > 0)
#else
#define MAY_RENEW (it[i].belief > 0)
#endif

proctype instance(byte i) {
    do
    :: d_step { it[i].ask == NOTHING && MAY_RENEW ->
        it[i].ask = RENEW;
        it[i].worth = TTL_OF_ME;
        TELL("%d: sends a renewal, token %d\n", i, it[i].token);
        end_step() }
    :: d_step { it[i].ask == NOTHING && it[i].belief == 0 ->
        it[i].ask = ACQUIRE;
        it[i].worth = TTL_OF_ME;
        TELL("%d: sends an acquire\n", i);
        end_step() }
    :: d_step { it[i].ask != NOTHING && !it[i].granted -> /* it arrives */
        execute(live, ACKNOWLEDGED_LIVE, it[i].ask, it[i].token);
        if
        :: yes ->
            it[i].granted = 1;
            it[i].granted_token = new;
#ifdef REPLICAS
            it[i].waits = !moved
#endif
        :: else -> be_idle(i)
        fi;
        end_step() }
#ifdef REPLICAS
    :: d_step { it[i].ask != NOTHING && !it[i].granted && !moved -> /* it arrives at the former primary */
        TELL("former primary:\n");
        execute(former, ACKNOWLEDGED_FORMER, it[i].ask, it[i].token);
        if
        :: yes ->
            it[i].granted = 1;
            it[i].granted_token = new
        :: else -> be_idle(i)
        fi;
        end_step() }
    :: d_step { moved && live.provisional && EPOCH_IS_KNOWN(live) ->
        confirm(live);
        end_step() }
    :: d_step { !moved && former.provisional && EPOCH_IS_KNOWN(former) ->
        confirm(former);
        end_step() }
#endif
#ifdef FORMER_PRIMARY_ANSWERS
    :: d_step { it[i].ask == RENEW && !it[i].granted && former.holder == ME && former.counter == it[i].token ->
        former.left = TTL_OF_ME;
        it[i].granted = 1;
        TELL("former primary: renews the lease of %d, token %d\n", i, it[i].token);
        end_step() }
#endif
#ifdef REPLICAS
    :: d_step { it[i].granted && !it[i].waits -> /* the answer arrives */
#else
    :: d_step { it[i].granted -> /* the answer arrives */
#endif
        if
        :: it[i].ask == RENEW -> believe(it[i].token)
        :: it[i].ask == ACQUIRE && MAY_BE_BELIEVED -> believe(it[i].granted_token)
        :: else -> skip
        fi;
        be_idle(i);
        end_step() }
    :: d_step { it[i].ask != NOTHING -> /* the request is lost, or its answer, or its sender's patience */
        TELL("%d: hears nothing of its request\n", i);
        be_idle(i);
        end_step() }
    :: d_step { it[i].belief > 0 ->
        TELL("%d: stops believing in token %d\n", i, it[i].token);
        stop_believing(i);
        end_step() }
    od
}

/* ---- the network: a place for a request that its sender no longer waits for ---- */

proctype late_request(byte i; byte place) {
    do
    :: d_step { it[i].ask != NOTHING -> /* its sender gave up; it may have arrived, and arrives again */
        TELL("%d: hears nothing of its request, which is still under way\n", i);
        late[place].ask = it[i].ask;
        late[place].token = (it[i].ask == RENEW -> it[i].token : 0);
        be_idle(i);
        end_step() }
#ifndef RENEW_AFTER_DEADLINE /* it would renew what it gave back, which is another story */
    :: d_step { it[i].belief > 0 -> /* given back. Nobody waits for the answer: it would tell nothing */
        TELL("%d: stops believing and sends a release, token %d\n", i, it[i].token);
        late[place].ask = RELEASE;
        late[place].token = it[i].token;
        n = it[i].token;
        stop_believing(i);
        it[i].token = n;
        if
        :: it[i].ask == RENEW -> be_idle(i)
        :: else -> skip
        fi;
        end_step() }
#endif
    :: d_step { late[place].ask != NOTHING -> /* it stays where it is, and may arrive once more */
        TELL("network: a late request of %d arrives, token %d\n", i, late[place].token);
        execute(live, false, late[place].ask, late[place].token);
        end_step() }
#ifdef REPLICAS
    :: d_step { late[place].ask != NOTHING && !moved ->
        TELL("network: a late request of %d arrives at the former primary, token %d\n", i, late[place].token);
        execute(former, false, late[place].ask, late[place].token);
        end_step() }
#endif
    od
}

/* ---- time ---- */

#define PASS(time_left) time_left = (time_left > 0 -> time_left - 1 : 0)

inline age(store) {
    PASS(store.left);
    if
    :: store.left == 0 -> store.holder = NOBODY
    :: else -> skip
    fi;
#ifdef REPLICAS
    if
    :: !store.provisional -> PASS(store.quarantine)
    :: else -> skip
    fi
#else
    PASS(store.quarantine)
#endif
}

proctype clock() {
    do
    :: d_step {
        TELL("-- a tick\n");
        age(live);
        age(saved); /* a dump keeps the time at which a key ends */
#ifdef FORMER
        age(former);
#endif
        for (n : 0 .. INSTANCES - 1) {
            PASS(it[n].worth);
            if
            :: it[n].ask != NOTHING && it[n].worth == 0 -> be_idle(n)
            :: else -> skip
            fi;
            if
            :: it[n].belief == 1 -> stop_believing(n)
            :: else -> PASS(it[n].belief)
            fi
        }
        end_step() }
    od
}

/* ---- faults ---- */

inline copy(to, from) {
    to.holder = from.holder;
    to.left = from.left;
    to.counter = from.counter;
    to.last = from.last;
    to.run_id = from.run_id;
    to.replication_id = from.replication_id;
    to.quarantine = from.quarantine;
#ifdef REPLICAS
    to.provisional = from.provisional;
#endif
    to.floor = from.floor
}

inline flush() {
    live.holder = NOBODY;
    live.left = 0;
    live.counter = 0;
    live.last = NOBODY;
    live.run_id = NOBODY;
    live.replication_id = 0;
    live.quarantine = 0;
#ifdef REPLICAS
    live.provisional = 0;
#endif
    live.floor = 0
}

inline restart(store) {
    if
    :: store.run_id == SERVING -> store.run_id = NOBODY
    :: else -> skip
    fi;
    store.replication_id = 0
}

inline promote(store) {
    store.run_id = (store.run_id == SERVING -> STANDBY : (store.run_id == STANDBY -> SERVING : NOBODY));
    store.replication_id = 0
}

proctype faults() {
    do
    :: d_step { true -> /* a dump is written, or the replica is up to date for once */
        TELL("** the data are saved, counter %d\n", live.counter);
        copy(saved, live);
        end_step() }
#ifndef REPLICAS /* promotions are enough there, and the other losses are searched without */
    :: d_step { true -> /* FLUSHALL, or a restart without a dump: the record is gone in both */
        TELL("** everything is forgotten\n");
        flush();
        end_step() }
    :: d_step { true ->
        TELL("** the server restarts with what was saved, counter %d instead of %d\n", saved.counter, live.counter);
        copy(live, saved);
        restart(live);
        restart(saved);
        end_step() }
#endif
#ifdef REPLICAS
    :: d_step { moved -> /* in a partition: the replicas still follow the former primary, which serves on */
#else
    :: d_step { true -> /* back and forth: two of these without a script between bring the first run id back */
#endif
        TELL("** the other server is promoted, with what was saved, counter %d instead of %d\n", saved.counter, live.counter);
#ifdef FORMER
        copy(former, live);
#endif
#ifdef REPLICAS
        moved = 0;
#endif
        copy(live, saved);
        promote(live);
        promote(saved);
        end_step() }
#ifdef REPLICAS
    :: d_step { !moved ->
        TELL("** the replicas follow the new primary\n");
        moved = 1;
        for (n : 0 .. INSTANCES - 1) {
            it[n].waits = 0
        }
        end_step() }
#endif
    od
}

#ifdef FOLD
c_code {
\#include "epoch_fold.c"
};
#endif

init {
    atomic {
#ifndef NO_LATE
        for (n : 0 .. INSTANCES * LATE - 1) {
            run late_request(n / LATE, n)
        }
#endif
        for (n : 0 .. INSTANCES - 1) {
            run instance(n)
        }
        run clock();
        run faults();
        n = 0
    }
}
