/*
 * The state of a fleet, shared by its files: fleet.c (the handle, events), fleet_target.c (which targets are known, and
 * what the program wants of them), fleet_held.c (the targets that this instance has to do with), fleet_request.c (what
 * to send next), fleet_answer.c (what an answer means), fleet_session.c (leases that one heartbeat renews),
 * fleet_view.c (the other instances, who holds what, the plan), fleet_part.c (what the engine tells it; which targets
 * are registered), fleet_pins.c (which of them are pinned) and fleet_unowned.c (targets without a holder).
 */
#ifndef TEN_CORE_FLEET_STATE_H
#define TEN_CORE_FLEET_STATE_H

#include "base/timers.h"
#include "core/fleet.h"

#define TEN_NOBODY   TEN_PLAN_NONE
#define TEN_OUTSIDER (TEN_PLAN_NONE - 1) /* a holder that is not in the list of instances */

/* What this program wants of a target. Every change goes through ten_fleet_move(), which has the table of moves. */
enum ten_fleet_want {
    TEN_TARGET_UNUSED,    /* the number is no target's */
    TEN_TARGET_PLANNED,   /* it was put: the plan says who has it */
    TEN_TARGET_CLAIMED,   /* it was put, and is wanted whatever the plan says */
    TEN_TARGET_UNCLAIMED, /* it was put: what is held is released, even if it is planned for this instance */
    TEN_TARGET_EXTRA,     /* it is wanted, but was never put: it has no part in the plan */
    /* These are forgotten when they are no longer held. */
    TEN_TARGET_REMOVED,  /* it was put, and is kept if it is put again */
    TEN_TARGET_REVOKED,  /* it was put, and is released even if it is put again */
    TEN_TARGET_UNWANTED, /* it was never put, and is kept if it is put */
    TEN_TARGET_DROPPED,  /* it was never put, and is released even if it is put */
    TEN_TARGET_NO,       /* none of them */
};

/* What happens to a target. */
enum ten_fleet_move {
    TEN_MOVE_PUT,
    TEN_MOVE_CLAIM,
    TEN_MOVE_UNCLAIM, /* by the program, or this instance was asked to release it */
    TEN_MOVE_REMOVE,
    TEN_MOVE_HAND, /* this instance got it, and does not want it */
    TEN_MOVE_END,  /* it is no longer held */
    TEN_MOVE_FORGET,
    TEN_MOVES,
};

/* What is known of its registration in the store. */
enum ten_fleet_registration {
    TEN_REGISTRATION_NONE,
    TEN_REGISTRATION_UNREAD,  /* not since the last listing began */
    TEN_REGISTRATION_READ,    /* since then */
    TEN_REGISTRATION_MISSING, /* the last complete listing did not have it, nor was it read since */
};

/* What is known of its holder, beside who that is. */
enum ten_fleet_news {
    TEN_NEWS_NONE,
    TEN_NEWS_HANDED, /* it did not acquire the target: it was handed over, and the holder may not know yet */
    TEN_NEWS_BARREN, /* the last acquire was refused, and not because there is a holder */
};

/* What is known about one target; its number is the plan's. There may be millions, so it is packed: 36 bytes. */
struct ten_fleet_target {
    ten_holding_rest rest; /* of its holding, while `held` is 0 */
    /* Holder TEN_NOBODY: since when it is free, as far as is known. Another: until when that has it, by a refusal or a
     * listing. */
    uint64_t when_ms;
    uint64_t unowned_ms;      /* since when it has no holder; 0: it has one */
    uint32_t holder;          /* an instance's number, TEN_NOBODY or TEN_OUTSIDER */
    uint32_t held;            /* its place in fleet->held.list, plus 1; 0: this instance has nothing to do with it */
    uint8_t strikes;          /* how often the planned instance did not take it */
    uint8_t end_reason;       /* why the previous lease ended, as far as is known */
    uint8_t want : 4;         /* enum ten_fleet_want */
    uint8_t registration : 2; /* enum ten_fleet_registration */
    uint8_t news : 2;         /* enum ten_fleet_news */
    bool paused : 1;
    bool handed_over : 1; /* this instance released it for the planned holder */
    bool heard : 1;       /* another holder was heard of since the last listing began */
    bool unowned_told : 1;
} __attribute__((packed, aligned(4)));
_Static_assert(sizeof(struct ten_fleet_target) == 36, "there may be millions");

/* What this instance has to do with a target: it holds it, a request about it is in flight, or work is under way. */
struct ten_fleet_held {
    ten_holding holding;
    uint32_t keep_ms; /* for so long from its acquire a fallback holder keeps it, whatever the plan says */
    uint32_t older;   /* held targets in the order in which their last renewals were sent */
    uint32_t newer;
    uint32_t busy : 27;  /* how much work is under way */
    uint32_t check : 2;  /* enum ten_fleet_check, of what is in the list of held targets */
    bool in_order : 1;   /* in the list of held targets */
    bool used : 1;       /* else it is free, and `newer` is the next free one plus 1 */
    bool on_session : 1; /* the lease hangs, or last hung, on this instance's session */
};

