/*
 * A program with leases: what it asks of its book, hears and does. What src/runtime/context_lease.c and
 * context_acquire.c do around the book is modelled here: handles, calls that wait for an answer and give up, and the
 * end of a context. Its work is that of a program's own functions, which have no warden.
 */
#include "lessee.h"

#include <inttypes.h>
#include <string.h>

#define CHANGE_OF_MIND UINT64_MAX /* instead of the number of a piece of work */

static uint64_t now_ms(const struct sim_world *world, const struct sim_process *process) {
    return sim_local_ms(process, world->now_us);
}

static struct sim_tenancy *tenancy_of(const struct sim_process *process, uint32_t target) {
    return &process->lessee->tenancies[target];
}

static const ten_holding *lease_of(const struct sim_process *process, uint32_t target) {
    const ten_book_lease *entry = ten_lease_book_find(process->lessee->book, process->owner.world->targets[target].id);
    return entry ? &entry->holding : NULL;
}

bool sim_has_lease(const struct sim_world *world, const struct sim_process *process, uint32_t target) {
    for (uint32_t i = 0; i < SIM_HANDLES; i++) {
        const struct sim_lease *lease = &tenancy_of(process, target)->handles[i];
        if (lease->entry && !lease->pending && lease->token == lease->entry->holding.token &&
            ten_holding_may_work(&lease->entry->holding, now_ms(world, process)))
            return true;
    }
    return false;
}

/* ---- what the book says */

/* The harness keeps its own account of deadlines: those of leases that nobody has a handle on pass as well. */
static void note_deadline(const struct sim_world *world, const struct sim_process *process, uint32_t target) {
    struct sim_tenancy *tenancy = tenancy_of(process, target);
    if (tenancy->believed_until_ms == 0 || now_ms(world, process) < tenancy->believed_until_ms)
        return;
    process->pieces[target].expired_token = tenancy->believed_token;
    tenancy->believed_until_ms = 0;
}

static void note_belief(const struct sim_owner *owner, const ten_book_lease *entry) {
    uint32_t target = sim_target_number(owner->world, entry->target);
    struct sim_tenancy *tenancy = tenancy_of(owner->process, target);
    const ten_holding *holding = &entry->holding;
    note_deadline(owner->world, owner->process, target);
    if (ten_holding_is_held(holding)) {
        tenancy->believed_token = holding->token;
        tenancy->believed_until_ms = holding->deadline_ms;
    }
    for (uint32_t i = 0; i < SIM_HANDLES; i++) {
        struct sim_lease *lease = &tenancy->handles[i];
        if (lease->entry != entry || !lease->pending || lease->user.claim != TEN_BOOK_HOLDING)
            continue;
        lease->pending = false;
        lease->token = holding->token;
    }
}

static void note_failed(const struct sim_owner *owner, const ten_book_lease *entry) {
    struct sim_tenancy *tenancy = tenancy_of(owner->process, sim_target_number(owner->world, entry->target));
    for (uint32_t i = 0; i < SIM_HANDLES; i++) {
        struct sim_lease *lease = &tenancy->handles[i];
        if (lease->entry != entry || !lease->pending || lease->user.claim != TEN_BOOK_NO_CLAIM)
            continue;
        lease->pending = false;
        lease->failed = true;
    }
}

static void note_lost(const struct sim_owner *owner, const ten_book_lease *entry) {
    struct sim_tenancy *tenancy = tenancy_of(owner->process, sim_target_number(owner->world, entry->target));
    for (uint32_t i = 0; i < SIM_HANDLES; i++) {
        struct sim_lease *lease = &tenancy->handles[i];
        lease->lost |= lease->entry == entry && !lease->pending && lease->token == entry->holding.token;
    }
}

static void on_fact(void *userdata, const ten_fact *fact) {
    if (fact->kind == TEN_FACT_BELIEF)
        note_belief(userdata, fact->lease);
    else if (fact->kind == TEN_FACT_FAILED)
        note_failed(userdata, fact->lease);
    else if (fact->kind == TEN_FACT_LOST)
        note_lost(userdata, fact->lease);
}

/* ---- its work */

