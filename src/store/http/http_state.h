/*
 * The insides of the HTTP store, for its files.
 */
#ifndef TEN_STORE_HTTP_STATE_H
#define TEN_STORE_HTTP_STATE_H

#include <curl/curl.h>
#include <jansson.h>
#include <pthread.h>

#include "base/arena.h"
#include "base/buf.h"
#include "store/common/curl_setup.h"
#include "store/common/stream_watch.h"
#include "store/store.h"

/* How the server is reached; shared with the thread that listens for changes, and never changed. */
typedef struct ten_http_settings {
    char *base; /* http://host:port, or http://localhost for a socket */
    char *socket_path;
    char *token; /* of the bearer; NULL: none */
    ten_url_files files;
} ten_http_settings;

typedef struct ten_http_store {
    ten_store base; /* first */
    ten_http_settings settings;
    CURL *easy;
    struct curl_slist *headers;
    ten_curl_answer got;
    ten_buf out;       /* of the request */
    char cursor[64];   /* the header that says how far the feed was read */
    bool more;         /* a header names the next page */
    uint64_t retry_ms; /* a header says when to try again */
    long status;       /* of the last answer */
    json_t *answer;    /* of the last call: its results point into it */
    ten_arena texts;   /* the same, of answers that were not parsed */
    json_t **kept;     /* of a call of several requests, the earlier ones */
    size_t kept_count;
    ten_stream_watch *watch; /* NULL: nobody watches */
} ten_http_store;

/* http.c */
/* One request. `body` NULL: none. A server that answers 429 is asked again when it wants to be, as long as there is
 * time: it has done nothing yet. On TENURE_OK the status is between 200 and 299, and store->answer is its JSON (NULL:
 * it has none). */
int ten_http_ask(ten_http_store *store, const char *method, const char *path, const char *body, uint64_t deadline_ms);
/* The same; the answer is in store->got.body and is not parsed yet. */
int ten_http_send(ten_http_store *store, const char *method, const char *path, const char *body, uint64_t deadline_ms);
/* Parses that. False: it is not JSON, and the error says so. */
bool ten_http_parse(ten_http_store *store);
/* What the answers of this call have been so far is kept, too, until the next call. */
bool ten_http_keep(ten_http_store *store);
/* A call begins: what earlier answers held is gone. */
void ten_http_begin(ten_http_store *store);
/* Options that every connection has beside those of ten_curl_prepare(). False: curl refused one. */
bool ten_http_prepare(CURL *easy, const ten_http_settings *settings);

/* http_apply.c */
int ten_http_apply(ten_store *store, const ten_op *ops, ten_result *results, size_t count, uint64_t timeout_ms);

/* http_plain.c */
/* The outcomes of a batch in store->got.body, if it is as a Tenure server writes it; their texts are valid until the
 * next call. False: it is something else, or not as many. */
bool ten_http_read_plain(ten_http_store *store, ten_result *results, size_t count);

/* http_read.c */
int ten_http_edit_targets(ten_store *store, const char *namespace_name, ten_target_edit *edits, size_t count,
                          uint64_t timeout_ms);
int ten_http_forget(ten_store *base, const char *namespace_name, ten_forget *items, size_t count, uint64_t timeout_ms);
int ten_http_forget_unregistered(ten_store *base, const char *namespace_name, char after[TENURE_TARGET_MAX + 1],
                                 size_t *ret_forgotten, uint64_t timeout_ms);
int ten_http_list(ten_store *store, const ten_query *query, ten_row_fn each, void *userdata, uint64_t timeout_ms);
int ten_http_read_targets(ten_store *store, const char *namespace_name, const char *const *ids, size_t count,
                          ten_row_fn each, void *userdata, uint64_t timeout_ms);
int ten_http_list_namespaces(ten_store *store, tenure_name_fn each, void *userdata, uint64_t timeout_ms);
int ten_http_list_instances(ten_store *store, const char *namespace_name, ten_instance_fn each, void *userdata,
                            uint64_t timeout_ms);
int ten_http_changes(ten_store *store, const char *namespace_name, uint64_t *cursor, size_t limit, ten_change_fn each,
                     void *userdata, uint64_t timeout_ms);

/* http_watch.c */
int ten_http_watch_open(ten_store *store, const char *namespace_name, int *ret_fd);
void ten_http_watch_clear(ten_store *store);

/* Members of an answer. */
static inline uint64_t ten_http_number(const json_t *object, const char *name) {
    json_int_t number = json_integer_value(json_object_get(object, name));
    return number > 0 ? (uint64_t)number : 0;
}

static inline const char *ten_http_text(const json_t *object, const char *name) {
    return json_string_value(json_object_get(object, name));
}

#endif
