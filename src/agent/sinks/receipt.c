/*
 * Receipts of messages. Called by the agent's loop and by the sinks' threads; one lock is around all of it.
 */
#include "agent/sinks/receipt.h"

#include <errno.h>
#include <pthread.h>
#include <sys/queue.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/thread.h"

struct ten_receipts {
    pthread_mutex_t lock;
    int fd;
    size_t count;                        /* of receipts, and one for the agent */
    STAILQ_HEAD(, ten_receipt) finished; /* for the loop to take */
};

struct ten_receipt {
    ten_receipts *receipts;
    void *owner;      /* NULL: the loop has forgotten it */
    unsigned waiting; /* messages that sinks hold */
    unsigned leaving; /* messages that are about to leave */
    bool withdrawn;
    bool ended;  /* nothing of it leaves any more, and the loop was told so */
    bool queued; /* in that list */
    STAILQ_ENTRY(ten_receipt) link;
};

/* ---- of one agent */

int ten_receipts_open(ten_receipts **ret_receipts, ten_error *error) {
    ten_receipts *receipts = ten_calloc(1, sizeof *receipts);
    if (!receipts)
        return ten_fail_memory(error, "the receipts of messages");
    receipts->fd = ten_eventfd_open();
    if (receipts->fd < 0) {
        ten_free(receipts);
        return ten_fail_errno(error, TENURE_E_SYSTEM, errno, "cannot start the agent's loop");
    }
    pthread_mutex_init(&receipts->lock, NULL);
    receipts->count = 1;
    STAILQ_INIT(&receipts->finished);
    *ret_receipts = receipts;
    return TENURE_OK;
}

/* The lock is held, and released. */
static void let_go(ten_receipts *receipts) {
    bool last = --receipts->count == 0;
    pthread_mutex_unlock(&receipts->lock);
    if (!last)
        return;
    pthread_mutex_destroy(&receipts->lock);
    ten_close_fd(&receipts->fd);
    ten_free(receipts);
}

int ten_receipts_fd(const ten_receipts *receipts) {
    return receipts->fd;
}

/* ---- one receipt */

static bool is_open(const ten_receipt *receipt) {
    return receipt->leaving > 0 || (receipt->waiting > 0 && !receipt->withdrawn);
}

/* Something has changed. The lock is held, and released. */
static void update(ten_receipt *receipt) {
    ten_receipts *receipts = receipt->receipts;
    if (receipt->owner && !receipt->ended && !is_open(receipt)) {
        receipt->ended = receipt->queued = true;
        STAILQ_INSERT_TAIL(&receipts->finished, receipt, link);
        ten_eventfd_poke(receipts->fd);
    }
    if (receipt->owner || receipt->queued || receipt->waiting > 0 || receipt->leaving > 0) {
        pthread_mutex_unlock(&receipts->lock);
        return;
    }
    ten_free(receipt);
    let_go(receipts);
}

static void lock(const ten_receipt *receipt) {
    pthread_mutex_lock(&receipt->receipts->lock);
}

void *ten_receipts_take(ten_receipts *receipts) {
    for (;;) {
        pthread_mutex_lock(&receipts->lock);
        ten_receipt *receipt = STAILQ_FIRST(&receipts->finished);
        if (!receipt) {
            ten_eventfd_clear(receipts->fd);
            pthread_mutex_unlock(&receipts->lock);
            return NULL;
        }
        STAILQ_REMOVE_HEAD(&receipts->finished, link);
        receipt->queued = false;
        void *owner = receipt->owner;
        update(receipt); /* frees one that was forgotten meanwhile */
        if (owner)
            return owner;
    }
}

/* What still waits in the queue was forgotten by its owner: only then is it freed here. */
void ten_receipts_close(ten_receipts *receipts) {
    if (!receipts)
        return;
    while (ten_receipts_take(receipts))
        ;
    pthread_mutex_lock(&receipts->lock);
    let_go(receipts);
}

/* ---- the loop's */

ten_receipt *ten_receipt_make(ten_receipts *receipts, void *owner) {
    ten_receipt *receipt = ten_calloc(1, sizeof *receipt);
    if (!receipt)
        return NULL;
    receipt->receipts = receipts;
    receipt->owner = owner;
    TEN_LOCKED(&receipts->lock);
    receipts->count++;
    return receipt;
}

bool ten_receipt_is_open(ten_receipt *receipt) {
    TEN_LOCKED(&receipt->receipts->lock);
    return is_open(receipt);
}

void ten_receipt_withdraw(ten_receipt *receipt) {
    TEN_LOCKED(&receipt->receipts->lock);
    receipt->withdrawn = true;
}

void ten_receipt_forget(ten_receipt *receipt) {
    if (!receipt)
        return;
    lock(receipt);
    receipt->owner = NULL;
    update(receipt);
}

/* ---- a sink's */

void ten_receipt_hold(ten_receipt *receipt) {
    if (!receipt)
        return;
    TEN_LOCKED(&receipt->receipts->lock);
    receipt->waiting++;
}

bool ten_receipt_begin(ten_receipt *receipt) {
    if (!receipt)
        return true;
    TEN_LOCKED(&receipt->receipts->lock);
    if (receipt->withdrawn)
        return false;
    receipt->waiting--;
    receipt->leaving++;
    return true;
}

void ten_receipt_go_back(ten_receipt *receipt) {
    if (!receipt)
        return;
    lock(receipt);
    receipt->leaving--;
    receipt->waiting++;
    update(receipt);
}

bool ten_receipt_is_withdrawn(ten_receipt *receipt) {
    if (!receipt)
        return false;
    TEN_LOCKED(&receipt->receipts->lock);
    return receipt->withdrawn;
}

void ten_receipt_end(ten_receipt *receipt, bool begun) {
    if (!receipt)
        return;
    lock(receipt);
    if (begun)
        receipt->leaving--;
    else
        receipt->waiting--;
    update(receipt);
}
