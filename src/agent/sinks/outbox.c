/*
 * Messages on their way. Called by sink.c, by each kind of sink, and by guard_topic_out.c.
 */
#include "agent/sinks/outbox.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"

#define BYTES_MAX ((size_t)8 * 1024 * 1024) /* with what every message costs, unless its owner sets another bound */

/* ---- queues */

static ten_outgoing *take_first(struct ten_outgoing_queue *queue) {
    ten_outgoing *first = TAILQ_FIRST(queue);
    if (first)
        TAILQ_REMOVE(queue, first, link);
    return first;
}

static void free_outgoing(ten_outgoing *outgoing) {
    ten_receipt_end(outgoing->receipt, outgoing->begun);
    ten_free(outgoing);
}

static void free_queue(struct ten_outgoing_queue *queue) {
    for (ten_outgoing *outgoing; (outgoing = take_first(queue));)
        free_outgoing(outgoing);
}

void ten_outbox_init(ten_outbox *outbox) {
    *outbox = (ten_outbox){.bytes_max = BYTES_MAX};
    TAILQ_INIT(&outbox->sent);
    TAILQ_INIT(&outbox->waiting);
    pthread_mutex_init(&outbox->lock, NULL);
}

void ten_outbox_free(ten_outbox *outbox) {
    free_queue(&outbox->sent);
    free_queue(&outbox->waiting);
    pthread_mutex_destroy(&outbox->lock);
}

/* The lock is held; it is in no queue any more. */
static void end(ten_outbox *outbox, ten_outgoing *outgoing, bool dropped) {
    outbox->bytes -= outgoing->bytes;
    outbox->count--;
    outbox->event.dropped += dropped;
    free_outgoing(outgoing);
}

static bool is_late(const ten_outgoing *outgoing, uint64_t now_ms) {
    return outgoing->ends_ms <= now_ms || ten_receipt_is_withdrawn(outgoing->receipt);
}

/* ---- taking a message */

static const char *copy_to(char **at, const char *text, size_t size) {
    char *copy = *at;
    memcpy(copy, text, size);
    copy[size] = '\0';
    *at += size + 1;
    return copy;
}

static ten_outgoing *make(const char *name, const ten_message *message, uint64_t ends_ms, const char *json,
                          size_t size) {
    size_t name_size = strlen(name);
    size_t target = strlen(message->target);
    size_t instance = strlen(message->instance);
    size_t bytes = sizeof(ten_outgoing) + name_size + target + instance + size + 4;
    ten_outgoing *outgoing = ten_malloc(bytes);
    if (!outgoing)
        return NULL;
    char *at = outgoing->texts;
    *outgoing = (ten_outgoing){.ends_ms = ends_ms, .bytes = bytes, .json_size = size, .token = message->token};
    outgoing->name = copy_to(&at, name, name_size);
    outgoing->target = copy_to(&at, message->target, target);
    outgoing->instance = copy_to(&at, message->instance, instance);
    outgoing->json = copy_to(&at, json, size);
    return outgoing;
}

ten_outgoing *ten_outbox_put(ten_outbox *outbox, const char *name, const ten_message *message, ten_receipt *receipt,
                             uint64_t ends_ms, const char *json, size_t size) {
    ten_outgoing *outgoing = make(name, message, ends_ms, json, size);
    const ten_outgoing *oldest;
    if (!outgoing)
        return NULL;
    TEN_LOCKED(&outbox->lock);
    /* While the server is away the oldest are late first. */
    while (outbox->bytes + outgoing->bytes > outbox->bytes_max && (oldest = TAILQ_FIRST(&outbox->waiting)) &&
           is_late(oldest, ten_now_ms()))
        end(outbox, take_first(&outbox->waiting), true);
    if (outbox->bytes + outgoing->bytes > outbox->bytes_max) {
        ten_free(outgoing);
        return NULL;
    }
    outgoing->receipt = receipt;
    ten_receipt_hold(receipt);
    outbox->bytes += outgoing->bytes;
    outbox->count++;
    TAILQ_INSERT_TAIL(&outbox->waiting, outgoing, link);
    return outgoing;
}

