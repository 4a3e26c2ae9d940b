/*
 * Large fleets on a simulated clock: `sim --scale INSTANCESxTARGETS`. The fleet, the engine and the memory store are
 * those that ship; the network takes a time for each call, and the store none. A judge follows what every instance
 * believes: never two about one target, and no lower token. Work, clocks of their own, late answers and lost data are the
 * business of the smaller fleets of random_run.c.
 *
 * Where a million targets times a thousand instances do not fit into memory, some instances are real, and the others a
 * crowd that does what the plan says: `--real N`.
 */
#include "scale.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "sim.h"
#include "store/memory/memory.h"

#define NAMESPACE     "scale"
#define TTL_MS        30000u
#define LATENCY_US    500u  /* of a call, at least */
#define JITTER_US     1000u /* and at most so much more */
#define START_US      UINT64_C(1000000)
#define FAULT_PART    20u /* of the instances are hit by each fault */
#define BOUND_TTLS    8u  /* nothing takes longer to settle */
#define REGISTER_STEP 1000u

enum what { WAKE, ARRIVE, CROWD };

struct happening {
    uint64_t at_us;
    uint64_t order;
    uint32_t instance;
    uint32_t number; /* of a wake-up: others are outdated */
    enum what what;
};

struct instance {
    char id[24];
    bool alive;
    bool real;
    bool stopping;
    ten_fleet *fleet;
    ten_engine engine;
    ten_event_queue events;
    ten_call call;
    bool calling;
    bool noticed;
    uint64_t paused_until_us;
    uint64_t wake_us;
    uint32_t wake_number;
    uint64_t calls; /* since the last report */
    uint64_t second;
    uint32_t in_second;
    uint32_t most; /* calls in a second */
    uint64_t granted;
    /* of the crowd */
    uint32_t *share;
    uint64_t *tokens;
    uint32_t share_count;
    uint32_t share_at; /* the next to be acquired */
    uint64_t renewed_us;
};

static struct {
    uint64_t now_us;
    uint64_t random;
    uint64_t order;
    ten_clock clock;
    ten_store *store;
    struct ten_memory_core *core;
    ten_timing timing;
    struct happening *heap;
    size_t count, room;
    struct instance *instances;
    uint32_t instance_count;
    uint32_t target_count;
    uint32_t *believers; /* by target: who believes in it, + 1 */
    uint64_t *tokens;    /* by target: the highest that was believed in */
    double lost;         /* how likely an answer is lost */
    bool down;           /* the store does not answer */
    uint64_t crowd_us;   /* when the crowd takes what is planned for it; UINT64_MAX: not yet */
    uint64_t looks;
    bool failed;
} world;

/* ---- chance, and what happens next */

static uint64_t chance(uint64_t below) {
    world.random += UINT64_C(0x9e3779b97f4a7c15);
    return ten_hash_mix(world.random) % below;
}

