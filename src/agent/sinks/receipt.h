/*
 * Receipts: how the agent's loop learns that the messages of a poll have left all sinks, or were dropped, and how it
 * takes back those that have not begun to leave. A poll with a result has one receipt; each sink that takes its message
 * holds it until the message has left or was dropped. The loop makes receipts and takes back the finished ones; sinks
 * call the rest, in their threads. Nothing here waits, and nothing but making a receipt can fail.
 */
#ifndef TEN_AGENT_RECEIPT_H
#define TEN_AGENT_RECEIPT_H

#include <stdbool.h>

#include "base/error.h"

/* Of one agent; the finished ones wait here for the loop. A sink whose thread hangs can outlive the agent's loop: so
 * the receipts live until the last of them is gone. */
typedef struct ten_receipts ten_receipts;
typedef struct ten_receipt ten_receipt;

int ten_receipts_open(ten_receipts **ret_receipts, ten_error *error);
void ten_receipts_close(ten_receipts *receipts);
/* Readable when there is something to take. */
int ten_receipts_fd(const ten_receipts *receipts);
/* The owner of the next receipt whose messages are all gone; NULL: there is none. */
void *ten_receipts_take(ten_receipts *receipts);

/* ---- the loop's */

/* NULL: out of memory. */
ten_receipt *ten_receipt_make(ten_receipts *receipts, void *owner);
/* Whether a message of it may still leave. */
bool ten_receipt_is_open(ten_receipt *receipt);
/* From now on no message of it begins to leave. */
void ten_receipt_withdraw(ten_receipt *receipt);
/* The loop wants to know no more of it. NULL is ignored. */
void ten_receipt_forget(ten_receipt *receipt);

/* ---- a sink's, and the loop's while it hands the message to one sink after the other. NULL: the message has no
 * receipt */

/* A sink has taken a message. */
void ten_receipt_hold(ten_receipt *receipt);
/* A message is about to leave. False: it was withdrawn and has to be dropped. */
bool ten_receipt_begin(ten_receipt *receipt);
/* A message that was about to leave has not, and waits again. */
void ten_receipt_go_back(ten_receipt *receipt);
bool ten_receipt_is_withdrawn(ten_receipt *receipt);
/* A message has left, or was dropped; `begun`: it was about to leave. */
void ten_receipt_end(ten_receipt *receipt, bool begun);

#endif
