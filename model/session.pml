/*
 * Leases that hang on their holder's session: heartbeats, versions, reads, leases with an end of their own, forced
 * releases, lost and late messages. One instance with a session, one target, and a rival that takes the target whenever
 * it is free. README.md maps each action to its function and says what is left out; session.sh runs it, whole and with
 * one rule at a time broken. What is true of every lease (tokens that grow, losses of data, clocks that lose time, handing
 * over) is protocol.pml's.
 *
 * Time is a number of ticks that are left, or have passed, never a date. The numbers of sessions, versions and tokens
 * are only ever compared for equality, and a number that is no longer the store's never becomes so again. So there are
 * no numbers here: a bit says whether somebody knows the one that the store has now.
 *
 * Believing stands for working: whoever may work does.
 */
#ifndef TTL
#define TTL 2
#endif

#define NOBODY 0
#define ME     1
#define RIVAL  2

#define NOTHING 0
/* BEAT_READ: a heartbeat, and behind it in the same request a read of the lease. */
mtype = { BEAT, BEAT_READ, ACQUIRE, RENEW, READ, RELEASE };

/* What an instance thinks of the lease. */
#define NONE  0
#define HELD  1 /* it believes */
#define GIVEN 2 /* it believes no more, and has to release it */

/* How a lease on the session is checked before it is believed in for longer. */
#define SURE     0
#define TO_READ  1
#define TO_RENEW 2

/* The lease in the store. */
unsigned holder : 2; /* also when the lease has ended with its session */
bit on;              /* it hangs on the session of its holder, the present one */
unsigned left : 2;   /* else: until its end */
bit barred;          /* it was forced */

typedef Instance {
    unsigned session : 2; /* until its session ends, in the store */

    unsigned state : 2;
    unsigned belief : 2; /* until its deadline */
    bit on;              /* it hangs on the session */
    unsigned check : 2;
    bit token;        /* the token that it knows is the store's */
    bit id;           /* the session that the last heartbeat reported is the store's */
    bit version;      /* and so is the version */
    unsigned age : 2; /* how long ago that heartbeat was sent */

    unsigned asks : 3;  /* the request that it waits for */
    unsigned asked : 2; /* how long ago it was sent */
    bit wants_session;
    unsigned done : 2; /* how many parts of it have taken effect */

    /* The answers that are on their way. */
    bit beat_id;           /* of the heartbeat: the session is the store's, */
    bit beat_version;      /* the version is the store's, */
    bit beat_id_same;      /* the session is the one that the instance knows, */
    bit beat_version_same; /* and so is the version */
    bit ok;
    bit lease_token;   /* of the lease: its token is the store's, */
    bit lease_on;      /* it is on a session, */
    bit lease_on_same; /* which is the one that the instance knows, */
    bit lease_on_beat; /* or the one that the heartbeat before it reports */
};
Instance it;
unsigned rival : 2; /* until it stops to believe: its requests are answered at once, and its lease has an end of its own */

/* A request that may arrive although nobody waits for it. */
unsigned late_asks : 3;
bit late_token; /* its token is the store's */
bit late_wants_session;

/* The promises: constant as long as they are kept. With -DONLY_NAME only that one is judged. */
bit believes_alone = 1; /* never two at a time */
bit stays_ended = 1;    /* no heartbeat brings back a lease that has ended */
bit forced_ends = 1;    /* nothing prolongs a lease that was forced */
bit living_go_on = 1;   /* no renewal is refused that arrives while its sender believes, unless the lease was forced */
bit not_reached = 1;
#if defined(ONLY_BELIEVES_ALONE) || defined(ONLY_STAYS_ENDED) || defined(ONLY_FORCED_ENDS) || defined(ONLY_LIVING_GO_ON)
#define ONLY
#endif

/* Used within a step, 0 between steps. */
byte was; /* what was left of the lease */
byte sent;
bit yes;
bit same;
bit knows; /* the request that takes effect has the store's token */
bit wants; /* its lease is to hang on the session */

#ifdef STORY
#define TELL(...) printf(__VA_ARGS__)
#else
#define TELL(...) skip
#endif

#define LEFT    (holder == NOBODY -> 0 : (on -> it.session : left))
#define IS_HELD (LEFT > 0)

inline end_step() {
    was = 0;
    sent = 0;
    yes = 0;
    same = 0;
    knows = 0;
    wants = 0
}

/* ---- new numbers: nobody knows them yet */

