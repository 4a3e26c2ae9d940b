/*
 * The simulated store: the memory backend on the simulated clock, with what the backend does not have: a TTL that is
 * granted shorter than asked, acquires that fail for one instance, and the loss of data.
 */
#include <string.h>

#include "candidate.h"
#include "sim.h"

#define STORE_BOOT_MS UINT64_C(5000000)
#define STORE_WALL_MS UINT64_C(1700000000000)

/* ---- its clock */

uint64_t sim_store_ms(const struct sim_world *world) {
    return STORE_BOOT_MS + world->now_us / 1000;
}

static uint64_t boot_ms(void *arg) {
    return sim_store_ms(arg);
}

static uint64_t wall_ms(void *arg) {
    const struct sim_world *world = arg;
    return STORE_WALL_MS + world->now_us / 1000;
}

static void boot_id(void *arg, char id[TEN_BOOT_ID_SIZE]) {
    (void)arg;
    id[0] = '\0';
}

static uint64_t time_namespace(void *arg) {
    (void)arg;
    return 0;
}

void sim_storage_open(struct sim_world *world) {
    world->clock = (ten_clock){
        .boot_ms = boot_ms, .wall_ms = wall_ms, .boot_id = boot_id, .time_namespace = time_namespace, .arg = world};
    ten_error error;
    if (ten_store_open("memory:", &(ten_store_config){.clock = &world->clock}, &world->store, &error) < 0) {
        printf("Bail out! %s\n", error.message);
        exit(2);
    }
    world->core = ten_memory_core_of(world->store);
}

/* ---- looking */

static ten_record look(const struct sim_world *world, enum ten_kind kind, const char *id) {
    return ten_memory_look(world->core, SIM_NAMESPACE, kind, id, sim_store_ms(world));
}

/* This is asked far more often than the store is, and a record that has the same version is not read again. */
static void see_session(const struct sim_world *world, struct sim_target *target, uint64_t now_ms) {
    static ten_buf texts;
    ten_record record = look(world, TEN_KIND_INSTANCE, target->seen.holder);
    if (record.version != target->session_version) {
        ten_instance_row row;
        const char *metadata;
        TEN_INVARIANT(ten_instance_row_read(&record, now_ms, 0, &row, &metadata, &texts));
        target->on_session = row.session == target->seen.session;
        target->session_version = record.version;
    }
    target->session_ends_ms = target->on_session && record.alive ? now_ms + record.left_ms : 0;
}

static void see(const struct sim_world *world, struct sim_target *target, uint64_t now_ms) {
    ten_record record = look(world, TEN_KIND_LEASE, target->id);
    if (record.version != target->seen_version) {
        TEN_INVARIANT(ten_lease_row_read(&record, &target->seen));
        target->seen_version = record.version;
        target->session_version = target->session_ends_ms = 0;
    }
    target->seen.ends_ms = record.alive ? now_ms + record.left_ms : 0;
    if (target->seen.session)
        see_session(world, target, now_ms);
}

const ten_lease_row *sim_held(const struct sim_world *world, uint32_t number) {
    struct sim_target *target = &world->targets[number];
    ten_lease_row *lease = &target->lease;
    uint64_t now_ms = sim_store_ms(world);
    uint64_t calls = ten_memory_calls(world->core);
    if (target->seen_after != calls)
        see(world, target, now_ms);
    target->seen_after = calls;
    *lease = target->seen;
    if (target->session_ends_ms <= now_ms)
        lease->session = 0;
    lease->ends_ms = ten_max_u64(lease->ends_ms, target->session_ends_ms);
    return ten_lease_row_is_held(lease, now_ms) ? lease : NULL;
}

bool sim_is_recovering(const struct sim_world *world) {
    return look(world, TEN_KIND_QUARANTINE, "").alive;
}

static uint64_t last_number(const struct sim_world *world) {
    return ten_memory_last_number(world->core);
}

/* ---- operations */

static void apply(struct sim_world *world, const ten_op *op, ten_result *result) {
    (void)ten_store_apply(world->store, op, result, 1, 0);
    /* A result lives longer here than in a store. */
    if (result->holder) {
        const struct sim_process *holder = sim_find_process(world, result->holder);
        result->holder = holder->id;
    }
}

static void note_announce(struct sim_world *world, struct sim_process *process) {
    if (process->announced_us == 0)
        process->announced_us = world->now_us;
}

