/*
 * What must be true of leases, beside what is true of every holding (checks.c): a book asks only for what its program
 * wants, whoever lost a lease is told, and, in calm weather, whoever waits for a target gets it as soon as it is free.
 */
#include <inttypes.h>
#include <string.h>

#include "lessee.h"

#define PROMPT_US (100 * SIM_MS) /* a few round trips */

/* ---- requests */

static bool is_pending(const struct sim_tenancy *tenancy) {
    for (uint32_t i = 0; i < SIM_HANDLES; i++)
        if (tenancy->handles[i].entry && tenancy->handles[i].pending)
            return true;
    return false;
}

/* It is tried once when it is overdue, and once more when the token was a spent one. */
static bool is_wanted(const struct sim_world *world, const struct sim_process *process, struct sim_tenancy *tenancy) {
    uint64_t now_ms = sim_local_ms(process, world->now_us);
    for (uint32_t i = 0; i < SIM_HANDLES; i++) {
        const struct sim_lease *lease = &tenancy->handles[i];
        if (lease->entry && lease->pending && now_ms <= lease->user.until_ms) {
            tenancy->overdue = 0;
            return true;
        }
    }
    return is_pending(tenancy) && ++tenancy->overdue <= 3;
}

/* A handle whose lease has ended has no part in the next one. */
static bool is_renewed(const struct sim_tenancy *tenancy, uint64_t token) {
    for (uint32_t i = 0; i < SIM_HANDLES; i++) {
        const struct sim_lease *lease = &tenancy->handles[i];
        if (lease->entry && lease->user.renewed && (lease->pending || lease->token == token))
            return true;
    }
    return false;
}

void sim_check_lease_request(struct sim_world *world, struct sim_process *process, uint32_t target, const ten_op *op) {
    struct sim_tenancy *tenancy = &process->lessee->tenancies[target];
    const char *id = world->targets[target].id;
    world->stats.checks++;
    if (op->kind == TEN_OP_ACQUIRE && (process->lessee->closed || !is_wanted(world, process, tenancy)))
        sim_fail(world, target, "%s acquires %s, but its program does not want it%s", process->id, id,
                 process->lessee->closed ? ": its context is being closed" : "");
    if (op->kind != TEN_OP_RENEW)
        return;
    if (op->token == tenancy->lost_token)
        sim_fail(world, target, "%s renews %s with token %" PRIu64 ", but has told its program that it is lost",
                 process->id, id, op->token);
    if (!tenancy->asked && !is_renewed(tenancy, op->token) && !is_pending(tenancy))
        sim_fail(world, target, "%s renews %s, but its program has freed it, or renews it by itself", process->id, id);
    tenancy->asked = false;
}

/* ---- in calm weather */

static bool anybody_waits(const struct sim_world *world, uint32_t target) {
    for (uint32_t i = 0; i < world->live_count; i++) {
        const struct sim_process *process = world->processes[world->live[i]];
        const struct sim_lease *lease = &process->lessee->tenancies[target].handles[0];
        if (lease->entry && lease->pending && lease->user.patient && !process->stopping &&
            sim_local_ms(process, world->now_us) < lease->user.until_ms)
            return true;
    }
    return false;
}

/* Whoever waits counts by a clock of its own. */
static void check_free(struct sim_world *world, uint32_t number) {
    struct sim_target *target = &world->targets[number];
    world->stats.checks++;
    if (sim_held(world, number) || !anybody_waits(world, number))
        target->waited_us = world->now_us;
    else if (world->now_us - target->waited_us > PROMPT_US + sim_ttl_us(world) / 10)
        sim_fail(world, number, "%s has been free for %.3f ms, but nobody of those who wait for it takes it",
                 target->id, (double)(world->now_us - target->waited_us) / 1000);
}

static bool is_attentive(const struct sim_tenancy *tenancy) {
    for (uint32_t i = 0; i < SIM_HANDLES; i++)
        if (tenancy->handles[i].user.claim == TEN_BOOK_HOLDING && tenancy->handles[i].user.attentive)
            return true;
    return false;
}