inline begin_session() {
    it.id = 0;
    it.beat_id = 0;
    it.version = 0;
    it.beat_version = 0;
    /* An answer that names the former one names none that lives: as if it were another's. */
    it.lease_on_beat = 0;
    if
    :: holder == ME && on -> make_free() /* it ended with the session */
    :: else
    fi
}

inline new_version() {
    it.version = 0;
    it.beat_version = 0
}

inline new_token() {
    it.token = 0;
    it.lease_token = 0;
    late_token = 0
}

/* ---- the store */

/* Whoever changes a lease of a session without its holder's knowing. */
inline touch() {
    if
    :: on -> new_version()
    :: else
    fi
}

inline make_free() {
    holder = NOBODY;
    on = 0;
    left = 0;
    barred = 0;
    new_token()
}

inline extend_lease() {
#ifndef PLAIN_RENEWAL_RAISES_NOTHING
    touch();
#endif
    on = 0;
    left = TTL
}

#ifdef SESSION_SHORTENS
#define MAY_JOIN (wants && it.session > 0)
#else
#define MAY_JOIN (wants && it.session > 0 && it.session >= was)
#endif

inline join_session() {
    on = 1;
    left = 0
}

inline heartbeat() {
    yes = IS_HELD;
    if
#ifndef SESSION_COMES_BACK
    :: it.session == 0 -> begin_session()
#endif
    :: else
    fi;
    it.session = TTL;
    it.beat_id_same = it.id;
    it.beat_version_same = it.id && it.version;
    it.beat_id = 1;
    it.beat_version = 1;
    stays_ended = stays_ended && (yes || !IS_HELD)
}

inline acquire() {
    if
    :: was > 0 && holder == ME && !barred ->
        if
        :: MAY_JOIN -> join_session()
        :: !MAY_JOIN && TTL > was -> extend_lease()
        :: else
        fi;
        it.ok = 1
    :: was > 0 && !(holder == ME && !barred) -> it.ok = 0
    :: was == 0 ->
        touch();
        make_free();
        holder = ME;
        if
        :: wants && it.session > 0 -> on = 1
        :: else -> left = TTL
        fi;
        it.ok = 1
    fi
}

inline renew() {
    yes = was > 0 && holder == ME && knows;
    it.ok = yes && !barred;
    if
    :: it.ok && MAY_JOIN -> join_session()
    :: it.ok && !MAY_JOIN -> extend_lease()
    :: else
    fi
}

inline read_lease() {
    it.ok = was > 0 && holder == ME && knows && !barred
}

inline release() {
    if
    :: was > 0 && holder == ME && knows -> make_free()
    :: else
    fi;
    it.ok = 1
}

inline force() {
    IS_HELD && !barred;
    TELL("--- the lease is forced\n");
    was = LEFT;
#ifndef FORCE_RAISES_NOTHING
    touch();
#endif
#ifndef FORCED_STAYS_ON_SESSION
    on = 0;
    left = was;
#endif
    barred = 1
}

inline describe() {
    yes = it.ok && IS_HELD && holder == ME;
    it.lease_token = yes;
    it.lease_on = yes && on;
    it.lease_on_same = yes && on && it.id;
    it.lease_on_beat = yes && on && it.beat_id
}

inline execute(what) {
    was = LEFT;
    sent = (barred -> was : TTL + 1); /* what is left of a forced lease */
    if
    :: what == BEAT -> heartbeat()
    :: what == ACQUIRE -> acquire(); describe()
    :: what == RENEW -> renew(); describe()
    :: what == READ -> read_lease(); describe()
    :: what == RELEASE -> release()
    fi;
    forced_ends = forced_ends && (!barred || LEFT <= sent)
}

/* ---- an instance */

inline believe_from(when) {
    if
    :: when < TTL && TTL - when > it.belief -> it.belief = TTL - when
    :: else
    fi
}

inline give_up() {
    it.state = GIVEN;
    it.belief = 0;
    it.on = 0;
    it.check = SURE
}

inline forget_lease() {
    it.state = NONE;
    it.token = 0;
    it.belief = 0;
    it.on = 0;
    it.check = SURE
}

inline take_beat() {
    yes = it.beat_id_same;
    same = it.beat_version_same;
    it.id = it.beat_id;
    it.version = it.beat_version;
#ifdef BEAT_FROM_RECEIPT
    it.age = 0;
#else
    it.age = it.asked;
#endif
#ifdef VERSION_IGNORED
    same = yes;
#endif
    if
    :: it.state == HELD && it.on && !yes -> it.check = TO_RENEW
    :: it.state == HELD && it.on && yes && it.check == SURE && same -> believe_from(it.age)
    :: it.state == HELD && it.on && yes && it.check == SURE && !same -> it.check = TO_READ
    :: else
    fi
}

