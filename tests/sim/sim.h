/*
 * The simulator: whole fleets, elections and programs with leases on a simulated clock, network and store, in one
 * process, from a seed. The core is the real one; everything around it is modelled here. A step is an event of the
 * queue; after each one the checks run, and the first that fails ends the run. The same seed gives the same run, to the
 * last step.
 */
#ifndef SIM_H
#define SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "core/fleet.h"
#include "core/work.h"
#include "mutants/mutants.h"
#include "rules/lease_row.h"
#include "store/memory/memory.h"

#define SIM_NAMESPACE       "sim"
#define SIM_FALLBACK_DELAYS 10u /* rank delays: so much longer than the planned instance others wait */
#define SIM_NOBODY          UINT32_MAX
#define SIM_MS              UINT64_C(1000) /* true time is counted in microseconds */
#define SIM_SECOND          UINT64_C(1000000)

/* ---- what happens */

enum sim_event_kind {
    SIM_WAKE,       /* a process's own timer */
    SIM_ARRIVAL,    /* a request reaches the store */
    SIM_REPLY,      /* its answer reaches the process */
    SIM_TIMEOUT,    /* a process gives up waiting */
    SIM_NOTICE,     /* the store says that something changed */
    SIM_WORK,       /* a process looks for work to start */
    SIM_WORK_LOOK,  /* a process looks at a piece of its work: it is time to, or its child has exited */
    SIM_CHILD,      /* the end of a piece's processes */
    SIM_OUTGOING,   /* a message leaves, or it is time to look at it */
    SIM_WARDEN,     /* the warden looks at a deadline */
    SIM_RESUME,     /* a paused process goes on */
    SIM_CHECKPOINT, /* a checkpoint reaches the store */
    SIM_WARDEN_END, /* a crashed process's warden gives its leases back */
    SIM_SCRIPT,     /* the scenario's own: number says what */
};

struct sim_row {
    uint32_t target;
    bool registered;
    bool paused;
    bool barred;
    ten_pin pin;
    const char *holder;
    uint64_t token;
    uint64_t remaining_ms;
};

/* A request on its way, and then its answer. */
struct sim_message {
    enum ten_call_kind kind;
    uint32_t process;
    uint64_t call;
    bool duplicate; /* nobody waits for its answer */
    int error;
    uint64_t cursor;
    uint32_t limit;
    char after[32];   /* of a list: after this target */
    uint32_t *wanted; /* of a reading: these targets */
    uint32_t count;
    union {
        void *items;
        struct sim_operation {
            ten_op op;
            ten_result result;
        } * operations;
        ten_instance *instances;
        ten_change *changes;
        struct sim_row *rows;
    };
};

struct sim_event {
    uint64_t at_us;
    uint64_t order;
    enum sim_event_kind kind;
    uint32_t process;
    uint32_t target;
    uint64_t number;
    struct sim_message *message;
};

/* ---- who takes part */

/* The processes of a piece of work. */
enum sim_child { SIM_CHILD_NONE, SIM_CHILD_RUNS, SIM_CHILD_LEFTOVERS };

/* A message of published work that has not left yet; its state says whether there is one. */
#define SIM_OUTGOING_MAX 3u
struct sim_outgoing {
    ten_work machine;
    uint64_t number;
};

/* What a program wants of a target beside the plan. */
enum sim_claim { SIM_CLAIM_NONE, SIM_CLAIM_WAITS, SIM_CLAIM_HOLDS };

/* What one process does about one target. */
struct sim_piece {
    uint32_t number; /* the fleet's; SIM_NOBODY: not known there */
    enum sim_claim claim;
    ten_holding lease; /* as the fleet last said */
    ten_work machine;  /* of a member */
    struct sim_outgoing outgoing[SIM_OUTGOING_MAX];
    uint64_t sent; /* messages so far */
    enum sim_child child;
    bool is_bound;    /* they work under the lease */
    bool obeys;       /* its processes end when they are asked to */
    bool polite;      /* its command exits with 0 when it is asked to end */
    bool killed;      /* the last ones did not end by themselves */
    bool exited_well; /* ... but the command exited with 0 */
    bool warned;      /* the warden has signalled it, because of the lease */
    bool asked;       /* its own process has, for any reason */
    bool asked_for_lease;
    uint64_t look_us; /* the next look at it */
    bool working;     /* something of it is at work */
    bool busy;        /* the fleet knows that there is work */
    bool unreported;  /* the work has ended, and the fleet does not know it yet */
    bool unconfirmed; /* the last renewal failed */
    bool on_session;  /* the lease was on the session of the process, when it last heard */
    bool unread;      /* ... and another version of that was reported since */
    uint64_t work;    /* which piece of work is running */
    uint64_t token;   /* under which it was started */
    uint64_t released_token;
    uint64_t expired_token; /* the highest whose deadline it let pass */
};