/* What a lease on the session needs before this instance believes in it for longer: see fleet_session.c. */
enum ten_fleet_check { TEN_FLEET_SURE, TEN_FLEET_READ, TEN_FLEET_RENEW };

/* This instance's session, as the last heartbeat that was answered reported it. */
struct ten_fleet_session {
    uint64_t id; /* 0: none */
    uint64_t version;
    uint64_t ttl_ms;
    uint64_t sent_ms; /* when that heartbeat was sent */
    bool used;        /* leases are put on it: all instances have one */
};

/* What is known about one instance; its number is the plan's. */
struct ten_fleet_instance {
    uint64_t since_ms;  /* when this instance first saw it */
    uint64_t ends_ms;   /* when its heartbeat expires, as of the last list */
    uint64_t active_ms; /* when it was last seen to have taken a target */
    bool known;
    bool listed; /* in the list that is being read */
    bool has_session;
    bool foreign; /* of another program: it announces no TTL, and does not report what it releases */
};

/* The request in flight, or the last one. */
struct ten_fleet_request {
    ten_op *ops;
    uint32_t *targets; /* of the operations */
    uint32_t count;
    bool in_flight;
    bool alone;           /* it was of heartbeats and renewals only */
    bool asked;           /* at least one was sent */
    bool tells_each;      /* each renewal has an event of its own */
    size_t renewed_count; /* in the answer that is being taken */
    uint64_t sent_ms;
};

/* What this instance has to do with targets, and the held ones in the order in which their last renewals were sent. */
struct ten_fleet_holdings {
    struct ten_fleet_held *list;
    uint32_t bound;
    uint32_t room;
    uint32_t free; /* the first free place, plus 1; 0: none is */
    uint32_t oldest;
    uint32_t newest;
    uint32_t unsure; /* so many whose `check` is not TEN_FLEET_SURE */
    size_t count;
};

/* What is known of the other instances, and from when. */
struct ten_fleet_view {
    uint64_t next_list_ms;
    uint64_t last_list_ms;
    uint64_t joined_ms;           /* when another instance was last seen for the first time */
    uint64_t recovering_until_ms; /* the store may have lost data: nothing is handed over before */
    bool listed;                  /* the list of instances has been read once */
    bool followed;                /* the feed has been, since the start */
};

/* This instance as the others see it. */
struct ten_fleet_own {
    uint32_t weight;      /* as announced */
    uint32_t full_weight; /* as configured; announced unless the instance was asked to drain */
    uint64_t start_ms;    /* of this instance, or when it came back after its heartbeat had expired */
    uint64_t beat_ms;     /* when the last heartbeat that was confirmed was sent */
    uint64_t next_beat_ms;
    bool announced;
    bool drained; /* it was asked to drain */
};

/* The end of this instance. */
struct ten_fleet_end {
    uint64_t part_until_ms; /* for which it waits no longer than this */
    bool stopping;
    bool parted; /* since it is stopping, nothing is handed over to it, and it knows of all that was */
    bool refused;
    bool leaving; /* that was sent: a heartbeat would be refused from now on */
    bool left;
};

/* Of the plan's pins. */
struct ten_fleet_pins {
    uint64_t next_ms;       /* the first look_ms of them; UINT64_MAX: there is none */
    uint64_t rest_until_ms; /* a pin has ended: nothing is handed over before */
};

/* Reading the registry: see fleet_part.c. */
struct ten_fleet_reading {
    uint64_t until_ms;  /* registrations are being read; 0: they are not */
    bool complete;      /* a listing was */
    bool overflow_told; /* since the last one: there are more targets than this instance is willing to know */
};

struct ten_fleet {
    ten_fleet_config config;
    uint64_t fallback_ms; /* so much longer than the planned holder all others wait */
    uint64_t random;
    uint64_t now_ms; /* of the present event or call */

    ten_plan *plan;
    size_t moved_count; /* in the plan that is being settled */
    uint32_t self;      /* in the plan; TEN_NOBODY until announced */
    struct ten_fleet_target *targets;
    uint32_t target_bound; /* all numbers are below this */
    uint32_t target_room;
    uint32_t known_count;
    ten_timers looks; /* when to decide about a target again */
    struct ten_fleet_holdings held;
    struct ten_fleet_instance *instances;
    uint32_t instance_room;