static void execute_one(struct sim_world *world, struct sim_process *process, struct sim_operation *operation) {
    static const char *const names[] = {[TEN_OP_ACQUIRE] = "store: acquire",
                                        [TEN_OP_RENEW] = "store: renew",
                                        [TEN_OP_RELEASE] = "store: release",
                                        [TEN_OP_READ] = "store: read",
                                        [TEN_OP_ANNOUNCE] = "store: announce",
                                        [TEN_OP_LEAVE] = "store: leave",
                                        [TEN_OP_ASK] = "store: ask",
                                        [TEN_OP_HAND] = "store: hand",
                                        [TEN_OP_CHECKPOINT] = "store: checkpoint"};
    ten_op op = operation->op;
    bool fails = process->lame && op.kind == TEN_OP_ACQUIRE;
    if (fails)
        op.kind = TEN_OP_READ;
    if (world->granted_ms && op.kind == TEN_OP_ANNOUNCE)
        op.ttl_ms = ten_min_u64(op.ttl_ms, world->granted_ms);
    if (world->granted_ms && op.target && op.ttl_ms && !sim_has_least_time(world, sim_target_number(world, op.target)))
        op.ttl_ms = ten_min_u64(op.ttl_ms, world->granted_ms);
    apply(world, &op, &operation->result);
    if (fails)
        operation->result = (ten_result){.outcome = TEN_ERROR, .error = TENURE_E_FULL};
    const ten_result *result = &operation->result;
    world->stats.on_session += op.kind == TEN_OP_ACQUIRE && result->outcome == TEN_OK && result->session != 0;
    world->stats.renewals += op.kind == TEN_OP_RENEW;
    world->stats.beats += op.kind == TEN_OP_ANNOUNCE;
    if (op.kind == TEN_OP_ANNOUNCE && result->outcome == TEN_OK)
        note_announce(world, process);
    if (!op.target)
        return;
    uint32_t target = sim_target_number(world, op.target);
    if (op.kind != TEN_OP_RENEW || result->outcome != TEN_OK)
        sim_note(world, result->outcome == TEN_OK ? names[op.kind] : "store: refused", process->number, target,
                 op.token ? op.token : result->token);
    if (op.kind == TEN_OP_RELEASE && result->outcome == TEN_OK)
        world->targets[target].free_us = world->now_us;
    bool handed = op.kind == TEN_OP_HAND && result->outcome == TEN_OK;
    if (handed || (op.kind == TEN_OP_RELEASE && result->outcome == TEN_OK && op.reason == TEN_REASON_REBALANCE))
        world->targets[target].released_us = world->now_us;
    if (op.kind == TEN_OP_RENEW && result->outcome == TEN_OK && world->targets[target].excused_us > 0 &&
        result->token < world->targets[target].highest_token)
        world->targets[target].old_token = result->token;
    if (handed)
        sim_check_grant(world, target, op.successor, result->token);
    if (op.kind == TEN_OP_ACQUIRE && result->outcome == TEN_OK)
        sim_check_grant(world, target, process->id, result->token);
    if (op.kind == TEN_OP_ACQUIRE && result->outcome == TEN_HELD && !result->recovering) {
        world->refused++;
        world->stats.refused++;
    }
    sim_check_target(world, target);
}

/* ---- listings */

struct listing {
    const struct sim_world *world;
    struct sim_message *message;
};

/* What the store tells is gone when the answer arrives: the texts are those of the world. */
static int add_instance(const ten_instance *instance, void *userdata) {
    const struct listing *listing = userdata;
    struct sim_message *message = listing->message;
    if (message->count % 64 == 0) {
        void *larger = realloc(message->instances, (message->count + 64) * sizeof *message->instances);
        if (!larger)
            return TENURE_E_NOMEM;
        message->instances = larger;
    }
    const struct sim_process *process = sim_find_process(listing->world, instance->instance);
    ten_instance *copy = &message->instances[message->count++];
    *copy = *instance;
    copy->instance = process->id;
    copy->metadata = process->candidate ? process->candidate->metadata : NULL;
    return 0;
}

static void list_instances(struct sim_world *world, struct sim_message *message) {
    struct listing listing = {.world = world, .message = message};
    message->error = world->store->ops->list_instances(world->store, SIM_NAMESPACE, add_instance, &listing, 0);
}

