/*
 * The simulated world: true time, the queue of events, the random numbers of the seed, and the record of what happened,
 * which is shown when a check fails.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/hash.h"
#include "sim.h"

#define STEPS_AT_ONCE 100000u

void *sim_allocate(size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size);
    if (!memory) {
        fputs("Bail out! out of memory\n", stdout);
        exit(2);
    }
    return memory;
}

/* ---- chance */

uint64_t sim_random(struct sim_world *world, uint64_t below) {
    world->random += UINT64_C(0x9e3779b97f4a7c15);
    return below ? ten_hash_mix(world->random) % below : 0;
}

bool sim_chance(struct sim_world *world, double probability) {
    return probability > 0 && (double)sim_random(world, 1000000) < probability * 1000000;
}

/* ---- the queue */

static bool is_before(const struct sim_event *a, const struct sim_event *b) {
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

void sim_push(struct sim_world *world, uint64_t delay_us, struct sim_event event) {
    if (world->queue_count == world->queue_room) {
        world->queue_room = world->queue_room ? world->queue_room * 2 : 256;
        struct sim_event *queue = sim_allocate(world->queue_room, sizeof *queue);
        if (world->queue_count)
            memcpy(queue, world->queue, world->queue_count * sizeof *queue);
        free(world->queue);
        world->queue = queue;
    }
    event.at_us = world->now_us + delay_us;
    event.order = world->order++;
    uint32_t at = world->queue_count++;
    while (at > 0 && is_before(&event, &world->queue[(at - 1) / 2])) {
        world->queue[at] = world->queue[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    world->queue[at] = event;
}

static struct sim_event pop(struct sim_world *world) {
    struct sim_event first = world->queue[0];
    struct sim_event last = world->queue[--world->queue_count];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= world->queue_count)
            break;
        if (child + 1 < world->queue_count && is_before(&world->queue[child + 1], &world->queue[child]))
            child++;
        if (!is_before(&world->queue[child], &last))
            break;
        world->queue[at] = world->queue[child];
        at = child;
    }
    if (world->queue_count > 0)
        world->queue[at] = last;
    return first;
}

static void step(struct sim_world *world, struct sim_event *event, sim_script_fn script) {
    world->stats.steps++;
    if (event->kind == SIM_SCRIPT) {
        script(world, event->number);
    } else if (event->kind == SIM_ARRIVAL) {
        sim_arrive(world, event->message);
    } else if (event->kind == SIM_CHECKPOINT) {
        sim_checkpoint_arrives(world, event);
    } else if (event->kind == SIM_WARDEN_END) {
        sim_warden_release(world, world->processes[event->process]);
    } else {
        struct sim_process *process = world->processes[event->process];
        sim_process_event(world, process, event);
        if (process->alive)
            sim_check_process(world, process);
    }
}

void sim_run_until(struct sim_world *world, uint64_t until_us, sim_script_fn script) {
    while (!world->failed && world->queue_count > 0 && world->queue[0].at_us <= until_us) {
        struct sim_event event = pop(world);
        world->steps_now = event.at_us == world->now_us ? world->steps_now + 1 : 0;
        world->now_us = event.at_us;
        if (world->steps_now > STEPS_AT_ONCE)
            sim_fail(world, SIM_NOBODY, "%u steps were made, but no time has passed", STEPS_AT_ONCE);
        step(world, &event, script);
    }
    if (!world->failed)
        world->now_us = until_us;
}

/* ---- the record */

void sim_note(struct sim_world *world, const char *what, uint32_t process, uint32_t target, uint64_t number) {
    struct sim_record record = {
        .at_us = world->now_us, .what = what, .process = process, .target = target, .number = number};
    world->history[world->history_count++ % SIM_HISTORY] = record;
    if (world->verbose)
        printf("# %10.3f ms  %-8s %-10s %s %" PRIu64 "\n", (double)record.at_us / 1000,
               process == SIM_NOBODY ? "-" : world->processes[process]->id,
               target == SIM_NOBODY ? "-" : world->targets[target].id, what, number);
}

void sim_fail(struct sim_world *world, uint32_t target, const char *format, ...) {
    if (world->failed)
        return;
    world->failed = true;
    world->failed_target = target;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(world->failure, sizeof world->failure, format, arguments);
    va_end(arguments);
}

void sim_show_failure(const struct sim_world *world, const char *mutant) {
    printf("# seed %" PRIu64 "%s%s, TTL %" PRIu64 " ms, after %" PRIu64 " steps, at %.3f ms:\n", world->seed,
           mutant ? ", mutant " : "", mutant ? mutant : "", world->timing.ttl_ms, world->stats.steps,
           (double)world->now_us / 1000);
    printf("#   %s\n", world->failure);
    printf("# what happened before%s%s:\n", world->failed_target == SIM_NOBODY ? "" : ", about ",
           world->failed_target == SIM_NOBODY ? "" : world->targets[world->failed_target].id);
    uint64_t kept = ten_min_u64(world->history_count, SIM_HISTORY);
    const struct sim_record *shown[60];
    uint32_t count = 0;
    for (uint64_t i = 0; i < kept && count < TEN_COUNT(shown); i++) {
        const struct sim_record *record = &world->history[(world->history_count - 1 - i) % SIM_HISTORY];
        if (world->failed_target == SIM_NOBODY || record->target == SIM_NOBODY ||
            record->target == world->failed_target)
            shown[count++] = record;
    }
    while (count-- > 0)
        printf("#   %10.3f ms  %-8s %-10s %s %" PRIu64 "\n", (double)shown[count]->at_us / 1000,
               shown[count]->process == SIM_NOBODY ? "-" : world->processes[shown[count]->process]->id,
               shown[count]->target == SIM_NOBODY ? "-" : world->targets[shown[count]->target].id, shown[count]->what,
               shown[count]->number);
    for (uint32_t i = 0; i < world->live_count; i++) {
        const struct sim_process *process = world->processes[world->live[i]];
        uint64_t now_ms = sim_local_ms(process, world->now_us);
        printf("# %s: ", process->id);
        process->kind->describe(process, now_ms);
        printf("%s%s%s%s\n", process->calling ? ", calls" : "", process->lame ? ", lame" : "",
               process->stopping ? ", stopping" : "", sim_is_paused(world, process) ? ", paused" : "");
    }
    if (!mutant)
        printf("# again: ./dev sim %s--seeds 1 --first %" PRIu64 " --verbose\n", world->option, world->seed);
}

/* ---- names */

uint32_t sim_target_number(const struct sim_world *world, const char *id) {
    const char *digits = strrchr(id, '-');
    uint32_t number = digits ? (uint32_t)strtoul(digits + 1, NULL, 10) : 0;
    TEN_INVARIANT(number < world->target_count && strcmp(world->targets[number].id, id) == 0);
    return number;
}

struct sim_process *sim_find_process(const struct sim_world *world, const char *id) {
    uintptr_t value = (uintptr_t)ten_map_get(&world->process_numbers, id);
    return value ? world->processes[value - 1] : NULL;
}

/* ---- the whole */

struct sim_world *sim_world_new(uint64_t seed, uint32_t target_count, uint64_t ttl_ms) {
    struct sim_world *world = sim_allocate(1, sizeof *world);
    world->seed = seed;
    world->random = ten_hash_mix(seed * UINT64_C(0x9e3779b97f4a7c15) + 1);
    world->timing.ttl_ms = ttl_ms;
    ten_timing_defaults(&world->timing);
    world->settle_ms = ttl_ms / 3;
    world->rank_delay_ms = ten_max_u64(ttl_ms / 60, 20);
    world->feed_gap_ms = ten_max_u64(world->rank_delay_ms / 8, 1);
    world->option = "";
    world->work_us = ttl_ms * SIM_MS / 4;
    world->work_rules = (ten_work_rules){.grace_ms = ttl_ms / 10,
                                         .kill_after_ms = ttl_ms / 5,
                                         .kill_overdue_after_ms = ttl_ms / 5,
                                         .flush_ms = ttl_ms / 10,
                                         .has_result = true};
    world->function_rules = (ten_work_rules){.kill_after_ms = ttl_ms, .has_result = true};
    world->clock_spread = 0.05;
    world->weather = (struct sim_weather){.delay_us = SIM_MS, .spread_us = 2 * SIM_MS};
    world->target_count = target_count;
    world->targets = sim_allocate(target_count, sizeof *world->targets);
    world->history = sim_allocate(SIM_HISTORY, sizeof *world->history);
    world->requests_max = 130; /* at the shortest TTL, in the middle of a fault; 101 is the most seen in 16,000 seeds */
    world->lists_max = 60;
    sim_storage_open(world);
    for (uint32_t i = 0; i < target_count; i++) {
        snprintf(world->targets[i].id, sizeof world->targets[i].id, "scene-%02u", i);
        world->targets[i].pinned = SIM_NOBODY;
    }
    return world;
}

void sim_world_free(struct sim_world *world) {
    for (uint32_t i = 0; i < world->queue_count; i++)
        sim_message_free(world->queue[i].message);
    for (uint32_t i = 0; i < world->process_count; i++)
        sim_process_free(world->processes[i]);
    ten_store_close(world->store);
    ten_map_free(&world->process_numbers);
    free(world->processes);
    free(world->live);
    free(world->targets);
    free(world->roles);
    free(world->queue);
    free(world->history);
    free(world);
}