    struct ten_fleet_session session;
    struct ten_fleet_request request;
    struct ten_fleet_own own;
    struct ten_fleet_view view;
    struct ten_fleet_reading reading;
    struct ten_fleet_pins pins;
    struct ten_fleet_end end;
    ten_fleet_unowned unowned;
};

/* fleet.c */
/* What may be believed about a target has changed. */
static inline void ten_fleet_changed(const ten_fleet *fleet, uint32_t target) {
    ten_event_queue_publish(fleet->config.events, &(ten_fact){.kind = TEN_FACT_BELIEF, .target = target});
}

/* Reports an event about a target: its id and the token of its lease are filled in. */
void ten_fleet_tell(ten_fleet *fleet, uint32_t target, tenure_event event);
void ten_fleet_tell_end(ten_fleet *fleet, uint32_t target, enum tenure_event_kind kind, enum ten_reason reason);
/* The target is no longer held, for whatever reason: takes it out of the list and decides anew. */
void ten_fleet_fail(ten_fleet *fleet, uint32_t target);
/* Gives up the leases whose deadline has passed. */
void ten_fleet_expire(ten_fleet *fleet);
/* Decides about the target with the next request. */
void ten_fleet_look(ten_fleet *fleet, uint32_t target);
/* The lease of a target has ended against this instance's will: reports it, and decides anew. One that was forced is
 * released when its work has stopped. */
void ten_fleet_lost(ten_fleet *fleet, uint32_t target, enum ten_reason reason);

/* fleet_target.c */
void ten_fleet_move(ten_fleet *fleet, uint32_t target, enum ten_fleet_move move);
/* Who has the target now, as far as is known, and until when; TEN_NOBODY: since when it is free. */
void ten_fleet_note(ten_fleet *fleet, uint32_t target, uint32_t holder, uint64_t when_ms, enum ten_fleet_news news);
void ten_fleet_forget(ten_fleet *fleet, uint32_t target);
/* Makes a target known that this instance holds, but does not want, until it is released. TEN_NOBODY: out of memory. */
uint32_t ten_fleet_put_unwanted(ten_fleet *fleet, const char *id);

static inline bool ten_fleet_is_known(const struct ten_fleet_target *target) {
    return target->want != TEN_TARGET_UNUSED;
}

/* It is forgotten when it is no longer held. */
static inline bool ten_fleet_is_removed(const struct ten_fleet_target *target) {
    return target->want >= TEN_TARGET_REMOVED;
}

static inline bool ten_fleet_is_claimed(const struct ten_fleet_target *target) {
    return target->want == TEN_TARGET_CLAIMED || target->want == TEN_TARGET_EXTRA;
}

/* The plan says who is to have it. */
static inline bool ten_fleet_is_planned(const struct ten_fleet_target *target) {
    return ten_fleet_is_known(target) && target->want < TEN_TARGET_EXTRA && !target->paused;
}

/* fleet_held.c */
/* NULL: this instance has nothing to do with it. Valid until the next ten_fleet_hold(). */
static inline struct ten_fleet_held *ten_fleet_held(const ten_fleet *fleet, uint32_t target) {
    uint32_t held = fleet->targets[target].held;
    return held ? &fleet->held.list[held - 1] : NULL;
}

static inline bool ten_fleet_is_held(const ten_fleet *fleet, uint32_t target) {
    const struct ten_fleet_held *held = ten_fleet_held(fleet, target);
    return held && ten_holding_is_held(&held->holding);
}

static inline enum ten_flight ten_fleet_flight(const ten_fleet *fleet, uint32_t target) {
    const struct ten_fleet_held *held = ten_fleet_held(fleet, target);
    return held ? (enum ten_flight)held->holding.flight : TEN_FLIGHT_NONE;
}

static inline uint64_t ten_fleet_known_token(const ten_fleet *fleet, uint32_t target) {
    const struct ten_fleet_held *held = ten_fleet_held(fleet, target);
    return held ? held->holding.known_token : fleet->targets[target].rest.known_token;
}

/* This instance has something to do with the target from now on. NULL: out of memory. */
struct ten_fleet_held *ten_fleet_hold(ten_fleet *fleet, uint32_t target);
/* Frees what ten_fleet_hold() made, if nothing needs it any more; or in any case. */
void ten_fleet_let_go(ten_fleet *fleet, uint32_t target);
void ten_fleet_drop(ten_fleet *fleet, uint32_t target);
void ten_fleet_set_holding(ten_fleet *fleet, uint32_t target, const ten_holding *holding);
/* The list of held targets, in the order in which their last renewals were sent: appends to it, and removes from it. */
void ten_fleet_enter_order(ten_fleet *fleet, uint32_t target);
void ten_fleet_leave_order(ten_fleet *fleet, uint32_t target);