static int add_change(const ten_change *change, void *userdata) {
    const struct listing *listing = userdata;
    const struct sim_world *world = listing->world;
    struct sim_message *message = listing->message;
    if (!message->changes)
        message->changes = sim_allocate(SIM_CHANGES_MAX, sizeof *message->changes);
    ten_change *copy = &message->changes[message->count++];
    *copy = *change;
    copy->namespace_name = SIM_NAMESPACE;
    copy->actor = "";
    copy->instance = change->instance[0] ? sim_find_process(world, change->instance)->id : "";
    copy->target = change->target[0] ? world->targets[sim_target_number(world, change->target)].id : "";
    return 0;
}

/* Entries that nobody has read yet were removed from the feed: its reader hears only whether an epoch has begun. */
static void overrun_feed(struct sim_world *world, struct sim_message *message) {
    struct listing listing = {.world = world, .message = message};
    bool epoch = false;
    while (message->error == TENURE_OK && message->cursor != last_number(world)) {
        message->count = 0;
        message->error = world->store->ops->changes(world->store, SIM_NAMESPACE, &message->cursor, SIM_CHANGES_MAX,
                                                    add_change, &listing, 0);
        for (uint32_t i = 0; i < message->count; i++)
            epoch |= message->changes[i].kind == TENURE_EVENT_RECOVERING;
    }
    message->count = 0;
    message->error = ten_store_missed(world->store, SIM_NAMESPACE, message->cursor, epoch, add_change, &listing);
}

static void read_changes(struct sim_world *world, struct sim_message *message) {
    struct listing listing = {.world = world, .message = message};
    if (message->cursor != TEN_CURSOR_NOW && message->cursor != last_number(world) &&
        sim_chance(world, world->weather.overrun))
        overrun_feed(world, message);
    else
        message->error = world->store->ops->changes(world->store, SIM_NAMESPACE, &message->cursor, message->limit,
                                                    add_change, &listing, 0);
}

/* With texts that stay. */
static ten_pin pin_of(const struct sim_world *world, const ten_pin *pin) {
    ten_pin copy = *pin;
    copy.instance = pin->instance ? sim_find_process(world, pin->instance)->id : NULL;
    copy.actor = copy.reason = NULL;
    return copy;
}

static int add_row(const ten_row *row, void *userdata) {
    const struct listing *listing = userdata;
    struct sim_message *message = listing->message;
    message->rows[message->count++] =
        (struct sim_row){.target = sim_target_number(listing->world, row->target.id),
                         .registered = row->registered,
                         .paused = row->target.paused,
                         .pin = pin_of(listing->world, &row->pin),
                         .barred = row->barred,
                         .holder = row->holder ? sim_find_process(listing->world, row->holder)->id : NULL,
                         .token = row->token,
                         .remaining_ms = row->remaining_ms};
    return 0;
}

static void list_targets(struct sim_world *world, struct sim_message *message) {
    struct listing listing = {.world = world, .message = message};
    ten_query query = {.namespace_name = SIM_NAMESPACE,
                       .filter = TENURE_ALL,
                       .after = message->after,
                       .limit = message->limit,
                       .current = true};
    message->rows = sim_allocate(message->limit, sizeof *message->rows);
    message->error = world->store->ops->list(world->store, &query, add_row, &listing, 0);
}

static void read_targets(struct sim_world *world, struct sim_message *message) {
    struct listing listing = {.world = world, .message = message};
    const char *ids[TEN_CALL_READ_MAX];
    uint32_t count = message->count;
    for (uint32_t i = 0; i < count; i++)
        ids[i] = world->targets[message->wanted[i]].id;
    message->count = 0;
    message->rows = sim_allocate(count, sizeof *message->rows);
    message->error = world->store->ops->read_targets(world->store, SIM_NAMESPACE, ids, count, add_row, &listing, 0);
}

void sim_execute(struct sim_world *world, struct sim_message *message) {
    switch (message->kind) {
    case TEN_CALL_APPLY:
        for (uint32_t i = 0; i < message->count; i++)
            execute_one(world, world->processes[message->process], &message->operations[i]);
        break;
    case TEN_CALL_INSTANCES:
        list_instances(world, message);
        break;
    case TEN_CALL_CHANGES:
        read_changes(world, message);
        break;
    case TEN_CALL_LIST:
        list_targets(world, message);
        break;
    case TEN_CALL_READ:
        read_targets(world, message);
        break;
    default:
        break;
    }
}