static ten_work_lease work_lease(const struct sim_world *world, const struct sim_process *process, uint32_t target) {
    const ten_holding *holding = lease_of(process, target);
    if (!holding)
        return (ten_work_lease){0};
    bool ends = false;
    for (uint32_t i = 0; i < SIM_HANDLES; i++)
        ends |= tenancy_of(process, target)->handles[i].end != SIM_END_NOT;
    return (ten_work_lease){.token = holding->token,
                            .ends_ms = holding->deadline_ms,
                            .confirmed = ten_holding_is_held(holding) && !holding->uncertain,
                            .closing = ends || process->stopping || !sim_has_lease(world, process, target)};
}

static void look_at_work(struct sim_world *world, struct sim_process *process, uint32_t target) {
    struct sim_piece *piece = &process->pieces[target];
    ten_work_lease lease = work_lease(world, process, target);
    if (piece->machine.state != TEN_WORK_IDLE)
        (void)sim_carry_work(world, process, target, &lease);
}

static void start_work(struct sim_world *world, struct sim_process *process, uint32_t target) {
    uint64_t ttl_us = sim_ttl_us(world);
    uint64_t length_us = world->long_work && sim_chance(world, 0.05) ? ttl_us / 2 + sim_random(world, 2 * ttl_us)
                                                                     : ttl_us / 100 + sim_random(world, ttl_us / 10);
    ten_work_lease lease = work_lease(world, process, target);
    if (process->pieces[target].child == SIM_CHILD_NONE)
        (void)sim_start_work(world, process, target, &world->function_rules, &lease, length_us);
}

static bool is_at_rest(const struct sim_process *process, uint32_t target) {
    return process->pieces[target].child == SIM_CHILD_NONE && ten_work_is_free(&process->pieces[target].machine);
}

/* Its result counts for nothing. It ends when it likes: nobody can kill a function. */
static void abandon_work(struct sim_world *world, struct sim_process *process, uint32_t target) {
    sim_child_overruns(world, process, target);
    process->pieces[target].machine = (ten_work){0};
    sim_child_signal(world, process, target, false);
}

/* ---- its calls */

static void begin_call(struct sim_world *world, struct sim_process *process, struct sim_lease *lease,
                       enum sim_lease_call call, uint64_t until_ms) {
    static const enum ten_book_request kinds[] = {[SIM_CALL_ACQUIRE] = TEN_BOOK_ACQUIRE,
                                                  [SIM_CALL_RENEW] = TEN_BOOK_RENEW,
                                                  [SIM_CALL_RELEASE] = TEN_BOOK_RELEASE};
    lease->call = call;
    uint64_t patience_ms = 2 * world->timing.timeout_ms;
    if (!world->calm) /* its time may have been short before */
        patience_ms = 1 + sim_random(world, patience_ms);
    lease->call_until_ms = ten_max_u64(until_ms, now_ms(world, process)) + patience_ms;
    lease->wait = (ten_book_wait){.kind = kinds[call]};
    sim_carrier_tell(world, process, (ten_engine_event){.kind = TEN_ON_CALLER});
}

static void leave(struct sim_world *world, struct sim_process *process, struct sim_lease *lease) {
    struct sim_tenancy *tenancy = tenancy_of(process, sim_target_number(world, lease->entry->target));
    if (lease->user.claim == TEN_BOOK_HOLDING)
        tenancy->freed_token = lease->token;
    ten_lease_book_leave(process->lessee->book, now_ms(world, process), lease->entry, &lease->user);
    *lease = (struct sim_lease){0};
}

static void acquire(struct sim_world *world, struct sim_process *process, uint32_t target, struct sim_lease *lease,
                    bool may_wait) {
    uint64_t now = now_ms(world, process);
    bool sync = sim_random(world, 2);
    uint64_t wait_ms = may_wait && sim_random(world, 3) > 0 ? sim_random(world, 4 * world->timing.ttl_ms) : 0;
    *lease = (struct sim_lease){.user.renewed = !may_wait || sim_random(world, 3) > 0, .pending = true};
    sim_note(world, sync ? "wants it, and waits for ms:" : "wants it for ms:", process->number, target, wait_ms);
    if (sync)
        begin_call(world, process, lease, SIM_CALL_ACQUIRE, now + wait_ms);
    tenancy_of(process, target)->asked = true;
    tenancy_of(process, target)->dropped_us = 0;
    tenancy_of(process, target)->overdue = 0;
    lease->entry = ten_lease_book_acquire(process->lessee->book, now, world->targets[target].id, now + wait_ms,
                                          &lease->user, sync ? &lease->wait : NULL);
    if (!sync && sim_random(world, 6) == 0) /* while the request is under way */
        sim_push(world, sim_random(world, 5 * SIM_MS),
                 (struct sim_event){
                     .kind = SIM_WORK_LOOK, .process = process->number, .target = target, .number = CHANGE_OF_MIND});
    if (sim_random(world, 3) == 0)
        ten_lease_book_attend(process->lessee->book, lease->entry, &lease->user, true);
}