struct sim_world;
struct sim_process;

/* What a process is: a member of a fleet (member.c), a candidate (candidate.c), or a program with leases (lessee.c). */
struct sim_kind {
    void (*report)(struct sim_world *world,
                   struct sim_process *process); /* before it is driven; NULL: nothing to say */
    void (*on_event)(struct sim_world *world, struct sim_process *process, const tenure_event *event);
    bool (*is_over)(const struct sim_process *process); /* it has stopped */
    /* It sends an operation about a target; NULL: no matter. */
    void (*sends)(struct sim_world *world, struct sim_process *process, uint32_t target, const ten_op *op);
    /* The program does something; whether that wakes what drives the process is its own business. */
    void (*look_for_work)(struct sim_world *world, struct sim_process *process);
    void (*look_at_work)(struct sim_world *world, struct sim_process *process, uint32_t target, uint64_t work);
    void (*warden_looks)(struct sim_world *world, struct sim_process *process, uint32_t target, uint64_t work);
    void (*stop)(struct sim_world *world, struct sim_process *process);
    const ten_holding *(*lease_of)(const struct sim_process *process, uint32_t target); /* NULL: not known to it */
    void (*describe)(const struct sim_process *process, uint64_t now_ms);
    void (*end)(struct sim_process *process); /* frees what it is */
};

/* For the fleet's callbacks. */
struct sim_owner {
    struct sim_world *world;
    struct sim_process *process;
};

struct sim_process {
    struct sim_owner owner;
    uint32_t number;
    char id[48];
    const struct sim_kind *kind;
    bool alive;
    bool guarded;                    /* by a warden, which outlives it unless its host dies */
    ten_fleet *fleet;                /* of a member */
    struct sim_candidate *candidate; /* of a candidate: see candidate.h; stays when it is dead */
    struct sim_lessee *lessee;       /* of a program with leases: see lessee.h; stays when it is dead */
    double rate;                     /* of its clock */
    double offset_us;
    uint32_t weight;
    bool stopping;
    bool stopped;
    bool lame;  /* its acquires fail */
    bool plain; /* its leases hang on no session */
    bool cut_requests;
    bool cut_replies;
    uint64_t paused_until_us;
    uint64_t started_us;
    uint64_t announced_us; /* when the store first heard of it */
    uint64_t stop_us;

    ten_event_queue events;
    ten_engine engine;
    bool calling; /* the call of the engine is under way */
    uint64_t call;
    struct sim_sent { /* the request under way */
        uint32_t target;
        enum ten_op_kind kind;
    } * request;
    uint32_t request_count;
    uint32_t request_room;
    uint64_t wake_us;
    uint64_t wake_number;
    bool notice_under_way;
    bool noticed; /* it has come, and nobody has looked */

    uint64_t session; /* as the last heartbeat reported it */
    uint64_t session_version;
    uint64_t second; /* for counting requests */
    uint32_t requests;
    uint32_t lists;
    struct sim_piece *pieces; /* by target */
    uint32_t *by_number;      /* the fleet's number to target */
    uint32_t by_number_room;
};

struct sim_target {
    char id[32];
    bool registered;
    bool paused;
    uint32_t pinned; /* the process that its pin names; SIM_NOBODY: it has no pin, or it has ended by then */
    bool pinned_away;
    uint64_t pinned_until_us;
    /* For sim_held(), as it was when the store had answered so many calls. */
    ten_lease_row lease, seen;
    uint64_t seen_after, seen_version, session_version, session_ends_ms;
    bool on_session; /* which the holder's record has now */
    uint64_t highest_token;
    const char *highest_holder;
    uint64_t published_token;
    uint64_t published_us;
    uint64_t left_token;  /* of the last message that left */
    uint64_t worked_us;   /* when work last started */
    uint64_t moved_us;    /* when it last changed hands */
    uint64_t released_us; /* for another to have it */
    uint64_t free_us;     /* when it was last released */
    uint64_t moves;
    uint64_t waited_us;  /* of leases: it was not free then, or nobody waited for it */
    uint64_t excused_us; /* until then belief may differ from the store: it lost data */
    uint64_t old_token;  /* under which a late renewal has put a lease back, after the store lost data */
};

