/*
 * The queue of events: a ring that grows. Called by the core, which puts, and by the runtime, which takes.
 */
#include "core/event_queue.h"

#include "base/alloc.h"
#include "base/util.h"

bool ten_event_queue_open(ten_event_queue *events) {
    *events =
        (ten_event_queue){.ring = ten_calloc(TEN_EVENT_QUEUE_MIN, sizeof *events->ring), .room = TEN_EVENT_QUEUE_MIN};
    return events->ring != NULL;
}

void ten_event_queue_free(ten_event_queue *events) {
    ten_free(events->ring);
    *events = (ten_event_queue){0};
}

static bool grow(ten_event_queue *events) {
    size_t room = events->room * 2;
    tenure_event *ring = room <= TEN_EVENT_QUEUE_MAX || events->unbounded ? ten_malloc(room * sizeof *ring) : NULL;
    if (!ring)
        return false;
    for (size_t i = 0; i < events->count; i++)
        ring[i] = events->ring[(events->first + i) % events->room];
    ten_free(events->ring);
    events->ring = ring;
    events->room = room;
    events->first = 0;
    return true;
}

void ten_event_queue_put(ten_event_queue *events, tenure_event event) {
    if (events->count == events->room && !grow(events)) {
        events->first = (events->first + 1) % events->room;
        events->count--;
    }
    event.size = sizeof event;
    if (!event.reason)
        event.reason = "";
    if (!event.message)
        event.message = "";
    events->ring[(events->first + events->count++) % events->room] = event;
    ten_event_queue_publish(events, &(ten_fact){.kind = TEN_FACT_EVENT, .event = &event});
}

void ten_event_queue_put_about(ten_event_queue *events, tenure_event event, const char *target, const char *instance) {
    (void)snprintf(event.target, sizeof event.target, "%s", target ? target : "");
    (void)snprintf(event.instance, sizeof event.instance, "%s", instance ? instance : "");
    ten_event_queue_put(events, event);
}

bool ten_event_queue_take(ten_event_queue *events, tenure_event *ret_event) {
    if (events->count == 0)
        return false;
    *ret_event = events->ring[events->first];
    events->first = (events->first + 1) % events->room;
    events->count--;
    return true;
}
