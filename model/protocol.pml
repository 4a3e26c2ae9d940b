/*
 * The protocol of a lease between instances and a store: acquire, renew, release, expiry, lost and late messages,
 * handing over to a successor (HANDS), forced releases (FORCES), pauses, clocks that lose time, and a store that forgets. README.md maps each action to its function and says what is
 * left out; protocol.sh runs it, whole and with one rule at a time broken. Restarts with old data, promotions and what
 * tells them are epoch.pml's.
 *
 * Time is a number of the store's ticks that are left, never a date, and tokens are numbered anew in their order
 * (protocol_fold.c): so the same situation is the same state whenever it comes, and a search of all of them ends
 * although grants, losses and ticks have no bound. A pause needs no step of its own: nobody but the clock ever has to
 * take one.
 *
 * Believing stands for working: whoever may work does.
 */
#ifndef INSTANCES
#define INSTANCES 2
#endif
#ifndef TARGETS
#define TARGETS 1
#endif
#ifndef TTL
#define TTL 3
#endif
#ifndef LATE
#define LATE 1 /* requests that may be under way although nobody waits for them */
#endif
#define SEATS     (INSTANCES * TARGETS)
#define TOKEN_MAX 14

/* A clock loses at most one tick in a TTL's time, and the margin is made for that. (One that gains time only ends a
 * belief early, which may happen anyway.) With OWN_CLOCKS each instance's clock loses its tick at a moment of its own;
 * without, every clock is as slow as it may be all the time, which allows all that and more, since a belief may end
 * early: so there are far fewer states. */
#define MARGIN 1
#ifdef CLOCKS_WORSE_THAN_THE_MARGIN
#define DRIFT 2
#else
#define DRIFT 1
#endif

/* How long a holder believes: by its own clock, and in ticks of the store's. */
#ifdef NO_MARGIN
#define OWN_TIME TTL
#else
#define OWN_TIME (TTL - MARGIN)
#endif
#ifdef OWN_CLOCKS
#define LASTS OWN_TIME
#else
#define LASTS (OWN_TIME + DRIFT)
#endif

#define NOBODY  0
#define NOTHING 0
#define ACQUIRE 1
#define RENEW   2
#define RELEASE 3
#define HAND    4 /* + the successor: only ever late, because its answer tells nothing */

/* The lease of a target in the store. */
typedef Lease {
    unsigned holder : 2;
    unsigned left : 2;    /* until it ends */
    unsigned counter : 4; /* the last token granted */
    unsigned last : 2;    /* to whom; NOBODY once it was released */
    unsigned floor : 4;   /* the least token that may be granted; 0: below the counter anyway */
    unsigned top : 4;     /* the highest token ever granted. Nobody knows it */
    unsigned best : 4;    /* the highest ever believed in, */
    unsigned best_by : 2; /* and by whom. Nobody knows that, either */
    unsigned barred : 1;  /* it was forced: nobody renews it, and it ends in its time */
};
Lease lease[TARGETS];
unsigned quarantine : 2; /* how long nobody new is let in, because the store forgot */

/* An instance and a target: seat i * TARGETS + t. */
typedef Seat {
    unsigned belief : 3;  /* until its deadline; 0: it does not believe */
    unsigned token : 4;   /* that it believes in, or gave up; else 0 */
    unsigned ask : 2;     /* what it waits for an answer to */
    unsigned granted : 4; /* the token of the good answer that is on its way; 0: there is none. A bad one tells nothing
                             that giving up would not */
};
Seat seat[SEATS];

typedef Instance {
    unsigned worth : 3;  /* how long answers to its request would be worth something: counted from its sending */
    unsigned steady : 2; /* how long its clock will not lose another tick */
};
Instance it[INSTANCES];

typedef Request {
    unsigned by : 3; /* the seat */
    unsigned ask : 3;
    unsigned token : 4;
};
Request late[LATE];

/* The promises: constant as long as they are kept. With -DONLY_NAME only that one is judged, because what breaks two of
 * them is to be seen breaking the one that matters. */