/* knows: the read says that the lease is on the session that is known. */
inline take_read() {
    knows = it.ok && it.lease_on && (it.asks == READ -> it.lease_on_same : it.lease_on_beat);
    if
    :: it.state == HELD && it.on && it.check == TO_READ && knows ->
        it.check = SURE;
#ifdef REACH_READ_EXTENDS
        not_reached = not_reached && !(!same && TTL - it.age > it.belief);
#endif
#ifdef READ_LENGTHENS
        sent = (it.asks == READ -> it.asked : it.age);
        believe_from(sent)
#else
        believe_from(it.age)
#endif
    :: it.state == HELD && it.on && it.check == TO_READ && !knows ->
#ifdef REACH_FORCED_NOTICED
        not_reached = not_reached && !barred;
#endif
        it.check = TO_RENEW
    :: else
    fi
}

/* From when a belief in what was granted or renewed counts. */
inline find_sent() {
    if
    :: !it.lease_on -> sent = it.asked
    :: it.lease_on && it.lease_on_same ->
#ifdef ACQUIRE_LENGTHENS
        sent = it.asked
#else
        sent = it.age
#endif
    :: it.lease_on && !it.lease_on_same ->
#ifdef OTHER_SESSION_IS_BELIEVED
        sent = it.asked
#else
        sent = TTL
#endif
    fi
}

inline take_acquire() {
    if
    :: it.ok && it.state == NONE ->
        find_sent();
        it.token = it.lease_token;
        if
        :: sent < TTL ->
            it.state = HELD;
            it.on = it.lease_on;
            believe_from(sent)
        :: else -> it.state = GIVEN
        fi
    :: else
    fi
}

inline take_renewal() {
    if
    :: it.state == HELD && !it.ok -> forget_lease()
    :: it.state == HELD && it.ok ->
        find_sent();
#ifdef REACH_BACK_ON_SESSION
        not_reached = not_reached && !(it.lease_on && it.lease_on_same && !it.on);
#endif
        it.on = it.lease_on;
        it.check = (sent < TTL -> SURE : TO_RENEW);
        believe_from(sent)
    :: else
    fi
}

inline clear_answers() {
    it.beat_id = 0;
    it.beat_version = 0;
    it.beat_id_same = 0;
    it.beat_version_same = 0;
    it.ok = 0;
    it.lease_token = 0;
    it.lease_on = 0;
    it.lease_on_same = 0;
    it.lease_on_beat = 0
}

inline end_request() {
    it.asks = NOTHING;
    it.asked = 0;
    it.wants_session = 0;
    it.done = 0;
    clear_answers()
}

inline take_answer() {
    it.asks != NOTHING && it.done == (it.asks == BEAT_READ -> 2 : 1);
    TELL("takes the answer to %e\n", it.asks);
    if
    :: it.asks == BEAT -> take_beat()
    :: it.asks == BEAT_READ ->
        take_beat();
        take_read()
    :: it.asks == ACQUIRE -> take_acquire()
    :: it.asks == RENEW -> take_renewal()
    :: it.asks == READ -> take_read()
    :: it.asks == RELEASE -> forget_lease()
    fi;
    end_request()
}

/* when: its state allows that. */
inline begin_request(when, what, session_wanted) {
    it.asks == NOTHING && (when);
    TELL("sends %e\n", what);
    it.asks = what;
    it.wants_session = session_wanted;
    it.check = (what == BEAT_READ -> TO_READ : it.check)
}

/* The request takes effect; of a heartbeat and a read one after the other, and others may come between. */
inline arrive() {
    it.asks != NOTHING && it.done < (it.asks == BEAT_READ -> 2 : 1);
    TELL("%e takes effect\n", it.asks);
    knows = it.token;
    wants = it.wants_session;
    if
    :: it.asks != BEAT_READ -> execute(it.asks)
#ifdef READ_BEFORE_BEAT
    :: it.asks == BEAT_READ && it.done == 0 ->
        it.beat_id = it.id; /* which it will report if it lives then */
        execute(READ)
    :: it.asks == BEAT_READ && it.done == 1 -> execute(BEAT)
#else
    :: it.asks == BEAT_READ && it.done == 0 -> execute(BEAT)
    :: it.asks == BEAT_READ && it.done == 1 -> execute(READ)
#endif
    fi;
    living_go_on = living_go_on && !(it.asks == RENEW && it.state == HELD && !it.ok && !barred);
    it.done++
}