/* How bad the network and the store are; all of it is switched off in calm weather. */
struct sim_weather {
    uint64_t delay_us;
    uint64_t spread_us;
    double late; /* how likely a message is to take very long */
    uint64_t late_us;
    double lost;
    double twice;
    double error;
    double notice_lost;
    double overrun;   /* how likely a reader of the feed is to come too late for all that is new */
    bool unreachable; /* nothing gets through */
    bool refusing;    /* every request fails at once */
};

struct sim_stats {
    uint64_t seeds, steps, checks, faults, requests, refused, takeovers, moves, works, publishes, messages,
        late_arrivals, timeouts, crashes, pauses, losses, forgotten, terms, asks, keeps, overtimes, failures,
        checkpoints, on_session, renewals, beats, pins, claims;
};

struct sim_record {
    uint64_t at_us;
    const char *what;
    uint32_t process;
    uint32_t target;
    uint64_t number;
};

#define SIM_HISTORY 8192u

struct sim_world {
    const char *option; /* with which the simulator makes such a world */
    uint64_t seed;
    uint64_t random;
    uint64_t now_us;
    uint64_t order;
    uint32_t steps_now;
    struct sim_event *queue;
    uint32_t queue_count;
    uint32_t queue_room;

    ten_timing timing;
    uint64_t settle_ms;
    uint64_t rank_delay_ms;
    uint64_t feed_gap_ms;
    double plain;        /* how many instances have no session */
    uint64_t granted_ms; /* 0: as asked; else the store grants no more */
    uint64_t work_us;    /* between two looks for work */
    bool long_work;
    ten_work_rules work_rules;
    ten_work_rules function_rules; /* of a program's own functions, which have no warden */
    double clock_spread;           /* rates lie in 1 +- this */

    ten_clock clock;
    ten_store *store;
    struct ten_memory_core *core;

    struct sim_weather weather;
    struct sim_process **processes;
    uint32_t process_count;
    uint32_t process_room;
    ten_map process_numbers; /* id to number + 1 */
    uint32_t *live;
    uint32_t live_count;
    struct sim_target *targets;
    uint32_t target_count;
    struct sim_role *roles; /* beside the targets, in an election; else NULL */

    uint32_t requests_max; /* of one process in a second */
    uint32_t lists_max;    /* of them, lists of instances */
    bool calm;             /* no lease may be lost in calm weather */
    uint64_t refused;
    uint64_t moves;
    uint64_t longest_gap_us; /* between a release and the next grant */

    struct sim_stats stats;
    uint64_t digest; /* see trace.c */
    struct sim_record *history;
    uint64_t history_count;
    bool verbose;
    bool failed;
    uint32_t failed_target;
    char failure[512];
};

/* world.c: the clock, the queue, the record of what happened */
struct sim_world *sim_world_new(uint64_t seed, uint32_t target_count, uint64_t ttl_ms);
void sim_world_free(struct sim_world *world);
void sim_push(struct sim_world *world, uint64_t delay_us, struct sim_event event);
/* Runs until that time or until a check fails. Script events are handed to `script`. */
typedef void (*sim_script_fn)(struct sim_world *world, uint64_t number);
void sim_run_until(struct sim_world *world, uint64_t until_us, sim_script_fn script);
uint64_t sim_random(struct sim_world *world, uint64_t below);
bool sim_chance(struct sim_world *world, double probability);
void sim_note(struct sim_world *world, const char *what, uint32_t process, uint32_t target, uint64_t number);
void sim_fail(struct sim_world *world, uint32_t target, const char *format, ...) TEN_PRINTF(3, 4);
void sim_show_failure(const struct sim_world *world, const char *mutant);
void *sim_allocate(size_t count, size_t size);
uint32_t sim_target_number(const struct sim_world *world, const char *id);
struct sim_process *sim_find_process(const struct sim_world *world, const char *id);