static bool before(const struct happening *a, const struct happening *b) {
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

static void push(struct happening it) {
    if (world.count == world.room) {
        world.room = world.room ? world.room * 2 : 1024;
        world.heap = realloc(world.heap, world.room * sizeof *world.heap);
        if (!world.heap)
            abort();
    }
    it.order = world.order++;
    size_t at = world.count++;
    for (; at > 0 && before(&it, &world.heap[(at - 1) / 2]); at = (at - 1) / 2)
        world.heap[at] = world.heap[(at - 1) / 2];
    world.heap[at] = it;
}

static struct happening pop(void) {
    struct happening first = world.heap[0];
    struct happening last = world.heap[--world.count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < world.count; at = child) {
        if (child + 1 < world.count && before(&world.heap[child + 1], &world.heap[child]))
            child++;
        if (!before(&world.heap[child], &last))
            break;
        world.heap[at] = world.heap[child];
    }
    world.heap[at] = last;
    return first;
}

static uint64_t now_ms(void) {
    return world.now_us / 1000;
}

/* ---- the store's clock */

static uint64_t boot_ms(void *arg) {
    (void)arg;
    return now_ms();
}

static uint64_t wall_ms(void *arg) {
    (void)arg;
    return UINT64_C(1700000000000) + now_ms();
}

static void boot_id(void *arg, char id[TEN_BOOT_ID_SIZE]) {
    (void)arg;
    id[0] = '\0';
}

static uint64_t time_namespace(void *arg) {
    (void)arg;
    return 0;
}

/* ---- the judge */

static void fail(const char *what, const struct instance *instance, uint32_t target) {
    printf("# %.3f s: %s: %s, target %u\n", (double)world.now_us / 1e6, what, instance->id, target);
    world.failed = true;
}

static bool believes(const struct instance *instance, uint32_t target, uint64_t *ret_token) {
    char id[24];
    snprintf(id, sizeof id, "t-%07u", target);
    uint32_t number = instance->alive ? ten_plan_find_target(ten_fleet_plan(instance->fleet), id) : TEN_PLAN_NONE;
    ten_holding holding = number == TEN_PLAN_NONE ? (ten_holding){0} : ten_fleet_holding(instance->fleet, number);
    *ret_token = holding.token;
    return holding.deadline_ms > now_ms();
}

/* What the fleet believes has changed. */
static void on_fact(void *userdata, const ten_fact *fact) {
    struct instance *instance = userdata;
    uint32_t number = fact->target;
    if (fact->kind != TEN_FACT_BELIEF)
        return;
    const char *id = ten_plan_target_id(ten_fleet_plan(instance->fleet), number);
    if (!id)
        return;
    uint32_t target = (uint32_t)strtoul(id + 2, NULL, 10);
    ten_holding holding = ten_fleet_holding(instance->fleet, number);
    uint32_t self = (uint32_t)(instance - world.instances) + 1;
    uint32_t other = world.believers[target];
    uint64_t token;
    world.looks++;
    if (holding.deadline_ms <= now_ms()) {
        if (other == self)
            world.believers[target] = 0;
        return;
    }
    if (other && other != self && believes(&world.instances[other - 1], target, &token))
        fail("two believe", instance, target);
    if (holding.token < world.tokens[target] || (other != self && holding.token == world.tokens[target]))
        fail("the token did not grow", instance, target);
    instance->granted += other != self;
    world.believers[target] = self;
    world.tokens[target] = holding.token;
}

/* ---- real instances */

static void schedule(struct instance *instance, uint64_t at_us) {
    at_us = ten_max_u64(at_us, ten_max_u64(world.now_us, instance->paused_until_us));
    if (at_us >= instance->wake_us)
        return;
    instance->wake_us = at_us;
    push((struct happening){.at_us = at_us,
                            .instance = (uint32_t)(instance - world.instances),
                            .number = ++instance->wake_number,
                            .what = WAKE});
}

static void count_call(struct instance *instance) {
    uint64_t second = world.now_us / 1000000;
    instance->in_second = second == instance->second ? instance->in_second + 1 : 1;
    instance->second = second;
    instance->calls++;
    if (instance->in_second > instance->most)
        instance->most = instance->in_second;
}

static int tell(struct instance *instance, ten_engine_event event, ten_update *update) {
    event.now_ms = now_ms();
    ten_engine_step(&instance->engine, &event, update);
    return 0;
}

static void drive(struct instance *instance) {
    tenure_event event;
    ten_update update;
    if (!instance->alive || instance->calling || world.now_us < instance->paused_until_us)
        return;
    if (instance->noticed)
        (void)tell(instance, (ten_engine_event){.kind = TEN_ON_NOTICE}, NULL);
    instance->noticed = false;
    (void)tell(instance, (ten_engine_event){.kind = TEN_ON_TIMER}, &update);
    while (ten_event_queue_take(&instance->events, &event))
        if (event.kind == TENURE_EVENT_STOPPED)
            instance->alive = false;
    if (!instance->alive)
        return;
    if (update.call.kind == TEN_CALL_NONE) {
        if (update.next_ms != UINT64_MAX)
            schedule(instance, update.next_ms * 1000);
        return;
    }
    count_call(instance);
    instance->calling = true;
    instance->call = update.call;
    push((struct happening){.at_us = world.now_us + LATENCY_US + chance(JITTER_US),
                            .instance = (uint32_t)(instance - world.instances),
                            .what = ARRIVE});
}

static int take_row(const ten_row *row, void *userdata) {
    return tell(userdata, (ten_engine_event){.kind = TEN_ON_ROW, .row = row}, NULL);
}

static int take_instance(const ten_instance *item, void *userdata) {
    return tell(userdata, (ten_engine_event){.kind = TEN_ON_INSTANCE, .instance = item}, NULL);
}

static int take_change(const ten_change *change, void *userdata) {
    return tell(userdata, (ten_engine_event){.kind = TEN_ON_CHANGE, .change = change}, NULL);
}

static void notify_all(void) {
    for (uint32_t i = 0; i < world.instance_count; i++) {
        struct instance *instance = &world.instances[i];
        if (!instance->alive || !instance->real || instance->noticed)
            continue;
        instance->noticed = true;
        schedule(instance, world.now_us + LATENCY_US);
    }
}

static int make_call(struct instance *instance, ten_result *results, uint64_t *cursor) {
    const ten_call *call = &instance->call;
    ten_store *store = world.store;
    ten_query query = {.namespace_name = NAMESPACE, .after = call->after, .limit = call->limit, .current = true};
    *cursor = call->cursor;
    switch (call->kind) {
    case TEN_CALL_APPLY:
        return ten_store_apply(store, call->ops, results, call->count, 0);
    case TEN_CALL_CHANGES:
        return store->ops->changes(store, NAMESPACE, cursor, call->limit, take_change, instance, 0);
    case TEN_CALL_INSTANCES:
        return store->ops->list_instances(store, NAMESPACE, take_instance, instance, 0);
    case TEN_CALL_LIST:
        return store->ops->list(store, &query, take_row, instance, 0);
    case TEN_CALL_READ:
        return store->ops->read_targets(store, NAMESPACE, call->ids, call->count, take_row, instance, 0);
    default:
        return TENURE_OK;
    }
}

/* The call takes effect and is answered, unless the answer is lost, or the store is down. */
static void arrive(struct instance *instance) {
    static ten_result results[TEN_FLEET_BATCH + 2];
    uint64_t cursor = 0;
    uint64_t last = ten_memory_last_number(world.core);
    bool lost = world.lost > 0 && (double)chance(1000000) < world.lost * 1e6;
    int r = TENURE_E_TIMEOUT;
    if (!instance->calling)
        return;
    memset(results, 0, sizeof results);
    if (!world.down && (!lost || instance->call.kind == TEN_CALL_APPLY))
        r = make_call(instance, results, &cursor);
    if (ten_memory_last_number(world.core) != last)
        notify_all();
    instance->calling = false;
    if (!instance->alive)
        return;
    (void)tell(instance,
               (ten_engine_event){
                   .kind = TEN_ON_ANSWER, .error = lost ? TENURE_E_TIMEOUT : r, .results = results, .cursor = cursor},
               NULL);
    drive(instance);
}

static void start(struct instance *instance) {
    uint32_t number = (uint32_t)(instance - world.instances);
    snprintf(instance->id, sizeof instance->id, "host-%u", number);
    instance->alive = true;
    instance->wake_us = UINT64_MAX;
    if (!instance->real) {
        push((struct happening){.at_us = world.now_us, .instance = number, .what = CROWD});
        return;
    }
    ten_fleet_config config = {.namespace_name = NAMESPACE,
                               .instance = instance->id,
                               .timing = world.timing,
                               .settle_ms = TEN_FLEET_SETTLE_MS,
                               .weight = 1,
                               .seed = chance(UINT64_MAX),
                               .batch_max = TEN_FLEET_BATCH,
                               .registry = true,
                               .hands = true,
                               .sessions = true,
                               .events = &instance->events};
    if (!ten_event_queue_open(&instance->events) || !(instance->fleet = ten_fleet_new(&config, now_ms())))
        abort();
    instance->events.publish = on_fact;
    instance->events.userdata = instance;
    ten_engine_config engine = {.step = ten_fleet_step,
                                .due = ten_fleet_due,
                                .part = instance->fleet,
                                .events = &instance->events,
                                .seed = chance(UINT64_MAX),
                                .backoff_max_ms = world.timing.renew_ms / 4,
                                .feed_gap_ms = TTL_MS / TEN_FLEET_FEED_PART,
                                .feed_size = TEN_FLEET_FEED,
                                .page_size = TEN_FLEET_PAGE,
                                .lists = true,
                                .registrations = true};
    ten_engine_init(&instance->engine, &engine, now_ms());
    schedule(instance, world.now_us);
}

/* It leaves nothing behind but its leases. */
static void kill_instance(struct instance *instance) {
    for (uint32_t t = 0; t < world.target_count; t++)
        if (world.believers[t] == (uint32_t)(instance - world.instances) + 1)
            world.believers[t] = 0;
    instance->alive = false;
    ten_engine_free(&instance->engine);
    ten_fleet_free(instance->fleet);
    ten_event_queue_free(&instance->events);
    instance->fleet = NULL;
    instance->calling = false;
}

/* ---- the crowd: announced, and each takes what a real instance's plan has for it */

static void share_out(void) {
    const ten_plan *plan = ten_fleet_plan(world.instances[0].fleet);
    uint32_t bound = ten_plan_instance_bound(plan);
    struct instance **by_number = calloc(bound, sizeof(struct instance *));
    if (!by_number)
        abort();
    for (uint32_t i = 0; i < world.instance_count; i++) {
        struct instance *instance = &world.instances[i];
        uint32_t number = ten_plan_find_instance(plan, instance->id);
        if (instance->real || number == TEN_PLAN_NONE)
            continue;
        by_number[number] = instance;
        instance->share = calloc(ten_plan_share(plan, number), sizeof *instance->share);
        instance->tokens = calloc(ten_plan_share(plan, number), sizeof *instance->tokens);
        if (!instance->share || !instance->tokens)
            abort();
    }
    for (uint32_t t = 0; t < ten_plan_target_bound(plan); t++) {
        uint32_t holder = ten_plan_holder(plan, t);
        struct instance *instance = holder < bound ? by_number[holder] : NULL;
        if (instance)
            instance->share[instance->share_count++] = (uint32_t)strtoul(ten_plan_target_id(plan, t) + 2, NULL, 10);
    }
    free(by_number);
}

static void apply_for_crowd(struct instance *instance, enum ten_op_kind kind, uint32_t first, uint32_t count) {
    static char ids[TEN_FLEET_BATCH][24];
    static ten_op ops[TEN_FLEET_BATCH + 1];
    static ten_result results[TEN_FLEET_BATCH + 1];
    ten_op op = {.namespace_name = NAMESPACE, .holder = instance->id, .ttl_ms = TTL_MS};
    size_t filled = 0;
    if (kind == TEN_OP_ANNOUNCE) {
        ops[filled] = op;
        ops[filled].kind = kind;
        ops[filled++].weight = 1;
    }
    for (uint32_t i = 0; i < count; i++) {
        snprintf(ids[i], sizeof ids[i], "t-%07u", instance->share[first + i]);
        op.kind = kind == TEN_OP_ANNOUNCE ? TEN_OP_RENEW : kind;
        op.target = ids[i];
        op.token = instance->tokens[first + i];
        ops[filled++] = op;
    }
    uint64_t last = ten_memory_last_number(world.core);
    if (ten_store_apply(world.store, ops, results, filled, 0) < 0)
        abort();
    for (uint32_t i = 0; kind == TEN_OP_ACQUIRE && i < count; i++) {
        if (results[i].outcome != TEN_OK)
            fail("one of the crowd did not get what is planned for it", instance, instance->share[first + i]);
        instance->tokens[first + i] = results[i].token;
        instance->granted++;
    }
    if (ten_memory_last_number(world.core) != last)
        notify_all();
}

/* A heartbeat with the renewals, or the next acquires. */
static void move_crowd(struct instance *instance) {
    uint64_t renew_us = world.timing.renew_ms * 1000;
    uint64_t next_us = world.now_us + renew_us;
    if (instance->renewed_us == 0 || world.now_us >= instance->renewed_us + renew_us) {
        uint32_t count = (uint32_t)ten_min_u64(instance->share_at, TEN_FLEET_BATCH);
        apply_for_crowd(instance, TEN_OP_ANNOUNCE, 0, count);
        for (uint32_t at = count; at < instance->share_at; at += count) {
            count = (uint32_t)ten_min_u64(instance->share_at - at, TEN_FLEET_BATCH);
            apply_for_crowd(instance, TEN_OP_RENEW, at, count);
        }
        instance->renewed_us = world.now_us;
    } else if (world.now_us >= world.crowd_us && instance->share_at < instance->share_count) {
        uint32_t count = (uint32_t)ten_min_u64(instance->share_count - instance->share_at, TEN_FLEET_BATCH);
        apply_for_crowd(instance, TEN_OP_ACQUIRE, instance->share_at, count);
        instance->share_at += count;
    }
    if (instance->share_at < instance->share_count || !instance->share)
        next_us = ten_min_u64(next_us, world.now_us + 10 * LATENCY_US + chance(10 * JITTER_US));
    push((struct happening){.at_us = next_us, .instance = (uint32_t)(instance - world.instances), .what = CROWD});
}

/* ---- running */

static bool step(void) {
    if (world.count == 0)
        return false;
    struct happening it = pop();
    struct instance *instance = &world.instances[it.instance];
    world.now_us = it.at_us;
    if (it.what == ARRIVE) {
        arrive(instance);
    } else if (it.what == CROWD) {
        move_crowd(instance);
    } else if (it.number == instance->wake_number) {
        instance->wake_us = UINT64_MAX;
        drive(instance);
    }
    return true;
}

static size_t held_by(const struct instance *instance) {
    return instance->real ? ten_fleet_owned_count(instance->fleet) : instance->share_at;
}

static bool is_settled(void) {
    size_t sum = 0, least = SIZE_MAX, most = 0;
    for (uint32_t i = 0; i < world.instance_count; i++) {
        const struct instance *instance = &world.instances[i];
        if (!instance->alive)
            continue;
        if (instance->stopping || world.now_us < instance->paused_until_us)
            return false;
        size_t held = held_by(instance);
        sum += held;
        least = held < least ? held : least;
        most = held > most ? held : most;
    }
    return sum == world.target_count && most - least <= 1;
}

/* Runs until the fleet has settled, and prints what that took. At most `moves_max` targets may change hands: what the
 * plan moves is up to twice what must move. */
static void settle(const char *what, uint64_t since_us, uint64_t moves_max) {
    uint64_t bound_us = since_us + (uint64_t)BOUND_TTLS * TTL_MS * 1000;
    uint64_t look_us = world.now_us;
    uint64_t calls = 0, granted = 0;
    uint32_t most = 0, real = 0;
    while (!world.failed && step()) {
        if (world.now_us < look_us)
            continue;
        if (is_settled())
            break;
        look_us = world.now_us + 10000;
        if (world.now_us > bound_us) {
            printf("# not settled %u TTLs after: %s\n", BOUND_TTLS, what);
            world.failed = true;
        }
    }
    for (uint32_t i = 0; i < world.instance_count; i++) {
        struct instance *instance = &world.instances[i];
        if (instance->real) {
            calls += instance->calls;
            most = instance->most > most ? instance->most : most;
            real += instance->alive;
        }
        granted += instance->granted;
        instance->calls = instance->granted = instance->most = 0;
    }
    double seconds = (double)(world.now_us - since_us) / 1e6;
    printf(
        "# %-28s settled after %7.3f s; %6.1f calls an instance (%5.1f a second, %u at most); %llu changes of hands\n",
        what, seconds, real ? (double)calls / real : 0, real ? (double)calls / real / (seconds > 0 ? seconds : 1) : 0,
        most, (unsigned long long)granted);
    if (granted > moves_max) {
        printf("# at most %llu changes of hands were expected\n", (unsigned long long)moves_max);
        world.failed = true;
    }
    fflush(stdout);
}

static void run_for(uint64_t us) {
    uint64_t end_us = world.now_us + us;
    while (!world.failed && world.count > 0 && world.heap[0].at_us <= end_us)
        (void)step();
    world.now_us = end_us;
}

static void register_targets(void) {
    static char ids[REGISTER_STEP][24];
    static ten_target_edit edits[REGISTER_STEP];
    for (uint32_t at = 0; at < world.target_count;) {
        size_t count = 0;
        for (; count < REGISTER_STEP && at < world.target_count; count++, at++) {
            snprintf(ids[count], sizeof ids[count], "t-%07u", at);
            edits[count] = (ten_target_edit){.action = TEN_TARGET_PUT, .target = {.id = ids[count]}};
        }
        if (world.store->ops->edit_targets(world.store, NAMESPACE, edits, count, 0) < 0)
            abort();
    }
}

/* All start within a second. A joining crowd is one change of the plan, so the crowd acquires when that has settled. */
static void run_start(uint32_t count, uint32_t crowd) {
    uint64_t last_us = world.now_us;
    for (uint32_t i = 0; i < count; i++) {
        run_for(START_US / count);
        start(&world.instances[i]);
        last_us = world.now_us;
    }
    if (crowd) {
        const ten_fleet *first = world.instances[0].fleet;
        while (!world.failed && (world.now_us < last_us + TEN_FLEET_SETTLE_MS * 1000 ||
                                 ten_plan_instance_count(ten_fleet_plan(first)) < count ||
                                 ten_fleet_planned_count(first) < world.target_count / count))
            (void)step();
        share_out();
        world.crowd_us = world.now_us;
    }
    settle("start", last_us, world.target_count * 5 / 4);
}

static void run_faults(uint32_t count) {
    uint32_t some = count / FAULT_PART ? count / FAULT_PART : 1;
    uint64_t ttl_us = (uint64_t)TTL_MS * 1000;
    uint64_t share = (uint64_t)world.target_count * some / (count - some); /* of the instances that are hit */
    uint64_t since_us = world.now_us;
    for (uint32_t i = 0; i < some; i++)
        kill_instance(&world.instances[i]);
    settle("some are killed", since_us, 2 * share);
    since_us = world.now_us;
    for (uint32_t i = 0; i < some; i++)
        start(&world.instances[i]);
    settle("they start again", since_us, 2 * share);
    for (uint32_t i = some; i < 2 * some; i++)
        world.instances[i].paused_until_us = world.now_us + ttl_us * 3 / 2;
    run_for(ttl_us * 3 / 2);
    for (uint32_t i = some; i < 2 * some; i++)
        schedule(&world.instances[i], world.now_us);
    settle("some slept for 1.5 TTL", world.now_us, 4 * share); /* away, and back */
    since_us = world.now_us;
    for (uint32_t i = 2 * some; i < 3 * some; i++) {
        ten_fleet_stop(world.instances[i].fleet, now_ms());
        world.instances[i].stopping = true;
        schedule(&world.instances[i], world.now_us);
    }
    settle("some leave", since_us, 2 * share);
    world.down = true;
    run_for(ttl_us / 3);
    world.down = false;
    settle("the store was down for TTL/3", world.now_us, 0);
    world.down = true;
    run_for(ttl_us * 3 / 2);
    world.down = false;
    settle("... and for 1.5 TTL", world.now_us, world.target_count * 9 / 8);
    world.lost = 0.05;
    run_for(ttl_us);
    since_us = world.now_us;
    for (uint32_t i = 3 * some; i < 4 * some; i++)
        kill_instance(&world.instances[i]);
    run_for(ttl_us);
    world.lost = 0;
    settle("answers lost, some killed", since_us, 4 * share); /* what was granted unheard, too */
}

bool sim_scale(uint32_t instances, uint32_t targets, uint32_t real, bool faults, uint64_t seed) {
    ten_error error;
    world.random = seed;
    world.now_us = 1000000;
    world.crowd_us = UINT64_MAX;
    world.timing = (ten_timing){.ttl_ms = TTL_MS};
    ten_timing_defaults(&world.timing);
    world.instance_count = instances;
    world.target_count = targets;
    world.clock =
        (ten_clock){.boot_ms = boot_ms, .wall_ms = wall_ms, .boot_id = boot_id, .time_namespace = time_namespace};
    world.instances = calloc(instances, sizeof *world.instances);
    world.believers = calloc(targets, sizeof *world.believers);
    world.tokens = calloc(targets, sizeof *world.tokens);
    if (!world.instances || !world.believers || !world.tokens ||
        ten_store_open("memory:", &(ten_store_config){.clock = &world.clock}, &world.store, &error) < 0)
        abort();
    world.core = ten_memory_core_of(world.store);
    ten_memory_set_feed_room(world.core, TEN_FEED_MOST);
    for (uint32_t i = 0; i < instances; i++)
        world.instances[i].real = i < real;
    register_targets();
    run_start(instances, instances - real);
    if (faults && !world.failed)
        run_faults(instances);
    printf("# %llu changes of belief judged\n", (unsigned long long)world.looks);
    return !world.failed; /* the process ends, and with it all this */
}