/* No answer comes. What did not arrive may do so later. */
inline give_up_waiting() {
    it.asks != NOTHING;
    TELL("waits no longer\n");
    end_request()
}

inline leave_behind() {
    it.asks != NOTHING && it.done == 0 && late_asks == NOTHING && it.asks != READ;
    TELL("waits no longer for what is on its way\n");
    late_asks = (it.asks == BEAT_READ -> BEAT : it.asks);
    late_token = (late_asks == RENEW || late_asks == RELEASE) && it.token;
    late_wants_session = it.wants_session;
    end_request()
}

/* Once, or more often: its answer goes nowhere. While an answer waits for the instance, this one waits, too. */
inline late_request() {
    late_asks != NOTHING && it.done == 0;
    TELL("a late %e takes effect\n", late_asks);
    knows = late_token;
    wants = late_wants_session;
    execute(late_asks);
    clear_answers()
}

inline lose_late() {
    late_asks != NOTHING;
    late_asks = NOTHING;
    late_token = 0;
    late_wants_session = 0
}

/* Its work is over, or has to end. */
inline stop_believing() {
    it.state == HELD;
    TELL("stops\n");
    give_up()
}

/* ---- the rival */

inline rival_acquires() {
    (holder == RIVAL && !barred) || !IS_HELD;
    TELL("    the rival acquires, or renews\n");
    if
    :: holder != RIVAL ->
        touch();
        make_free();
        holder = RIVAL
    :: else
    fi;
    left = TTL;
    rival = TTL
}

inline rival_releases() {
    holder == RIVAL;
    TELL("    the rival releases\n");
    make_free();
    rival = 0
}

/* ---- time */

inline age_instance() {
    it.age = (it.age < TTL -> it.age + 1 : TTL);
    it.asked = (it.asks != NOTHING && it.asked < TTL -> it.asked + 1 : it.asked);
    it.session = (it.session > 0 -> it.session - 1 : 0);
    if
    :: it.belief == 1 -> give_up()
    :: it.belief > 1 -> it.belief--
    :: else
    fi
}

inline tick() {
    TELL("--- a tick\n");
    age_instance();
    rival = (rival > 0 -> rival - 1 : 0);
    left = (left > 0 -> left - 1 : 0);
    if
    :: holder != NOBODY && !on && left == 0 -> make_free()
    :: else
    fi
}

inline judge() {
    believes_alone = believes_alone && !(it.belief > 0 && rival > 0);
    end_step()
}

active proctype world() {
    do
    :: d_step { tick(); judge() }
    :: d_step { force(); judge() }
    :: d_step { lose_late(); judge() }
    :: d_step { rival_acquires(); judge() }
    :: d_step { rival_releases(); judge() }
    :: d_step { begin_request(true, BEAT, 0); judge() }
    :: d_step { begin_request(it.state == HELD && it.on && it.check != TO_RENEW, BEAT_READ, 0); judge() }
    :: d_step { begin_request(it.state == NONE, ACQUIRE, 1); judge() }
    :: d_step { begin_request(it.state == NONE, ACQUIRE, 0); judge() }
    :: d_step { begin_request(it.state == HELD, RENEW, 1); judge() }
    :: d_step { begin_request(it.state == HELD, RENEW, 0); judge() }
    :: d_step { begin_request(it.state == HELD && it.on && it.check == TO_READ, READ, 0); judge() }
    :: d_step { begin_request(it.state == GIVEN, RELEASE, 0); judge() }
    :: d_step { arrive(); judge() }
    :: d_step { take_answer(); judge() }
    :: d_step { give_up_waiting(); judge() }
    :: d_step { leave_behind(); judge() }
    :: d_step { late_request(); judge() }
    :: d_step { stop_believing(); judge() }
#if !defined(ONLY) || defined(ONLY_BELIEVES_ALONE)
    :: !believes_alone -> assert(believes_alone)
#endif
#if !defined(ONLY) || defined(ONLY_STAYS_ENDED)
    :: !stays_ended -> assert(stays_ended)
#endif
#if !defined(ONLY) || defined(ONLY_FORCED_ENDS)
    :: !forced_ends -> assert(forced_ends)
#endif
#if !defined(ONLY) || defined(ONLY_LIVING_GO_ON)
    :: !living_go_on -> assert(living_go_on)
#endif
    :: !not_reached -> assert(not_reached)
    od
}