bit believes_alone = 1; /* nobody begins to believe while another does */
bit token_is_above = 1; /* nobody begins to believe in a token that is not above all that another believed in */
bit token_grows = 1;    /* the store grants no token twice, nor a lower one */
bit changes_own = 1;    /* no request lengthens or ends a lease but its own holder's, under its own token */
bit living_go_on = 1;   /* no renewal is refused that arrives while its sender believes */
bit takes_over = 1;     /* from wherever: who is left alone with the store has the target within a TTL */
bit tokens_suffice = 1; /* of the model, not of the rule: its numbers are large enough */
bit not_reached = 1;
#if defined(REACH_CONFIRMED) || defined(SUCCESSOR_BELIEVES_UNCONFIRMED)
#define NOTE_HANDED
byte handed; /* the last token that was handed over */
#endif
#if defined(ONLY_BELIEVES_ALONE) || defined(ONLY_TOKEN_IS_ABOVE) || defined(ONLY_TOKEN_GROWS) ||                       \
    defined(ONLY_CHANGES_OWN) || defined(ONLY_LIVING_GO_ON) || defined(ONLY_TAKES_OVER)
#define ONLY
#endif

/* Used within a step, 0 between steps. */
byte n;
byte m;
bit yes;
unsigned new : 5;

#ifdef STORY
#define TELL(...) printf(__VA_ARGS__)
#else
#define TELL(...) skip
#endif

#define I (s / TARGETS)
#define T (s % TARGETS)
#define ME (I + 1)

inline end_step() {
    n = 0;
    m = 0;
    yes = 0;
    new = 0;
#ifdef FOLD
    c_code { fold(); };
#endif
}

/* ---- the store: one operation, one step ---- */

#if defined(NO_EPOCH)
#define QUARANTINE 0
#elif defined(QUARANTINE_TOO_SHORT)
#define QUARANTINE (TTL - 1)
#else
#define QUARANTINE TTL
#endif
#if defined(FLOOR_ZERO) || defined(NO_EPOCH)
#define FLOOR 0
#else
#define FLOOR (lease[n].top + 1)
#endif

inline judge_own(shown) {
#if defined(ONLY_CHANGES_OWN) || !defined(ONLY)
    changes_own = lease[T].holder == ME && lease[T].counter == shown;
    assert(changes_own)
#else
    skip
#endif
}

/* The token `new` is the target's, and whose it is. */
inline give(whose) {
    tokens_suffice = new <= TOKEN_MAX;
    assert(tokens_suffice);
#if defined(ONLY_TOKEN_GROWS) || !defined(ONLY)
    token_grows = new > lease[T].top;
    assert(token_grows);
#endif
    lease[T].floor = 0;
    lease[T].top = (new > lease[T].top -> new : lease[T].top);
    lease[T].holder = whose;
    lease[T].last = whose;
    lease[T].left = TTL;
    lease[T].counter = new
}

#define NEXT_TOKEN (lease[T].counter + 1 > lease[T].floor -> lease[T].counter + 1 : lease[T].floor)

inline acquire() {
    if
    :: lease[T].holder == ME && quarantine == 0 && lease[T].counter >= lease[T].floor && !lease[T].barred ->
        TELL("store: %d holds %d already, token %d\n", I, T, lease[T].counter);
        lease[T].left = TTL;
        new = lease[T].counter
    :: lease[T].holder == NOBODY && quarantine == 0 ->
        new = NEXT_TOKEN;
#ifdef NO_TOKEN_COUNTER
        new = 1;
#endif
#ifdef REACH_GRANT_AFTER_LOSS
        not_reached = !(lease[T].counter == 0 && lease[T].best > 0);
        assert(not_reached);
#endif
        TELL("store: gives %d to %d, token %d\n", T, I, new);
        give(ME)
    :: else ->
        TELL("store: %d does not get %d\n", I, T);
#ifdef REFUSED_IS_GRANTED
        new = lease[T].counter
#endif
    fi
}

#if defined(PUT_BACK_NOTHING)
#define MAY_PUT_BACK(shown) false
#else
#define MAY_PUT_BACK(shown)                                                                                            \
    (quarantine > 0 && (shown > lease[T].counter || (shown == lease[T].counter && lease[T].last == ME && !lease[T].barred)))
#endif

#ifdef RENEW_WITHOUT_COMPARISON
#define IS_RENEWED(shown) (lease[T].holder != NOBODY)
#else
#define IS_RENEWED(shown) (lease[T].holder == ME && lease[T].counter == shown && !lease[T].barred)
#endif