size_t ten_outbox_count(ten_outbox *outbox) {
    TEN_LOCKED(&outbox->lock);
    return outbox->count;
}

void ten_outbox_take_event(ten_outbox *outbox, ten_sink_event *ret_event) {
    TEN_LOCKED(&outbox->lock);
    *ret_event = outbox->event;
    outbox->event = (ten_sink_event){0};
}

/* ---- sending */

bool ten_outbox_has_waiting(ten_outbox *outbox) {
    TEN_LOCKED(&outbox->lock);
    return !TAILQ_EMPTY(&outbox->waiting);
}

ten_outgoing *ten_outbox_send_next(ten_outbox *outbox) {
    ten_outgoing *next;
    TEN_LOCKED(&outbox->lock);
    while ((next = take_first(&outbox->waiting))) {
        next->begun = next->ends_ms > ten_now_ms() && ten_receipt_begin(next->receipt);
        if (next->begun)
            break;
        end(outbox, next, true);
    }
    if (next) {
        TAILQ_INSERT_TAIL(&outbox->sent, next, link);
        outbox->sent_count++;
    }
    return next;
}

void ten_outbox_finish(ten_outbox *outbox, ten_outgoing *sent, bool dropped) {
    TAILQ_REMOVE(&outbox->sent, sent, link);
    outbox->sent_count--;
    TEN_LOCKED(&outbox->lock);
    if (!dropped && outbox->failing) {
        outbox->failing = false;
        outbox->event.works_again = true;
    }
    end(outbox, sent, dropped);
}

bool ten_outbox_confirm(ten_outbox *outbox, int number) {
    ten_outgoing *sent;
    TAILQ_FOREACH(sent, &outbox->sent, link)
        if (sent->number == number)
            break;
    if (sent)
        ten_outbox_finish(outbox, sent, false);
    return sent != NULL;
}

void ten_outbox_note_problem(ten_outbox *outbox, const ten_error *error) {
    TEN_LOCKED(&outbox->lock);
    if (!outbox->failing)
        outbox->event.problem = *error;
    outbox->failing = true;
    outbox->event.works_again = false;
}

void ten_outbox_go_back(ten_outbox *outbox) {
    TEN_LOCKED(&outbox->lock);
    ten_outgoing *sent;
    TAILQ_FOREACH(sent, &outbox->sent, link) {
        ten_receipt_go_back(sent->receipt);
        sent->begun = false;
    }
    TAILQ_CONCAT(&outbox->sent, &outbox->waiting, link);
    TAILQ_CONCAT(&outbox->waiting, &outbox->sent, link);
    outbox->sent_count = 0;
}

void ten_outbox_drop_late(ten_outbox *outbox) {
    uint64_t now = ten_now_ms();
    TEN_LOCKED(&outbox->lock);
    for (ten_outgoing *next, *outgoing = TAILQ_FIRST(&outbox->waiting); outgoing; outgoing = next) {
        next = TAILQ_NEXT(outgoing, link);
        if (!is_late(outgoing, now))
            continue;
        TAILQ_REMOVE(&outbox->waiting, outgoing, link);
        end(outbox, outgoing, true);
    }
}

uint64_t ten_outbox_sent_until_ms(const ten_outbox *outbox) {
    uint64_t until_ms = UINT64_MAX;
    const ten_outgoing *sent;
    TAILQ_FOREACH(sent, &outbox->sent, link)
        until_ms = ten_min_u64(until_ms, sent->ends_ms);
    return until_ms;
}

void ten_outbox_note_late(ten_outbox *outbox) {
    TEN_LOCKED(&outbox->lock);
    outbox->event.late++;
}
