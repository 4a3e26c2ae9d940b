/*
 * The record of a namespace: its epoch, and what outlives its leases. And how an epoch begins: when the store is not
 * the one that it was, or a renewal proves that it lost data, tokens go on above the wall clock, and a quarantine keeps
 * newcomers out until all that may have been lost has ended. Pure. Called by store/apply_epoch.c and
 * store/forgetting.c.
 */
#ifndef TEN_RULES_NAMESPACE_ROW_H
#define TEN_RULES_NAMESPACE_ROW_H

#include "base/buf.h"
#include "rules/record.h"

typedef struct ten_namespace_row {
    bool exists;
    uint64_t epoch;        /* its number; the number of the record */
    uint64_t token_floor;  /* new tokens are at least this; 0: nothing was ever lost */
    uint64_t forgotten;    /* the highest token that was forgotten */
    uint64_t longest_ms;   /* no TTL that was granted is longer */
    uint64_t fleet_ttl_ms; /* of the last instance that joined while no other was there */
    uint64_t fleet_keyed;  /* 1: the leases of these instances have ends of their own, none hangs on a session */
    uint64_t first;        /* the feed has no entry of this epoch up to this number */
} ten_namespace_row;

/* What is known about a loss. */
typedef struct ten_loss {
    uint64_t wall_ms;  /* the store's clock */
    uint64_t lost_ms;  /* how long what was lost may still last; TEN_FOREVER: that is not known, */
    uint64_t least_ms; /* and then it is at least this long */
    uint64_t shown_ms; /* the TTL of the renewal that proved it, or of the caller that came first */
} ten_loss;

/* False: the record is damaged. */
bool ten_namespace_row_read(const ten_record *record, ten_namespace_row *row);
void ten_namespace_row_write(ten_buf *value, const char *old, const ten_namespace_row *row);

/* The row of a namespace that is used for the first time, in a store that lost nothing. */
ten_namespace_row ten_namespace_row_new(void);
/* Begins an epoch. Returns how long the quarantine has to last; 0: nobody has to wait. */
uint64_t ten_namespace_row_begin_epoch(ten_namespace_row *row, const ten_loss *loss);
/* How long nobody is let in who asks for that TTL; 0: not any longer. Where nobody knows what was lost, the quarantine
 * lasts as long as the TTLs that are known, and its number says how long that is: leases with a longer one may have
 * been lost, too, so who asks for that waits for the rest of it. Number 0: it is long enough for every TTL. */
uint64_t ten_quarantine_left_ms(const ten_record *quarantine, uint64_t ttl_ms);

#endif