inline renew(shown) {
    if
    :: IS_RENEWED(shown) ->
        judge_own(shown);
#ifdef REACH_KEPT_OVER_LOSS
        not_reached = !(quarantine == 0 && lease[T].floor > shown && seat[s].belief > 0);
        assert(not_reached);
#endif
        TELL("store: renews %d for %d, token %d\n", T, I, shown);
        lease[T].left = TTL;
        new = shown
    :: else ->
        if
        :: MAY_PUT_BACK(shown) ->
            TELL("store: puts %d back for %d, token %d\n", T, I, shown);
            lease[T].holder = ME;
            lease[T].last = ME;
            lease[T].left = TTL;
            lease[T].counter = shown;
            new = shown
        :: else ->
            TELL("store: refuses to renew %d for %d, token %d\n", T, I, shown);
#if defined(ONLY_LIVING_GO_ON) || !defined(ONLY)
            living_go_on = !(seat[s].belief > 0 && seat[s].token == shown) || lease[T].barred;
            assert(living_go_on)
#endif
        fi
    fi
}

#ifdef RELEASE_WITHOUT_TOKEN
#define IS_RELEASED(shown) (lease[T].holder == ME)
#else
#define IS_RELEASED(shown) (lease[T].holder == ME && lease[T].counter == shown)
#endif

inline release(shown) {
    if
    :: IS_RELEASED(shown) ->
        judge_own(shown);
        TELL("store: frees %d, token %d\n", T, shown);
        lease[T].holder = NOBODY;
        lease[T].left = 0;
        lease[T].last = NOBODY;
        lease[T].barred = 0
    :: else -> TELL("store: %d has nothing of %d to release under token %d\n", I, T, shown)
    fi
}

#ifdef HAND_WITHOUT_TOKEN
#define IS_HANDED(shown) (lease[T].holder == ME)
#else
#define IS_HANDED(shown) (lease[T].holder == ME && lease[T].counter == shown && !lease[T].barred)
#endif
#ifdef HAND_IN_QUARANTINE
#define MAY_HAND true
#else
#define MAY_HAND (quarantine == 0)
#endif

inline hand(shown, successor) {
    if
    :: IS_HANDED(shown) && MAY_HAND ->
        judge_own(shown);
        new = NEXT_TOKEN;
#ifdef HANDED_TOKEN_IS_KEPT
        new = shown;
#endif
        TELL("store: passes %d on to %d, token %d\n", T, successor, new);
        give(successor + 1);
#ifdef NOTE_HANDED
        handed = new;
#endif
        new = 0 /* the sender is granted nothing */
    :: else -> TELL("store: %d has nothing of %d to hand over under token %d\n", I, T, shown)
    fi
}

/* new: the token that the answer grants, or 0 */
inline execute(asked, shown) {
    if
    :: asked == ACQUIRE -> acquire()
    :: asked == RENEW -> renew(shown)
    :: asked == RELEASE -> release(shown)
#ifdef HANDS
    :: asked >= HAND -> hand(shown, asked - HAND)
#endif
    fi
}

/* ---- an instance: what it asks for, and what it believes ---- */

/* It hears no more of its request: it came to its end, or is given up. Other targets' parts of it go on. */
inline forget_ask(which) {
    seat[which].ask = NOTHING;
    seat[which].granted = 0
}

/* Its deadline has passed, or the work was ended. What it gave up it never believes in again. */
inline stop_believing(which) {
    seat[which].belief = 0;
#ifndef LATE_REPLY_REVIVES
    if
    :: seat[which].ask == RENEW -> forget_ask(which)
    :: else -> skip
    fi
#endif
}

#ifdef DEADLINE_FROM_RECEIVE
#define WORTH LASTS
#else
#define WORTH it[I].worth
#endif

/* in the token `new` */
inline believe() {
    seat[s].token = new;
    seat[s].belief = WORTH;
    TELL("%d: BELIEVES in token %d of %d\n", I, new, T);
#ifdef REACH_CONFIRMED
    not_reached = new != handed;
    assert(not_reached);
#endif
#if defined(ONLY_BELIEVES_ALONE) || !defined(ONLY)
    for (n : 0 .. INSTANCES - 1) {
        believes_alone = believes_alone && (n == I || seat[n * TARGETS + T].belief == 0)
    }
    assert(believes_alone);
#endif
#if defined(ONLY_TOKEN_IS_ABOVE) || !defined(ONLY)
    token_is_above = new > lease[T].best || (new == lease[T].best && lease[T].best_by == ME);
    assert(token_is_above);
#endif
    if
    :: new > lease[T].best ->
        lease[T].best = new;
        lease[T].best_by = ME
    :: else -> skip
    fi
}

