/*
 * Requests to an etcd cluster by its HTTP/JSON gateway: several in flight, to one member at a time, and to the next
 * when that one does not answer. It knows nothing of records; etcd_commit.c and its neighbours say what is asked.
 */
#ifndef TEN_STORE_ETCD_LINK_H
#define TEN_STORE_ETCD_LINK_H

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/error.h"
#include "store/etcd/etcd_settings.h"

typedef struct ten_etcd_link ten_etcd_link;

/* Who answered, and how far it was. Two answers of the same member with the same term: the leader was the same
 * throughout. */
typedef struct ten_etcd_head {
    uint64_t cluster;
    uint64_t member;
    uint64_t term;
    uint64_t revision;
} ten_etcd_head;

typedef struct ten_etcd_call {
    const char *path; /* "/v3/kv/txn"; a GET when there is no body */
    const char *body;
    uint64_t lease; /* not 0: the body names this etcd lease */
    bool once;      /* never sent again when it may have arrived */
    /* results: */
    int error;      /* TENURE_OK, or why it failed: TENURE_E_GONE for a lease that is not there any more */
    json_t *answer; /* of TENURE_OK; the caller's */
    ten_etcd_head head;
    long server_time_s; /* Unix time by the member's clock; 0: not said */
    /* the link's own: */
    const char *endpoint; /* NULL: the one in use */
    bool pending;
    unsigned ending;
} ten_etcd_call;

int ten_etcd_link_open(const ten_etcd_settings *settings, ten_etcd_link **ret_link, ten_error *error);
void ten_etcd_link_close(ten_etcd_link *link);

/* Carries them all out. TENURE_OK: each has an answer, or TENURE_E_GONE. Else the first error, with its message. */
int ten_etcd_perform(ten_etcd_link *link, ten_etcd_call *calls, size_t count, uint64_t deadline_ms, ten_error *error);
/* One call to the member in use, and to no other. */
int ten_etcd_perform_here(ten_etcd_link *link, ten_etcd_call *call, uint64_t deadline_ms, ten_error *error);
void ten_etcd_calls_free(ten_etcd_call *calls, size_t count);

/* The member in use (for people, and for whoever listens to the same), and the next one from now on. */
const char *ten_etcd_endpoint(const ten_etcd_link *link);
void ten_etcd_next_endpoint(ten_etcd_link *link);

/* How many connections were made, but for requests that always need their own: behind a new one there may be another
 * etcd than before. */
uint64_t ten_etcd_connections(const ten_etcd_link *link);

/* The token for the header `Authorization`, got if need be; NULL: none is needed, or it could not be had. */
const char *ten_etcd_token(ten_etcd_link *link, uint64_t deadline_ms, ten_error *error);

/* Whether its user, if it has one, was let in. */
bool ten_etcd_is_known(const ten_etcd_link *link);
void ten_etcd_forget_token(ten_etcd_link *link);

/* A number of an answer: etcd writes 64 bits as text. */
uint64_t ten_etcd_number(const json_t *object, const char *name);

#endif