static void give_up_call(struct sim_world *world, struct sim_process *process, uint32_t target,
                         struct sim_lease *lease) {
    enum sim_lease_call call = lease->call;
    sim_note(world, "gives up waiting (1 acquire, 2 renewal, 3 release):", process->number, target, call);
    if (world->calm)
        sim_fail(world, target, "%s waited for an answer about %s for two time-outs in calm weather", process->id,
                 world->targets[target].id);
    ten_lease_book_abandon(process->lessee->book, now_ms(world, process), lease->entry, &lease->wait);
    lease->call = SIM_CALL_NONE;
    if (call == SIM_CALL_RENEW) {
        tenancy_of(process, target)->asked = false;
        process->pieces[target].unconfirmed = true; /* until a renewal is confirmed */
    } else {
        leave(world, process, lease);
    }
}

static void take_answer(struct sim_world *world, struct sim_process *process, uint32_t target,
                        struct sim_lease *lease) {
    enum sim_lease_call call = lease->call;
    lease->call = SIM_CALL_NONE;
    world->stats.checks++;
    if (call == SIM_CALL_ACQUIRE && lease->wait.error == TENURE_OK && lease->token == 0)
        sim_fail(world, target, "%s was told that it holds %s, but under no token", process->id,
                 world->targets[target].id);
    if (call == SIM_CALL_RELEASE || (call == SIM_CALL_ACQUIRE && lease->wait.error != TENURE_OK) ||
        (call == SIM_CALL_RENEW && lease->wait.error == TENURE_E_LOST))
        leave(world, process, lease);
}

/* The threads that wait look first, whenever anything happens. */
static void report(struct sim_world *world, struct sim_process *process) {
    for (uint32_t i = 0; i < world->target_count; i++) {
        note_deadline(world, process, i);
        for (uint32_t j = 0; j < SIM_HANDLES; j++) {
            struct sim_lease *lease = &tenancy_of(process, i)->handles[j];
            if (lease->call == SIM_CALL_NONE)
                continue;
            if (lease->wait.answered)
                take_answer(world, process, i, lease);
            else if (now_ms(world, process) >= lease->call_until_ms)
                give_up_call(world, process, i, lease);
        }
    }
}

/* ---- what it does about one target */

static void end_lease(struct sim_world *world, struct sim_process *process, uint32_t target, struct sim_lease *lease,
                      enum sim_lease_end end) {
    ten_lease_book *book = process->lessee->book;
    static const char *const names[] = {"", "releases it", "drops it", "frees it"};
    sim_note(world, names[end], process->number, target, lease->token);
    if (end == SIM_END_FREE) {
        leave(world, process, lease);
        return;
    }
    /* Whoever only waits takes nothing from the other handle. */
    if (!lease->pending || tenancy_of(process, target)->handles[1].user.claim == TEN_BOOK_NO_CLAIM)
        tenancy_of(process, target)->dropped_us = world->now_us;
    if (lease->token)
        tenancy_of(process, target)->ended_token = lease->token;
    if (end == SIM_END_RELEASE) {
        begin_call(world, process, lease, SIM_CALL_RELEASE, 0);
        ten_lease_book_release(book, now_ms(world, process), lease->entry, &lease->user, &lease->wait);
    } else {
        uint64_t freed_token = tenancy_of(process, target)->freed_token;
        ten_lease_book_release(book, now_ms(world, process), lease->entry, &lease->user, NULL);
        leave(world, process, lease);
        tenancy_of(process, target)->freed_token = freed_token;
    }
}