#ifdef RELEASED_TOKEN_IS_BELIEVED
#define IS_STALE false
#else
#define IS_STALE (new <= seat[s].token)
#endif

/* What nobody waits for the answer of: there are few places, and what is in one may be lost for something new. */
inline leave_behind(where, what) {
    late[where].by = s;
    late[where].ask = what;
    late[where].token = new
}

/* An acquire that recognised itself under a token that was given up: its release may still arrive, or another has had
 * the target meanwhile. Given back, the next grant has a higher token. */
inline take_grant() {
    if
    :: IS_STALE ->
#ifdef REACH_STALE_GRANT
        not_reached = 0;
        assert(not_reached);
#endif
#ifndef STALE_GRANT_IS_KEPT
        TELL("%d: gives token %d of %d back\n", I, new, T);
        leave_behind(0, RELEASE)
#else
        skip
#endif
    :: else ->
#ifdef OLD_TOKEN_IS_KEPT
        new = (seat[s].token > 0 -> seat[s].token : new);
#endif
        believe()
    fi
}

inline take_answer() {
    new = seat[s].granted;
    if
    :: seat[s].ask == RENEW -> believe()
    :: seat[s].ask == ACQUIRE -> take_grant()
    :: else -> skip
    fi;
    forget_ask(s)
}

inline end_request(i) {
    for (m : 0 .. TARGETS - 1) {
        forget_ask(i * TARGETS + m)
    }
    it[i].worth = 0
}

/* The part of a request that is about one target: what is held is renewed, what is not is asked for. */
inline ask_for(t) {
    seat[i * TARGETS + t].ask = (seat[i * TARGETS + t].belief > 0 -> RENEW : ACQUIRE)
}

#define ASKS(t)      (seat[i * TARGETS + (t)].ask != NOTHING)
#define HEARS_OF(t)  (seat[i * TARGETS + (t)].ask == NOTHING || seat[i * TARGETS + (t)].granted > 0)
#define BELIEVES(t)  (seat[i * TARGETS + (t)].belief > 0)
#define BELIEF(t)    seat[i * TARGETS + (t)].belief
#if TARGETS == 1
#define IS_ASKING    ASKS(0)
#define IS_ANSWERED  (ASKS(0) && HEARS_OF(0))
#define IS_BELIEVING BELIEVES(0)
#else
#define IS_ASKING    (ASKS(0) || ASKS(1))
#define IS_ANSWERED  (IS_ASKING && HEARS_OF(0) && HEARS_OF(1))
#define IS_BELIEVING (BELIEVES(0) || BELIEVES(1))
#endif


inline begin_request() {
    it[i].worth = LASTS;
    TELL("%d: sends a request\n", i)
}

#define LENGTHEN(time_left) time_left = (time_left > 0 -> time_left + DRIFT : 0)