/* ---- what wardens and operators do */

void sim_warden_release(struct sim_world *world, struct sim_process *process) {
    ten_op leave = {.kind = TEN_OP_LEAVE,
                    .namespace_name = SIM_NAMESPACE,
                    .holder = process->id,
                    .ttl_ms = world->timing.ttl_ms,
                    .reason = TEN_REASON_CRASHED};
    ten_result result;
    if (world->weather.unreachable || world->weather.refusing || process->cut_requests) {
        sim_push(world, 50 * SIM_MS, (struct sim_event){.kind = SIM_WARDEN_END, .process = process->number});
        return;
    }
    apply(world, &leave, &result);
    for (uint32_t i = 0; i < world->target_count; i++) {
        const ten_lease_row *held = sim_held(world, i);
        if (!held || strcmp(held->holder, process->id) != 0)
            continue;
        ten_op release = {.kind = TEN_OP_RELEASE,
                          .namespace_name = SIM_NAMESPACE,
                          .target = world->targets[i].id,
                          .holder = process->id,
                          .token = held->token,
                          .reason = TEN_REASON_CRASHED};
        sim_note(world, "its warden releases", process->number, i, held->token);
        apply(world, &release, &result);
    }
    sim_notify_all(world);
}

void sim_edit_target(struct sim_world *world, uint32_t number, enum ten_target_action action) {
    static const char *const names[] = {[TEN_TARGET_PUT] = "is added",
                                        [TEN_TARGET_REMOVE] = "is removed",
                                        [TEN_TARGET_PAUSE] = "is paused",
                                        [TEN_TARGET_RESUME] = "is resumed",
                                        [TEN_TARGET_UNPIN] = "is unpinned"};
    struct sim_target *target = &world->targets[number];
    ten_target_edit edit = {.action = action, .target = {.id = target->id, .exec = "true"}};
    sim_note(world, names[action], SIM_NOBODY, number, 0);
    (void)world->store->ops->edit_targets(world->store, SIM_NAMESPACE, &edit, 1, 0);
    ten_result registration;
    (void)ten_store_apply(world->store,
                          &(ten_op){.kind = TEN_OP_READ, .namespace_name = SIM_NAMESPACE, .target = target->id},
                          &registration, 1, 0);
    target->registered = registration.registered;
    target->paused = registration.paused;
    if (action == TEN_TARGET_REMOVE || action == TEN_TARGET_UNPIN)
        target->pinned = SIM_NOBODY;
    sim_notify_all(world);
}

void sim_pin(struct sim_world *world, uint32_t number, const struct sim_process *process, bool away, uint64_t for_us) {
    struct sim_target *target = &world->targets[number];
    ten_target_edit edit = {
        .action = TEN_TARGET_PIN,
        .target = {.id = target->id},
        .pin = {
            .instance = process ? process->id : NULL, .away = away, .left_ms = for_us / SIM_MS, .reason = "a test"}};
    if (!process) {
        sim_edit_target(world, number, TEN_TARGET_UNPIN);
        return;
    }
    if (!target->registered)
        return;
    sim_note(world, away ? "is kept away from" : "is pinned to", process->number, number, for_us / SIM_MS);
    (void)world->store->ops->edit_targets(world->store, SIM_NAMESPACE, &edit, 1, 0);
    target->pinned = process->number;
    target->pinned_away = away;
    target->pinned_until_us = world->now_us + for_us;
    world->stats.pins++;
    sim_notify_all(world);
}

bool sim_forget(struct sim_world *world, uint32_t number) {
    ten_forget item = {.id = world->targets[number].id};
    (void)ten_store_forget(world->store, SIM_NAMESPACE, &item, 1, 0);
    if (item.outcome != TEN_FORGET_DONE)
        return false;
    sim_note(world, "is forgotten", SIM_NOBODY, number, 0);
    world->stats.forgotten++;
    return true;
}

void sim_force(struct sim_world *world, uint32_t number) {
    ten_op op = {.kind = TEN_OP_RELEASE,
                 .flags = TEN_OP_FORCE,
                 .namespace_name = SIM_NAMESPACE,
                 .target = world->targets[number].id,
                 .reason = TEN_REASON_FORCED};
    ten_result result;
    sim_note(world, "is forced", SIM_NOBODY, number, 0);
    (void)ten_store_apply(world->store, &op, &result, 1, 0);
    const ten_lease_row *held = sim_held(world, number);
    if (held && held->session) /* each heartbeat would prolong it */
        sim_fail(world, number, "%s was forced, but still hangs on the session of %s", world->targets[number].id,
                 held->holder);
    if (world->roles)
        sim_forget_promises(world, number);
    sim_notify_all(world);
}

