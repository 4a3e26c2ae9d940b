/*
 * What a heartbeat, a leave or a request does to one instance's entry, as a pure function; the counterpart of
 * lease_row.h.
 */
#ifndef TEN_RULES_INSTANCE_ROW_H
#define TEN_RULES_INSTANCE_ROW_H

#include "base/buf.h"
#include "rules/op.h"
#include "rules/record.h"

#define TEN_METADATA_MAX 4096u /* bytes of what an instance says of itself */
/* So long a store remembers an instance that has expired: since when are the leases of its session free? */
#define TEN_INSTANCE_KEPT_MS UINT64_C(3600000)

typedef struct ten_instance_row {
    bool exists;
    bool gone; /* it is a tombstone */
    uint32_t weight;
    uint64_t ttl_ms;
    uint64_t ends_ms;  /* boot clock */
    uint64_t since_ms; /* Unix time */
    enum ten_ask ask;
    /* The session on which leases hang. It lives on when the instance has left, until its end: whoever left may still
     * believe. */
    uint64_t session;         /* its number, another one for each session that the store ever had; 0: none */
    uint64_t session_ends_ms; /* boot clock */
    uint64_t session_version;
} ten_instance_row;

/* A session, as a lease that hangs on it sees it. */
typedef struct ten_session {
    uint64_t id; /* 0: none, or it has ended */
    uint64_t ends_ms;
    uint64_t ttl_ms;
} ten_session;

typedef struct ten_instance_effect {
    ten_life life; /* of a row that changed */
    bool row_changed;
    bool row_removed;
    bool changed; /* `change` goes into the feed */
    enum tenure_event_kind change;
    enum ten_reason reason;
} ten_instance_effect;

/* Applies an announce, a leave or (without a target) an ask. `metadata_differs`: the announce brings other metadata
 * than the entry has. `fleet_ttl_ms`: the TTL of another live instance of the namespace, or 0; it matters only when the
 * instance joins. `next_session`: the number for a session that begins now; 0: the
 * store has none. */
void ten_instance_row_apply(ten_instance_row *row, const ten_op *op, uint64_t now_ms, uint64_t wall_ms,
                            bool metadata_differs, uint64_t fleet_ttl_ms, uint64_t next_session, ten_result *result,
                            ten_instance_effect *effect);

bool ten_instance_row_is_live(const ten_instance_row *row, uint64_t now_ms);
/* For how long leases may be handed over to it: until its heartbeat ends. 0: not at all, it is gone or draining. */
uint64_t ten_instance_row_ready_ms(const ten_instance_row *row, uint64_t now_ms);
/* Whether late requests of a dead process have to be refused. */
bool ten_instance_row_is_tombstone(const ten_instance_row *row, uint64_t now_ms);
/* Whether the row is needed no more. */
bool ten_instance_row_is_over(const ten_instance_row *row, uint64_t now_ms);

/* Its session at that moment. */
ten_session ten_instance_row_session(const ten_instance_row *row, uint64_t now_ms);
/* When the lease that hangs on that session of the instance ends or has ended; 0: before, it is not known when. */
uint64_t ten_instance_row_session_end_ms(const ten_instance_row *row, uint64_t session);
/* What a heartbeat reports as the version: it changes with every epoch, too. epoch_ms: when that began, or when its
 * quarantine ends. */
uint64_t ten_instance_row_reported_version(const ten_instance_row *row, uint64_t token_floor, uint64_t epoch_ms);

/* The row that a record has. Instance and session end together there; what has left has no end but that of its session.
 * *ret_metadata: points into `texts`; "": none. False: the record is damaged. */
bool ten_instance_row_read(const ten_record *record, uint64_t now_ms, uint64_t wall_ms, ten_instance_row *row,
                           const char **ret_metadata, ten_buf *texts);
/* Its value. The number is the weight; the name is the instance, or "" for one that is gone. */
void ten_instance_row_write(ten_buf *value, const char *old, const ten_instance_row *row, uint64_t now_ms,
                            uint64_t wall_ms, const char *metadata);
/* Nobody has heard of it since its end: it has left, and its session never comes back. */
void ten_instance_row_expire(ten_instance_row *row);

#endif