/* process.c: what every process has */
struct sim_process *sim_process_new(struct sim_world *world, const struct sim_kind *kind);
void sim_process_free(struct sim_process *process);
uint64_t sim_local_ms(const struct sim_process *process, uint64_t at_us);
uint64_t sim_true_us(const struct sim_process *process, uint64_t local_ms);
bool sim_is_paused(const struct sim_world *world, const struct sim_process *process);
void sim_drive(struct sim_world *world, struct sim_process *process);
void sim_process_event(struct sim_world *world, struct sim_process *process, struct sim_event *event);
void sim_pause(struct sim_world *world, struct sim_process *process, uint64_t for_us);
void sim_stop(struct sim_world *world, struct sim_process *process);
void sim_crash(struct sim_world *world, struct sim_process *process, bool with_host);

/* member.c: what src/runtime/member.c does around a fleet */
struct sim_process *sim_start(struct sim_world *world, uint32_t weight, bool lame);
void sim_set_weight(struct sim_world *world, struct sim_process *process, uint32_t weight);
/* Its program wants the target, whatever the plan says, for a while. */
void sim_claim(struct sim_world *world, struct sim_process *process, uint32_t target);

/* work.c: the work that is done under leases */
/* Under any lease: starts a piece, if it may start; carries out what its machine says, and returns whether it is over.
 * */
bool sim_start_work(struct sim_world *world, struct sim_process *process, uint32_t target, const ten_work_rules *rules,
                    const ten_work_lease *lease, uint64_t length_us);
bool sim_carry_work(struct sim_world *world, struct sim_process *process, uint32_t target, const ten_work_lease *lease);
void sim_note_start(struct sim_world *world, struct sim_process *process, uint32_t target, const char *what,
                    uint64_t token);
void sim_look_for_work(struct sim_world *world, struct sim_process *process);
void sim_look_at_work(struct sim_world *world, struct sim_process *process, uint32_t target, uint64_t work);
void sim_work_hears(struct sim_world *world, struct sim_process *process, const tenure_event *event, uint32_t target);

void sim_look_at_sending(struct sim_world *world, struct sim_process *process, uint32_t target, uint64_t number);

/* outgoing.c: the messages of that work */
/* The work has just been published: its machine becomes the message's. */
void sim_put_outgoing(struct sim_world *world, struct sim_process *process, uint32_t target);
bool sim_has_room_for_outgoing(const struct sim_piece *piece);
bool sim_has_outgoing(const struct sim_piece *piece, uint64_t token);
bool sim_is_idle(const struct sim_piece *piece);
/* As the fleet hears it: nothing of the work, and no message. */
bool sim_is_free(const struct sim_piece *piece);
void sim_look_at_outgoing(struct sim_world *world, struct sim_process *process, uint32_t target,
                          const ten_work_lease *lease);
void sim_flush_outgoing(struct sim_process *process, uint32_t target);
void sim_outgoing_event(struct sim_world *world, struct sim_process *process, uint32_t target, uint64_t number,
                        const ten_work_lease *lease);

/* checkpoints.c: what published work leaves beside its lease */
void sim_send_checkpoint(struct sim_world *world, const struct sim_process *process, uint32_t target, uint64_t token);
void sim_checkpoint_arrives(struct sim_world *world, const struct sim_event *event);

/* children.c: the processes of that work, and the warden */
/* is_bound: it works under the lease; else the warden and the deadline leave it alone. */
void sim_child_start(struct sim_world *world, struct sim_process *process, uint32_t target, uint64_t token,
                     bool is_bound, uint64_t length_us);
void sim_child_signal(struct sim_world *world, struct sim_process *process, uint32_t target, bool kills);
void sim_child_ends(struct sim_world *world, struct sim_process *process, uint32_t target, uint64_t number);
/* As ten_child_left(): what it left behind is signalled again. */
enum ten_work_left sim_child_left(struct sim_world *world, struct sim_process *process, uint32_t target,
                                  const ten_work *work);
void sim_look_later(struct sim_world *world, struct sim_process *process, uint32_t target, uint64_t next_ms);
void sim_warden_looks(struct sim_world *world, struct sim_process *process, uint32_t target, uint64_t work);
/* Work without a warden has lost its lease: it goes on, but is counted no more. */
void sim_child_overruns(struct sim_world *world, struct sim_process *process, uint32_t target);