proctype instance(byte i) {
    byte s;
    do
    :: d_step { !IS_ASKING -> /* one request at a time, for one target or for several */
        begin_request();
        ask_for(0);
        end_step() }
#if TARGETS == 2
    :: d_step { !IS_ASKING ->
        begin_request();
        ask_for(1);
        end_step() }
    :: d_step { !IS_ASKING ->
        begin_request();
        ask_for(0);
        ask_for(1);
        end_step() }
#endif
    :: d_step { IS_ANSWERED -> /* the answer arrives. It counts from the sending */
#ifdef BATCH_IS_ONE
        for (n : 0 .. TARGETS - 1) {
            new = (seat[i * TARGETS + n].granted > new -> seat[i * TARGETS + n].granted : new)
        }
        seat[i * TARGETS].granted = new;
        seat[i * TARGETS].ask = ACQUIRE;
        seat[i * TARGETS + 1].granted = new;
        seat[i * TARGETS + 1].ask = ACQUIRE;
#endif
        for (m : 0 .. TARGETS - 1) {
            s = i * TARGETS + m;
            take_answer()
        }
        end_request(i);
        s = 0;
        end_step() }
    :: d_step { IS_ASKING -> /* the request is lost, or its answer, or its sender's patience */
        TELL("%d: hears nothing of its request\n", i);
#ifdef NO_ANSWER_IS_YES
        s = i * TARGETS;
        if
        :: seat[s].ask == RENEW ->
            new = seat[s].token;
            believe()
        :: else -> skip
        fi;
        s = 0;
#endif
        end_request(i);
        end_step() }
#ifdef OWN_CLOCKS
    :: d_step { it[i].steady == 0 && (it[i].worth > 0 || IS_BELIEVING) -> /* its clock loses a tick: what it counts lasts longer */
        TELL("%d: its clock falls behind\n", i);
        it[i].steady = TTL;
        LENGTHEN(it[i].worth);
        LENGTHEN(BELIEF(0));
#if TARGETS == 2
        LENGTHEN(BELIEF(1));
#endif
        end_step() }
#endif
    od
}

/* What concerns one target of one instance. */
proctype seat_of(byte s) {
    do
    :: d_step { seat[s].ask != NOTHING && seat[s].granted == 0 -> /* this part of the request arrives */
        execute(seat[s].ask, seat[s].token);
        if
        :: new > 0 -> seat[s].granted = new
        :: else -> forget_ask(s)
        fi;
        end_step() }
    :: d_step { seat[s].belief > 0 ->
        TELL("%d: stops believing in token %d of %d\n", I, seat[s].token, T);
        stop_believing(s);
        end_step() }
#ifdef SUCCESSOR_BELIEVES_UNCONFIRMED
    :: d_step { lease[T].holder == ME && lease[T].counter == handed && seat[s].belief == 0 -> /* it hears that it was handed over to it */
        new = lease[T].counter;
        it[I].worth = LASTS;
        believe();
        it[I].worth = 0;
        end_step() }
#endif
    od
}

/* ---- the network: a place for a request that nobody waits for ---- */

inline hand_over(successor) {
    TELL("%d: hands %d over to %d, token %d\n", I, T, successor, seat[s].token);
    new = seat[s].token;
    leave_behind(place, HAND + successor);
#ifndef HAND_BEFORE_STOP
    stop_believing(s)
#endif
}

proctype late_request(byte place; byte s) {
    do
    :: d_step { seat[s].ask != NOTHING -> /* its sender gives up, and it may have arrived and arrives again */
        TELL("%d: hears nothing of its request, which is still under way\n", I);
        new = (seat[s].ask == RENEW -> seat[s].token : 0);
        leave_behind(place, seat[s].ask);
        end_request(I);
        end_step() }
    :: d_step { seat[s].belief > 0 -> /* given back: the work ends, then it is sent. The answer would tell nothing */
        TELL("%d: releases %d, token %d\n", I, T, seat[s].token);
        new = seat[s].token;
        leave_behind(place, RELEASE);
#ifndef RELEASE_BEFORE_STOP
        stop_believing(s);
#endif
        end_step() }
#ifdef HANDS
    :: d_step { seat[s].belief > 0 -> /* handed over: the work ends, then it is sent */
        hand_over((I + 1) % INSTANCES);
        end_step() }
#if INSTANCES == 3
    :: d_step { seat[s].belief > 0 ->
        hand_over((I + 2) % INSTANCES);
        end_step() }
#endif
#endif
    :: d_step { late[place].ask != NOTHING && late[place].by == s -> /* it stays, and may arrive once more */
        TELL("network: a late request of %d for %d arrives, token %d\n", I, T, late[place].token);
        execute(late[place].ask, late[place].token);
        end_step() }
    od
}

/* ---- time ---- */

#define PASS(time_left) time_left = (time_left > 0 -> time_left - 1 : 0)

inline age_store() {
    for (n : 0 .. TARGETS - 1) {
#ifndef LEASES_NEVER_END
        PASS(lease[n].left);
        if
        :: lease[n].left == 0 ->
            lease[n].holder = NOBODY;
            lease[n].barred = 0
        :: else -> skip
        fi
#else
        skip
#endif
    }
    PASS(quarantine)
}