static void use_held(struct sim_world *world, struct sim_process *process, uint32_t target, struct sim_lease *lease) {
    struct sim_tenancy *tenancy = tenancy_of(process, target);
    uint64_t renewed_ms = lease->entry->holding.sent_ms;
    if (lease->end == SIM_END_NOT && sim_random(world, 25) == 0) {
        lease->end = (enum sim_lease_end)(1 + sim_random(world, 3));
        ten_work_end(&process->pieces[target].machine);
        look_at_work(world, process, target);
    }
    if (lease->end != SIM_END_NOT && is_at_rest(process, target)) {
        end_lease(world, process, target, lease, lease->end);
    } else if (!lease->user.renewed && now_ms(world, process) >= renewed_ms + world->timing.ttl_ms / 4) {
        tenancy->asked = true;
        begin_call(world, process, lease, SIM_CALL_RENEW, 0);
        ten_lease_book_renew(process->lessee->book, now_ms(world, process), lease->entry, &lease->wait);
    }
}

static void use(struct sim_world *world, struct sim_process *process, uint32_t target, struct sim_lease *lease) {
    const ten_holding *holding = lease->entry ? &lease->entry->holding : NULL;
    if (lease->call != SIM_CALL_NONE)
        return;
    if (!lease->entry) {
        if (!process->stopping && sim_random(world, 12) == 0)
            acquire(world, process, target, lease, true);
    } else if (lease->pending) {
        uint64_t mood = sim_random(world, 40);
        if (mood < 2)
            end_lease(world, process, target, lease, mood ? SIM_END_DROP : SIM_END_FREE);
    } else if (lease->entry->barred && holding->token == lease->token) {
        /* It was forced: the program says that it has stopped, or only frees the handle. */
        if (is_at_rest(process, target))
            end_lease(world, process, target, lease, (enum sim_lease_end)(1 + sim_random(world, 3)));
    } else if (lease->failed || !ten_holding_is_held(holding) || holding->token != lease->token) {
        leave(world, process, lease);
    } else {
        use_held(world, process, target, lease);
    }
}

static void look_at_one(struct sim_world *world, struct sim_process *process, uint32_t target, uint64_t work) {
    struct sim_lease *lease = &tenancy_of(process, target)->handles[0];
    if (work == CHANGE_OF_MIND && lease->entry && lease->pending && lease->call == SIM_CALL_NONE)
        end_lease(world, process, target, lease, SIM_END_DROP);
    else if (process->pieces[target].work == work)
        look_at_work(world, process, target);
    sim_drive(world, process);
}

/* A second handle on what is held already. */
static void use_second(struct sim_world *world, struct sim_process *process, uint32_t target, struct sim_lease *lease) {
    bool in_use = lease->user.claim == TEN_BOOK_HOLDING && !is_at_rest(process, target) &&
                  tenancy_of(process, target)->handles[0].user.claim != TEN_BOOK_HOLDING;
    if (lease->call != SIM_CALL_NONE || in_use)
        return;
    if (lease->entry && !lease->pending && (process->stopping || lease->failed || sim_random(world, 15) == 0))
        leave(world, process, lease);
    else if (!lease->entry && !process->stopping && sim_has_lease(world, process, target) && sim_random(world, 40) == 0)
        acquire(world, process, target, lease, false);
}

/* ---- the end of its context */

static void close_book(struct sim_world *world, struct sim_process *process) {
    struct sim_lessee *lessee = process->lessee;
    for (uint32_t i = 0; i < world->target_count; i++) {
        const ten_holding *holding = lease_of(process, i);
        if (sim_has_lease(world, process, i))
            tenancy_of(process, i)->closed_token = holding->token;
    }
    lessee->closed = true;
    lessee->closed_us = world->now_us;
    lessee->closes_ms = now_ms(world, process) + 2 * world->timing.timeout_ms;
    ten_lease_book_stop(lessee->book, now_ms(world, process));
    for (uint32_t i = 0; i < world->target_count; i++) {
        for (uint32_t j = 0; j < SIM_HANDLES; j++) {
            struct sim_lease *lease = &tenancy_of(process, i)->handles[j];
            if (lease->call != SIM_CALL_NONE && !lease->wait.answered)
                ten_lease_book_abandon(lessee->book, now_ms(world, process), lease->entry, &lease->wait);
            if (lease->entry)
                leave(world, process, lease);
        }
    }
}

static void stop(struct sim_world *world, struct sim_process *process) {
    for (uint32_t i = 0; i < world->target_count; i++) {
        ten_work_end(&process->pieces[i].machine);
        look_at_work(world, process, i);
    }
}

static bool is_over(const struct sim_process *process) {
    const struct sim_lessee *lessee = process->lessee;
    bool late = now_ms(process->owner.world, process) >= lessee->closes_ms;
    return lessee->closed && (late || ten_lease_book_is_idle(lessee->book));
}

