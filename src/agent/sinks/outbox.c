/*
 * Messages on their way. Called by sink.c and by each kind of sink.
 */
#include "agent/sinks/outbox.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"

#define BYTES_MAX ((size_t)8 * 1024 * 1024) /* with what every message costs */

/* ---- queues */

static void append(ten_outgoing_queue *queue, ten_outgoing *outgoing) {
    outgoing->next = NULL;
    *queue->last = outgoing;
    queue->last = &outgoing->next;
}

static ten_outgoing *take(ten_outgoing_queue *queue) {
    ten_outgoing *outgoing = queue->first;
    queue->first = outgoing->next;
    if (!queue->first)
        queue->last = &queue->first;
    return outgoing;
}

static void take_out(ten_outgoing_queue *queue, ten_outgoing *outgoing) {
    ten_outgoing **at = &queue->first;
    while (*at != outgoing)
        at = &(*at)->next;
    *at = outgoing->next;
    if (!outgoing->next)
        queue->last = at;
}

/* `from` goes before what is in `to`. */
static void prepend(ten_outgoing_queue *to, ten_outgoing_queue *from) {
    if (!from->first)
        return;
    *from->last = to->first;
    if (!to->first)
        to->last = from->last;
    to->first = from->first;
    *from = (ten_outgoing_queue){.last = &from->first};
}

static void free_outgoing(ten_outgoing *outgoing) {
    ten_receipt_end(outgoing->receipt, outgoing->begun);
    ten_free(outgoing);
}

static void free_queue(ten_outgoing_queue *queue) {
    while (queue->first)
        free_outgoing(take(queue));
}

void ten_outbox_init(ten_outbox *outbox) {
    *outbox = (ten_outbox){0};
    outbox->sent.last = &outbox->sent.first;
    outbox->waiting.last = &outbox->waiting.first;
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
    *outgoing = (ten_outgoing){.ends_ms = ends_ms, .bytes = bytes, .json_size = size};
    outgoing->name = copy_to(&at, name, name_size);
    outgoing->target = copy_to(&at, message->target, target);
    outgoing->instance = copy_to(&at, message->instance, instance);
    outgoing->json = copy_to(&at, json, size);
    snprintf(outgoing->token, sizeof outgoing->token, "%llu", (unsigned long long)message->token);
    return outgoing;
}

bool ten_outbox_put(ten_outbox *outbox, const char *name, const ten_message *message, ten_receipt *receipt,
                    uint64_t ends_ms, const char *json, size_t size) {
    ten_outgoing *outgoing = make(name, message, ends_ms, json, size);
    if (!outgoing)
        return false;
    pthread_mutex_lock(&outbox->lock);
    /* While the server is away the oldest are late first. */
    while (outbox->bytes + outgoing->bytes > BYTES_MAX && outbox->waiting.first &&
           is_late(outbox->waiting.first, ten_now_ms()))
        end(outbox, take(&outbox->waiting), true);
    bool fits = outbox->bytes + outgoing->bytes <= BYTES_MAX;
    if (fits) {
        outgoing->receipt = receipt;
        ten_receipt_hold(receipt);
        outbox->bytes += outgoing->bytes;
        outbox->count++;
        append(&outbox->waiting, outgoing);
    }
    pthread_mutex_unlock(&outbox->lock);
    if (!fits)
        ten_free(outgoing);
    return fits;
}

size_t ten_outbox_count(ten_outbox *outbox) {
    pthread_mutex_lock(&outbox->lock);
    size_t count = outbox->count;
    pthread_mutex_unlock(&outbox->lock);
    return count;
}

void ten_outbox_take_event(ten_outbox *outbox, ten_sink_event *ret_event) {
    pthread_mutex_lock(&outbox->lock);
    *ret_event = outbox->event;
    outbox->event = (ten_sink_event){0};
    pthread_mutex_unlock(&outbox->lock);
}

/* ---- sending */

bool ten_outbox_has_waiting(ten_outbox *outbox) {
    pthread_mutex_lock(&outbox->lock);
    bool waiting = outbox->waiting.first != NULL;
    pthread_mutex_unlock(&outbox->lock);
    return waiting;
}

ten_outgoing *ten_outbox_send_next(ten_outbox *outbox) {
    ten_outgoing *next = NULL;
    pthread_mutex_lock(&outbox->lock);
    while (!next && outbox->waiting.first) {
        next = take(&outbox->waiting);
        next->begun = next->ends_ms > ten_now_ms() && ten_receipt_begin(next->receipt);
        if (!next->begun) {
            end(outbox, next, true);
            next = NULL;
        }
    }
    pthread_mutex_unlock(&outbox->lock);
    if (next) {
        append(&outbox->sent, next);
        outbox->sent_count++;
    }
    return next;
}

void ten_outbox_finish(ten_outbox *outbox, ten_outgoing *sent, bool dropped) {
    take_out(&outbox->sent, sent);
    outbox->sent_count--;
    pthread_mutex_lock(&outbox->lock);
    if (!dropped && outbox->failing) {
        outbox->failing = false;
        outbox->event.works_again = true;
    }
    end(outbox, sent, dropped);
    pthread_mutex_unlock(&outbox->lock);
}

void ten_outbox_note_problem(ten_outbox *outbox, const ten_error *error) {
    pthread_mutex_lock(&outbox->lock);
    if (!outbox->failing)
        outbox->event.problem = *error;
    outbox->failing = true;
    outbox->event.works_again = false;
    pthread_mutex_unlock(&outbox->lock);
}

void ten_outbox_go_back(ten_outbox *outbox) {
    pthread_mutex_lock(&outbox->lock);
    for (ten_outgoing *sent = outbox->sent.first; sent; sent = sent->next) {
        ten_receipt_go_back(sent->receipt);
        sent->begun = false;
    }
    prepend(&outbox->waiting, &outbox->sent);
    outbox->sent_count = 0;
    pthread_mutex_unlock(&outbox->lock);
}

void ten_outbox_drop_late(ten_outbox *outbox) {
    ten_outgoing_queue kept = {.last = &kept.first};
    uint64_t now = ten_now_ms();
    pthread_mutex_lock(&outbox->lock);
    while (outbox->waiting.first) {
        ten_outgoing *outgoing = take(&outbox->waiting);
        if (is_late(outgoing, now))
            end(outbox, outgoing, true);
        else
            append(&kept, outgoing);
    }
    prepend(&outbox->waiting, &kept);
    pthread_mutex_unlock(&outbox->lock);
}

uint64_t ten_outbox_sent_until_ms(const ten_outbox *outbox) {
    uint64_t until_ms = UINT64_MAX;
    for (const ten_outgoing *sent = outbox->sent.first; sent; sent = sent->next)
        until_ms = ten_min_u64(until_ms, sent->ends_ms);
    return until_ms;
}

void ten_outbox_note_late(ten_outbox *outbox) {
    pthread_mutex_lock(&outbox->lock);
    outbox->event.late++;
    pthread_mutex_unlock(&outbox->lock);
}
