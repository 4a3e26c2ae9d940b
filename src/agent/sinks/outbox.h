/*
 * Messages on their way to a server that may be slow or away: a bounded queue in which each message has the end of its
 * lease, after which it is dropped and never sent. What was sent and not confirmed yet goes back to the front when the
 * connection breaks. Used by the sinks: the agent's loop puts in, the sink's thread takes out; and by the guard's
 * output to a topic, in one thread.
 */
#ifndef TEN_AGENT_OUTBOX_H
#define TEN_AGENT_OUTBOX_H

#include <pthread.h>
#include <sys/queue.h>

#include "agent/common/message.h"
#include "agent/sinks/receipt.h"

/* What became known of a sink since it was last asked. */
typedef struct ten_sink_event {
    uint64_t dropped;  /* messages that were taken, and then could not be sent in time */
    uint64_t late;     /* messages that had begun to leave, and could not be finished before their lease ended */
    ten_error problem; /* it has begun to fail; code 0: it has not */
    bool works_again;
} ten_sink_event;

typedef struct ten_outgoing {
    TAILQ_ENTRY(ten_outgoing) link;
    uint64_t ends_ms; /* of its lease, on the boot clock */
    ten_receipt *receipt;
    bool begun;       /* it is about to leave */
    size_t bytes;     /* all of it */
    const char *name; /* where it goes: a key, a channel, a topic */
    const char *target;
    const char *instance;
    const char *json;
    size_t json_size;
    uint64_t token;
    /* The sender's, 0 at first. */
    int number;
    unsigned tries;
    uint64_t sent_ms;
    uint64_t message;   /* these two of a guard's output: its number for the log */
    uint64_t judged_ms; /* when it passed */
    char texts[];
} ten_outgoing;

TAILQ_HEAD(ten_outgoing_queue, ten_outgoing);

typedef struct ten_outbox {
    struct ten_outgoing_queue sent; /* not confirmed yet; the thread's */
    size_t sent_count;
    pthread_mutex_t lock; /* around what follows */
    struct ten_outgoing_queue waiting;
    size_t bytes_max;
    size_t bytes; /* of both queues */
    size_t count; /* of messages in them */
    bool failing;
    ten_sink_event event;
} ten_outbox;

void ten_outbox_init(ten_outbox *outbox);
void ten_outbox_free(ten_outbox *outbox);

/* NULL: there is no room for it. What is returned may be used only where no other thread sends. */
ten_outgoing *ten_outbox_put(ten_outbox *outbox, const char *name, const ten_message *message, ten_receipt *receipt,
                             uint64_t ends_ms, const char *json, size_t size);
/* How many are neither confirmed nor dropped. */
size_t ten_outbox_count(ten_outbox *outbox);
void ten_outbox_take_event(ten_outbox *outbox, ten_sink_event *ret_event);

/* ---- for the thread that sends */

bool ten_outbox_has_waiting(ten_outbox *outbox);
/* The next one whose lease has not ended and which was not withdrawn, which counts as sent from now on; others before
 * it are dropped. NULL: none. */
ten_outgoing *ten_outbox_send_next(ten_outbox *outbox);
/* The server has it, or (`dropped`) will never have it. It is freed. */
void ten_outbox_finish(ten_outbox *outbox, ten_outgoing *sent, bool dropped);
/* The server has the one with this number. False: it was none of those that were sent. */
bool ten_outbox_confirm(ten_outbox *outbox, int number);
/* Sending fails; reported when it begins. A message that is confirmed ends it. */
void ten_outbox_note_problem(ten_outbox *outbox, const ten_error *error);
/* The connection is gone: what was not confirmed is to be sent again. */
void ten_outbox_go_back(ten_outbox *outbox);
/* What is late or withdrawn. */
void ten_outbox_drop_late(ten_outbox *outbox);
/* When the first of those that were sent and are not confirmed is late; UINT64_MAX: there is none. */
uint64_t ten_outbox_sent_until_ms(const ten_outbox *outbox);
/* A message was finished after its lease had ended. */
void ten_outbox_note_late(ten_outbox *outbox);

#endif