static void look_for_work(struct sim_world *world, struct sim_process *process) {
    bool at_rest = true;
    report(world, process);
    for (uint32_t i = 0; i < world->target_count && !process->lessee->closed; i++) {
        use(world, process, i, &tenancy_of(process, i)->handles[0]);
        use_second(world, process, i, &tenancy_of(process, i)->handles[1]);
        start_work(world, process, i);
        at_rest &= is_at_rest(process, i);
    }
    if (process->stopping && at_rest && !process->lessee->closed)
        close_book(world, process);
    sim_push(world, world->work_us, (struct sim_event){.kind = SIM_WORK, .process = process->number});
    sim_drive(world, process);
}

/* ---- events */

static void on_event(struct sim_world *world, struct sim_process *process, const tenure_event *event) {
    uint32_t target = event->target[0] ? sim_target_number(world, event->target) : SIM_NOBODY;
    enum ten_reason reason = ten_reason_parse(event->reason);
    if (event->kind != TENURE_EVENT_RENEWED)
        sim_note(world, tenure_event_name(event->kind), process->number, target, event->token);
    if (event->kind == TENURE_EVENT_ACQUIRED) {
        world->stats.terms++;
        tenancy_of(process, target)->freed_token = 0;
        sim_check_spent(world, process, target, event->token);
    } else if (event->kind == TENURE_EVENT_LOST) {
        tenancy_of(process, target)->lost_token = event->token;
        if (reason == TEN_REASON_EXPIRED)
            process->pieces[target].expired_token = event->token;
        if (world->calm && reason != TEN_REASON_FORCED)
            sim_fail(world, target, "%s lost %s (%s) in calm weather: its renewals came too late or not at all",
                     process->id, world->targets[target].id, event->reason);
        abandon_work(world, process, target);
    } else if (target != SIM_NOBODY) {
        look_at_work(world, process, target);
    }
}

static void describe(const struct sim_process *process, uint64_t now) {
    printf("its clock says %" PRIu64 " and to look at %" PRIu64, now, ten_engine_look(&process->engine, now).next_ms);
}

static void end(struct sim_process *process) {
    ten_lease_book_free(process->lessee->book);
    process->lessee->book = NULL;
}

static const struct sim_kind lessee_kind = {.report = report,
                                            .on_event = on_event,
                                            .is_over = is_over,
                                            .sends = sim_check_lease_request,
                                            .look_for_work = look_for_work,
                                            .look_at_work = look_at_one,
                                            .warden_looks = sim_warden_looks,
                                            .stop = stop,
                                            .lease_of = lease_of,
                                            .describe = describe,
                                            .end = end};

struct sim_process *sim_lessee_start(struct sim_world *world) {
    struct sim_process *process = sim_process_new(world, &lessee_kind);
    struct sim_lessee *lessee = sim_allocate(1, sizeof *lessee);
    lessee->tenancies = sim_allocate(world->target_count, sizeof *lessee->tenancies);
    process->lessee = lessee;
    process->guarded = false;
    process->owner = (struct sim_owner){.world = world, .process = process};
    ten_lease_book_config config = {.namespace_name = SIM_NAMESPACE,
                                    .instance = process->id,
                                    .timing = world->timing,
                                    .batch_max = world->target_count / 2 + 1,
                                    .seed = sim_random(world, UINT64_MAX),
                                    .events = &process->events};
    lessee->book = ten_lease_book_new(&config);
    if (!lessee->book)
        abort();
    sim_note(world, "starts", process->number, SIM_NOBODY, 0);
    process->events.publish = on_fact;
    process->events.userdata = &process->owner;
    sim_carrier_start(
        world, process,
        (ten_engine_config){.step = ten_lease_book_step, .due = ten_lease_book_due, .part = lessee->book});
    sim_push(world, sim_random(world, world->work_us),
             (struct sim_event){.kind = SIM_WORK, .process = process->number});
    sim_drive(world, process);
    return process;
}

void sim_force_lease(struct sim_world *world, uint32_t target) {
    const ten_lease_row *held = sim_held(world, target);
    struct sim_process *holder = held ? sim_find_process(world, held->holder) : NULL;
    if (holder && holder->alive)
        tenancy_of(holder, target)->forced_us = world->now_us;
    sim_force(world, target);
}