/* carrier.c: carries the calls of a process's engine. What the world has in common is filled in. */
void sim_carrier_start(struct sim_world *world, struct sim_process *process, ten_engine_config config);
/* Hands an event to the engine, at the time of the process's clock. */
void sim_carrier_tell(struct sim_world *world, struct sim_process *process, ten_engine_event event);
void sim_carrier_end(struct sim_process *process);
/* Returns when the process is to be driven again if nothing happens before; UINT64_MAX: never. */
uint64_t sim_carry(struct sim_world *world, struct sim_process *process);
void sim_carrier_answer(struct sim_world *world, struct sim_process *process, const struct sim_message *answer,
                        int error);

/* trace.c: the digest of what the core has decided */
extern bool sim_prints_digests;
enum sim_trace { SIM_TRACE_CALL, SIM_TRACE_ANSWER, SIM_TRACE_EVENT, SIM_TRACE_BELIEF };
void sim_trace_call(struct sim_world *world, const struct sim_process *process, const ten_call *call);
void sim_trace_answer(struct sim_world *world, const struct sim_process *process, const struct sim_message *answer,
                      int error);
void sim_trace_event(struct sim_world *world, const struct sim_process *process, const tenure_event *event);
/* After a step: what is believed, and when it wants to be called again. */
void sim_trace_belief(struct sim_world *world, const struct sim_process *process, uint64_t next_us);
void sim_show_digest(const struct sim_world *world);

/* network.c: requests, answers and notices on their way */
#define SIM_CHANGES_MAX 200u /* entries of one reading of the feed */
void sim_send(struct sim_world *world, struct sim_process *process, const ten_call *call);
/* Something changed: wakes everybody who can be reached. */
void sim_notify_all(struct sim_world *world);
void sim_arrive(struct sim_world *world, struct sim_message *message);
void sim_message_free(struct sim_message *message);

/* storage.c: the store, and what an operator does to it */
void sim_storage_open(struct sim_world *world);
void sim_execute(struct sim_world *world, struct sim_message *message);
void sim_warden_release(struct sim_world *world, struct sim_process *process);
void sim_edit_target(struct sim_world *world, uint32_t target, enum ten_target_action action);
/* Pins it to the process, or keeps it away from that one; NULL: takes its pin back. */
void sim_pin(struct sim_world *world, uint32_t target, const struct sim_process *process, bool away, uint64_t for_us);
/* `tenure forget`. False: it is held, registered or unknown, or the store is recovering. */
bool sim_forget(struct sim_world *world, uint32_t target);
void sim_force(struct sim_world *world, uint32_t target);
void sim_renew_by_token(struct sim_world *world, uint32_t number, uint64_t ttl_ms);
void sim_make_leave(struct sim_world *world, const struct sim_process *process);
bool sim_ask_to_resign(struct sim_world *world, uint32_t target); /* false: nobody holds it */
/* False: it is not announced. */
bool sim_ask_instance(struct sim_world *world, const struct sim_process *process, enum ten_ask ask);
/* With its instances, or some of its leases only. */
void sim_lose_data(struct sim_world *world, bool all);
void sim_lose_data_silently(struct sim_world *world);
bool sim_is_recovering(const struct sim_world *world);
/* The store's row, when it is held at this moment; else NULL. */
const ten_lease_row *sim_held(const struct sim_world *world, uint32_t target);
uint64_t sim_store_ms(const struct sim_world *world);

/* checks.c: what must be true */
void sim_check_process(struct sim_world *world, struct sim_process *process);
void sim_check_target(struct sim_world *world, uint32_t target);
void sim_check_work_start(struct sim_world *world, struct sim_process *process, uint32_t target);
void sim_check_publish(struct sim_world *world, struct sim_process *process, uint32_t target);
void sim_check_leave(struct sim_world *world, struct sim_process *process, uint32_t target, uint64_t token);
void sim_check_spent(struct sim_world *world, const struct sim_process *process, uint32_t target, uint64_t token);
/* Its work ends now, or has just expired: that is too late for work that has a warden. */
void sim_check_ended_in_time(struct sim_world *world, struct sim_process *process, uint32_t target);
void sim_check_ended_before_expiry(struct sim_world *world, struct sim_process *process, uint32_t target);
void sim_check_release(struct sim_world *world, struct sim_process *process, uint32_t target, uint64_t token);
void sim_check_grant(struct sim_world *world, uint32_t target, const char *holder, uint64_t token);
void sim_check_handover(struct sim_world *world, struct sim_process *process, uint32_t target);
void sim_check_requests(struct sim_world *world, struct sim_process *process);
void sim_check_settled(struct sim_world *world, bool check_spread);
bool sim_anybody_can(const struct sim_world *world);
/* Whether its pin has an effect now. */
bool sim_is_pinned(const struct sim_world *world, uint32_t target);
bool sim_is_balanced(const struct sim_world *world);
bool sim_is_covered(const struct sim_world *world, uint32_t target);
bool sim_anybody_is_lame(const struct sim_world *world);
/* Until somebody's turn has come: the planned instance's, unless that is lame. */
uint64_t sim_turns_us(const struct sim_world *world);
/* Released a moment ago: somebody's turn has not come yet. */
bool sim_is_changing_hands(const struct sim_world *world, uint32_t target);