inline age_instances() {
    for (n : 0 .. INSTANCES - 1) {
        if
        :: it[n].worth == 1 -> end_request(n) /* an answer would come after its own deadline */
        :: else -> PASS(it[n].worth)
        fi;
        PASS(it[n].steady)
    }
    for (n : 0 .. SEATS - 1) {
        if
        :: seat[n].belief == 1 ->
#ifndef PAUSED_BELIEVES_ON
            stop_believing(n)
#endif
        :: else -> PASS(seat[n].belief)
        fi
    }
}

/* With nothing to count, how well a clock runs makes no difference. */
inline rest_clocks() {
    for (n : 0 .. INSTANCES - 1) {
        yes = it[n].worth == 0;
        for (m : 0 .. TARGETS - 1) {
            yes = yes && seat[n * TARGETS + m].belief == 0
        }
        it[n].steady = (yes -> 0 : it[n].steady)
    }
}

proctype clock() {
    do
    :: d_step {
        TELL("-- a tick\n");
        age_store();
        age_instances();
        rest_clocks();
        end_step() }
    od
}

/* ---- the store forgets everything, and notices. Noticing later would only keep newcomers out for longer ---- */

proctype loss() {
    do
    :: d_step { true ->
        TELL("** the store forgets everything\n");
        for (n : 0 .. TARGETS - 1) {
            lease[n].holder = NOBODY;
            lease[n].left = 0;
            lease[n].counter = 0;
            lease[n].last = NOBODY;
            lease[n].barred = 0;
            lease[n].floor = FLOOR
        }
        quarantine = QUARANTINE;
        end_step() }
    od
}

/* ---- somebody forces a release ---- */

#ifdef FORCES
proctype force() {
    do
    :: d_step { lease[0].holder != NOBODY && !lease[0].barred ->
        TELL("** 0 is forced\n");
        lease[0].barred = 1;
        end_step() }
    od
}
#endif

/* ---- the end: from here on one instance is alone with a store that answers. No deadlock, and none that moves ---- */

inline forget_all() {
    for (n : 0 .. TARGETS - 1) {
        lease[n].holder = NOBODY;
        lease[n].left = 0;
        lease[n].counter = 0;
        lease[n].last = NOBODY;
        lease[n].floor = 0;
        lease[n].top = 0;
        lease[n].best = 0;
        lease[n].best_by = NOBODY;
        lease[n].barred = 0
    }
    for (n : 0 .. SEATS - 1) {
        seat[n].belief = 0;
        seat[n].token = 0;
        forget_ask(n)
    }
    for (n : 0 .. INSTANCES - 1) {
        it[n].worth = 0;
        it[n].steady = 0
    }
    for (n : 0 .. LATE - 1) {
        late[n].by = 0;
        late[n].ask = NOTHING;
        late[n].token = 0
    }
    quarantine = 0
}

#if defined(ONLY_TAKES_OVER) || !defined(ONLY)
proctype end() {
    byte s;
    byte ticks;
    do
    :: d_step { true -> /* a step back to the beginning, so it costs no state */
        do
        :: ticks > TTL -> break
        :: else ->
            if
            :: seat[s].belief > 0 -> break
            :: else -> skip
            fi;
            new = 0;
            acquire();
            if
            :: new > 0 && !IS_STALE -> break
            :: new > 0 && IS_STALE ->
#ifndef STALE_GRANT_IS_KEPT
                release(new)
#else
                age_store();
                ticks++
#endif
            :: else ->
                age_store();
                ticks++
            fi
        od;
        takes_over = ticks <= TTL;
        assert(takes_over);
        ticks = 0;
        forget_all();
        end_step() }
    od
}
#endif

#ifdef FOLD
c_code {
\#include "protocol_fold.c"
};
#endif

init {
    atomic {
        for (n : 0 .. INSTANCES - 1) {
            run instance(n)
        }
        for (n : 0 .. SEATS - 1) {
            run seat_of(n)
        }
        for (n : 0 .. SEATS * LATE - 1) {
            run late_request(n / SEATS, n % SEATS)
        }
        run clock();
#ifndef NO_LOSS
        run loss();
#endif
#ifdef FORCES
        run force();
#endif
#if defined(ONLY_TAKES_OVER) || !defined(ONLY)
        run end();
#endif
        n = 0
    }
}
