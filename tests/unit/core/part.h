/*
 * Tells a part of the engine what the engine would tell it (core/engine.h), one event at a time. For the tests of the
 * fleet, the lease book, the election and the checkpoints; test_engine.c tests the engine itself.
 */
#ifndef TESTS_UNIT_CORE_PART_H
#define TESTS_UNIT_CORE_PART_H

#include "core/engine.h"

static inline ten_part_update part_tell(ten_part_step_fn step, void *part, ten_engine_event event) {
    ten_part_update update = {.at_ms = event.now_ms};
    step(part, &event, &update);
    return update;
}

static inline const ten_op *part_request(ten_part_step_fn step, void *part, uint64_t now_ms, size_t *ret_count) {
    ten_part_update update = part_tell(step, part, (ten_engine_event){.kind = TEN_ON_REQUEST, .now_ms = now_ms});
    *ret_count = update.count;
    return update.ops;
}

static inline void part_answer(ten_part_step_fn step, void *part, uint64_t now_ms, int error,
                               const ten_result *results) {
    (void)part_tell(step, part,
                    (ten_engine_event){.kind = TEN_ON_ANSWER, .now_ms = now_ms, .error = error, .results = results});
}

static inline void part_change(ten_part_step_fn step, void *part, uint64_t now_ms, const ten_change *change) {
    (void)part_tell(step, part, (ten_engine_event){.kind = TEN_ON_CHANGE, .now_ms = now_ms, .change = change});
}

static inline void part_row(ten_part_step_fn step, void *part, uint64_t now_ms, const ten_row *row) {
    (void)part_tell(step, part, (ten_engine_event){.kind = TEN_ON_ROW, .now_ms = now_ms, .row = row});
}

static inline void part_instance(ten_part_step_fn step, void *part, uint64_t now_ms, const ten_instance *instance) {
    (void)part_tell(step, part, (ten_engine_event){.kind = TEN_ON_INSTANCE, .now_ms = now_ms, .instance = instance});
}

static inline void part_absent(ten_part_step_fn step, void *part, uint64_t now_ms, const char *target) {
    (void)part_tell(step, part, (ten_engine_event){.kind = TEN_ON_ABSENT, .now_ms = now_ms, .target = target});
}

/* Of an event that says nothing but its kind. */
static inline ten_part_update part_on(ten_part_step_fn step, void *part, uint64_t now_ms,
                                      enum ten_engine_event_kind kind) {
    return part_tell(step, part, (ten_engine_event){.kind = kind, .now_ms = now_ms});
}

static inline ten_part_due part_due(ten_part_due_fn due, const void *part, uint64_t now_ms) {
    ten_part_due found = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, .follows = true};
    due(part, now_ms, &found);
    return found;
}

#endif