/* fleet_session.c */
/* `check` of what is in the list of held targets. */
void ten_fleet_set_check(ten_fleet *fleet, struct ten_fleet_held *held, enum ten_fleet_check check);
/* The feed says something about a target that does not fit what is believed: if its lease is on the session, it is
 * read. */
void ten_fleet_doubt_session_lease(ten_fleet *fleet, uint32_t target);
/* The instances have been listed: whether leases are put on the session from now on. */
void ten_fleet_choose_session_use(ten_fleet *fleet);
/* The flag of acquires and renewals. */
unsigned ten_fleet_session_flag(const ten_fleet *fleet);
/* From when on an acquire or a renewal with that result counts; 0: it does not. */
uint64_t ten_fleet_belief_ms(const ten_fleet *fleet, const ten_result *result);
/* A heartbeat was answered; was not. */
void ten_fleet_session_beaten(ten_fleet *fleet, const ten_result *result);
void ten_fleet_session_unanswered(ten_fleet *fleet, int error);
/* The answer to a read that ten_fleet_add_session_checks() has added. */
void ten_fleet_session_read(ten_fleet *fleet, uint32_t target, int error, const ten_result *result);
/* Adds what has to be read or renewed; `beats`: the request has a heartbeat. */
void ten_fleet_add_session_checks(ten_fleet *fleet, bool beats);

/* fleet_answer.c */
/* The answer to the request. `error`: what apply() returned; the results are ignored if it is not 0. */
void ten_fleet_answer(ten_fleet *fleet, int error, const ten_result *results);
/* The lease has just been renewed; `ask`: what is asked of its holder. */
void ten_fleet_renewed(ten_fleet *fleet, uint32_t target, enum ten_ask ask);

/* fleet_request.c */
/* Adds an operation to the request; TEN_NOBODY: about this instance. */
void ten_fleet_add_op(ten_fleet *fleet, uint32_t target, ten_op op);
void ten_fleet_add_renewal(ten_fleet *fleet, uint32_t target);
/* The next request, to be sent now: *ret_count operations, valid until the answer. NULL: nothing to send. */
const ten_op *ten_fleet_request(ten_fleet *fleet, size_t *ret_count);
/* All leases have been released: reports it, and sends nothing more. */
void ten_fleet_leave(ten_fleet *fleet);

/* fleet_part.c */
/* Only some of the registrations are known: nothing is planned, acquired or handed over yet. */
bool ten_fleet_is_gathering(const ten_fleet *fleet);

/* fleet_pins.c */
/* Whether the pin of the row is another than the one that is known. */
bool ten_fleet_is_new_pin(const ten_fleet *fleet, uint32_t target, const ten_pin *pin);
/* The registration has been read: its pin is this one, or none. */
void ten_fleet_note_pin(ten_fleet *fleet, uint32_t target, const ten_pin *pin);
void ten_fleet_forget_pin(ten_fleet *fleet, uint32_t target);
/* Which registration to read again, to see whether its pin has ended, and when; NULL: none now. */
uint64_t ten_fleet_reread_ms(const ten_fleet *fleet);
const char *ten_fleet_reread(ten_fleet *fleet);

/* When the first of the leases expires. */
static inline uint64_t ten_fleet_deadline_ms(const ten_fleet *fleet) {
    uint32_t oldest = fleet->held.oldest;
    return oldest == TEN_NOBODY ? UINT64_MAX : ten_fleet_held(fleet, oldest)->holding.deadline_ms;
}

/* fleet_unowned.c */
void ten_fleet_look_for_unowned(ten_fleet *fleet);

/* fleet_view.c */
/* The list of instances: begin, then each live instance, then the end, with an error if it could not be read. */
void ten_fleet_instances_begin(ten_fleet *fleet);
void ten_fleet_instance(ten_fleet *fleet, const ten_instance *instance);
void ten_fleet_instances_end(ten_fleet *fleet, int error);
/* An entry of the feed. */
void ten_fleet_change(ten_fleet *fleet, const ten_change *change);
/* The feed is followed from now on; what happened before may have been missed. */
void ten_fleet_follow(ten_fleet *fleet);
ten_plan *ten_fleet_make_plan(ten_fleet *fleet);
/* Settles the plan, and decides anew about the targets that moved. */
void ten_fleet_settle(ten_fleet *fleet);
/* Whether targets may be handed over to the instance. */
bool ten_fleet_is_eligible(const ten_fleet *fleet, uint32_t instance);
/* Who holds a target, says a listing. */
void ten_fleet_note_row(ten_fleet *fleet, const ten_row *row);
/* The listing is complete: what it lacks is no longer held by the holder that was known. */
void ten_fleet_note_unlisted(ten_fleet *fleet);
uint32_t ten_fleet_put_instance(ten_fleet *fleet, const char *id, uint32_t weight);

#endif