/* election_checks.c */
void sim_check_kept(struct sim_world *world, uint32_t role, const char *holder);
/* The store forgot it, or somebody forced it: it need be kept no longer, and its leader does not hear what was asked.
 */
void sim_forget_promises(struct sim_world *world, uint32_t role);
bool sim_has_least_time(const struct sim_world *world, uint32_t role);
/* Its warden would not give its role back if it died now. */
bool sim_is_keeping(const struct sim_world *world, const struct sim_process *process);

/* faults.c: what goes wrong in a random run */
enum sim_fault {
    SIM_FAULT_PAUSE,
    SIM_FAULT_CRASH,
    SIM_FAULT_HOST,
    SIM_FAULT_STOP,
    SIM_FAULT_JOIN, /* the run's own, as are OPERATOR and PROGRAM */
    SIM_FAULT_CUT,
    SIM_FAULT_UNREACHABLE,
    SIM_FAULT_REFUSING,
    SIM_FAULT_SLOW,
    SIM_FAULT_OPERATOR,
    SIM_FAULT_PROGRAM,
    SIM_FAULT_FORCE,
    SIM_FAULT_LOSS,
    SIM_FAULT_ALL_DIE,
    SIM_FAULT_COUNT,
    /* the ends of some of them */
    SIM_END_CUT,
    SIM_END_WEATHER,
    SIM_START, /* another in the place of a process that died: the run's own */
    SIM_NEXT_FAULT,
};
uint64_t sim_ttl_us(const struct sim_world *world);
void sim_later(struct sim_world *world, uint64_t delay_us, enum sim_fault what, uint32_t process);
enum sim_fault sim_fault_of(uint64_t number, uint32_t *ret_process); /* of a script event */
struct sim_process *sim_anybody(struct sim_world *world);            /* NULL: nobody lives */
void sim_set_weather(struct sim_world *world);
void sim_set_calm(struct sim_world *world);
void sim_inject(struct sim_world *world, struct sim_process *process, enum sim_fault kind);
void sim_end_fault(struct sim_world *world, uint32_t process, enum sim_fault kind);

/* random_run.c, scenarios.c; election_run.c, election_scenarios.c; lease_run.c */
void sim_random_run(uint64_t seed, struct sim_stats *stats, bool verbose, const char *mutant);
void sim_election_run(uint64_t seed, struct sim_stats *stats, bool verbose, const char *mutant);
void sim_lease_run(uint64_t seed, struct sim_stats *stats, bool verbose, const char *mutant);
/* cron_run.c: one seed; false: something is wrong, and has been said */
struct sim_cron_stats {
    uint64_t starts, crashes, takeovers, withdrawn, lost, clocks_set;
};
bool sim_cron_run(uint64_t seed, bool verbose, struct sim_cron_stats *stats);
/* The end of a seed: adds up what it did, and shows why it failed. */
void sim_finish_run(struct sim_world *world, struct sim_stats *stats, const char *mutant);

struct sim_scenario {
    const char *name;
    void (*run)(struct sim_world *world);
    bool finds_mutants; /* short enough to be run for each mutant */
    bool slow;          /* but only after some seeds have not found it */
    bool large;         /* run only if asked for */
    bool election;      /* its targets are roles */
    uint32_t targets;
    uint64_t ttl_ms;
};
extern const struct sim_scenario sim_scenarios[];
extern const size_t sim_scenario_count;
extern const struct sim_scenario sim_election_scenarios[];
extern const size_t sim_election_scenario_count;
bool sim_run_scenario(const struct sim_scenario *scenario, uint64_t seed, struct sim_stats *stats, bool verbose,
                      const char *mutant);

#endif