static void check_told(struct sim_world *world, const struct sim_process *process, uint32_t target,
                       const struct sim_lease *lease) {
    const struct sim_tenancy *tenancy = &process->lessee->tenancies[target];
    if (!lease->entry || lease->call != SIM_CALL_NONE)
        return;
    uint64_t now_ms = sim_local_ms(process, world->now_us);
    const ten_holding *holding = &lease->entry->holding;
    bool ended = lease->token && (!ten_holding_is_held(holding) || holding->token != lease->token);
    bool told = lease->lost && tenancy->lost_token >= lease->token;
    if (ended && !told && tenancy->ended_token < lease->token && !process->calling)
        sim_fail(world, target, "%s has lost %s with token %" PRIu64 ", but its program was not told", process->id,
                 world->targets[target].id, lease->token);
    if (lease->pending && now_ms > lease->user.until_ms + world->timing.ttl_ms + 2 * world->timing.timeout_ms)
        sim_fail(world, target, "%s wanted %s until %" PRIu64 ", but at %" PRIu64 " its program knows no outcome",
                 process->id, world->targets[target].id, lease->user.until_ms, now_ms);
}

static void check_tenancy(struct sim_world *world, struct sim_process *process, uint32_t target) {
    struct sim_tenancy *tenancy = &process->lessee->tenancies[target];
    const char *id = world->targets[target].id;
    const ten_holding *holding = process->kind->lease_of(process, target);
    const ten_lease_row *held = sim_held(world, target);
    world->stats.checks++;
    for (uint32_t i = 0; i < SIM_HANDLES; i++)
        check_told(world, process, target, &tenancy->handles[i]);
    if (!holding || holding->state != TEN_HOLDING_RELEASING || tenancy->releasing_us == 0) /* 0: not looked at before */
        tenancy->releasing_us = world->now_us;
    else if (world->now_us - tenancy->releasing_us > sim_ttl_us(world) / 2)
        sim_fail(world, target, "%s has to release %s since %.3f ms, but does not", process->id, id,
                 (double)(world->now_us - tenancy->releasing_us) / 1000);
    if (tenancy->dropped_us && world->now_us > tenancy->dropped_us + PROMPT_US && held && !held->barred &&
        held->token != tenancy->freed_token && strcmp(held->holder, process->id) == 0 && !tenancy->handles[0].entry &&
        !tenancy->handles[1].entry)
        sim_fail(world, target, "%s released %s %.3f ms ago, but holds it in the store", process->id, id,
                 (double)(world->now_us - tenancy->dropped_us) / 1000);
    if (tenancy->forced_us && world->now_us > tenancy->forced_us + PROMPT_US && is_attentive(tenancy) && held &&
        held->barred && strcmp(held->holder, process->id) == 0 && sim_has_lease(world, process, target))
        sim_fail(world, target, "%s was forced %.3f ms ago, but %s, which wants to hear of that, believes in it", id,
                 (double)(world->now_us - tenancy->forced_us) / 1000, process->id);
}

static void check_closed(struct sim_world *world, uint32_t target) {
    const ten_lease_row *held = sim_held(world, target);
    const struct sim_process *holder = held ? sim_find_process(world, held->holder) : NULL;
    world->stats.checks++;
    if (holder && !holder->alive && held->token == holder->lessee->tenancies[target].closed_token && !held->barred &&
        world->now_us > holder->lessee->closed_us + PROMPT_US)
        sim_fail(world, target, "the context of %s was closed %.3f ms ago, but holds %s", holder->id,
                 (double)(world->now_us - holder->lessee->closed_us) / 1000, world->targets[target].id);
}

void sim_check_leases(struct sim_world *world) {
    for (uint32_t i = 0; i < world->target_count && !world->failed; i++) {
        check_free(world, i);
        check_closed(world, i);
        for (uint32_t j = 0; j < world->live_count && !world->failed; j++)
            check_tenancy(world, world->processes[world->live[j]], i);
    }
}

void sim_begin_lease_checks(struct sim_world *world) {
    for (uint32_t i = 0; i < world->target_count; i++) {
        world->targets[i].waited_us = world->now_us;
        for (uint32_t j = 0; j < world->process_count; j++)
            world->processes[j]->lessee->tenancies[i].closed_token = 0;
        for (uint32_t j = 0; j < world->live_count; j++) {
            struct sim_tenancy *tenancy = &world->processes[world->live[j]]->lessee->tenancies[i];
            for (uint32_t k = 0; k < SIM_HANDLES; k++)
                tenancy->handles[k].call_until_ms += 2 * world->timing.timeout_ms;
            tenancy->releasing_us = world->now_us;
            tenancy->dropped_us = tenancy->forced_us = 0;
        }
    }
}