/* Somebody who knows the token renews a lease, without saying for whom. */
void sim_renew_by_token(struct sim_world *world, uint32_t number, uint64_t ttl_ms) {
    const ten_lease_row *held = sim_held(world, number);
    ten_op op = {.kind = TEN_OP_RENEW,
                 .namespace_name = SIM_NAMESPACE,
                 .target = world->targets[number].id,
                 .token = held ? held->token : 0,
                 .ttl_ms = world->granted_ms ? world->granted_ms : ttl_ms};
    ten_result result;
    if (!held)
        return;
    sim_note(world, "is renewed by its token for", SIM_NOBODY, number, ttl_ms);
    (void)ten_store_apply(world->store, &op, &result, 1, 0);
}

void sim_make_leave(struct sim_world *world, const struct sim_process *process) {
    ten_op op = {.kind = TEN_OP_LEAVE, .namespace_name = SIM_NAMESPACE, .holder = process->id};
    ten_result result;
    sim_note(world, "is made to leave", process->number, SIM_NOBODY, 0);
    (void)ten_store_apply(world->store, &op, &result, 1, 0);
    sim_notify_all(world);
}

bool sim_ask_to_resign(struct sim_world *world, uint32_t number) {
    ten_op op = {.kind = TEN_OP_ASK,
                 .namespace_name = SIM_NAMESPACE,
                 .target = world->targets[number].id,
                 .ask = TEN_ASK_RESIGN};
    ten_result result;
    sim_note(world, "its leader is asked to resign", SIM_NOBODY, number, 0);
    (void)ten_store_apply(world->store, &op, &result, 1, 0);
    sim_notify_all(world);
    return result.outcome == TEN_OK;
}

bool sim_ask_instance(struct sim_world *world, const struct sim_process *process, enum ten_ask ask) {
    ten_op op = {.kind = TEN_OP_ASK, .namespace_name = SIM_NAMESPACE, .holder = process->id, .ask = ask};
    ten_result result;
    sim_note(world, ask == TEN_ASK_DRAIN ? "is asked to drain" : "may work again", process->number, SIM_NOBODY, 0);
    (void)ten_store_apply(world->store, &op, &result, 1, 0);
    sim_notify_all(world);
    return result.outcome == TEN_OK;
}

static void forget_leases(struct sim_world *world, double part) {
    world->stats.losses++;
    for (uint32_t i = 0; i < world->target_count; i++) {
        const char *id = world->targets[i].id;
        if (look(world, TEN_KIND_LEASE, id).version == 0 && look(world, TEN_KIND_TARGET, id).version == 0)
            continue;
        world->targets[i].excused_us = world->now_us + sim_ttl_us(world);
        if (!sim_chance(world, part))
            continue;
        ten_memory_lose(world->core, SIM_NAMESPACE, TEN_KIND_LEASE, id);
        if (world->roles)
            sim_forget_promises(world, i);
    }
}

/* The store comes back without its leases and instances, or without some of its leases: an epoch begins. Nobody new is let
 * in until every lease that it may have forgotten has ended; the living put theirs back. */
void sim_lose_data(struct sim_world *world, bool all) {
    sim_note(world, all ? "the store loses its data" : "the store comes back older", SIM_NOBODY, SIM_NOBODY, 0);
    forget_leases(world, all ? 1 : 0.5);
    if (all)
        ten_memory_lose(world->core, SIM_NAMESPACE, TEN_KIND_INSTANCE, NULL);
    ten_memory_replace(world->core, world->timing.ttl_ms);
    uint64_t left_ms; /* somebody looks, and the epoch begins */
    (void)world->store->ops->recovery(world->store, SIM_NAMESPACE, world->timing.ttl_ms, NULL, &left_ms, 0);
    sim_notify_all(world);
}

/* The store loses its leases, and cannot tell: only a holder that renews knows more. */
void sim_lose_data_silently(struct sim_world *world) {
    sim_note(world, "the store loses its data and does not notice", SIM_NOBODY, SIM_NOBODY, 0);
    forget_leases(world, 1);
}
