/*
 * One page of a list of targets, by HTTP: a GET with its headers and its limits, in a bounded time. It knows nothing of
 * what the body says. Called by target_http.c, in one thread.
 */
#ifndef TEN_AGENT_HTTP_PAGE_H
#define TEN_AGENT_HTTP_PAGE_H

#include "agent/common/endpoint.h"
#include "agent/common/side_thread.h"
#include "base/buf.h"

typedef struct ten_http_page_client ten_http_page_client;

typedef struct ten_http_page {
    long status;
    ten_buf body;
    ten_buf etag; /* as the server wrote it; empty: none */
    ten_buf next; /* the URL of the next page; empty: this is the last */
} ten_http_page;

int ten_http_page_client_open(const ten_url_files *endpoint, ten_http_page_client **ret_client, ten_error *error);
void ten_http_page_client_close(ten_http_page_client *client);

/* Gets the page at `url`, unless it is still the one with that `etag` (NULL: whatever it is): status 200 or 304. Any
 * other is an error. It ends early when the thread is to stop. The page is to be freed whatever comes of it. */
int ten_http_page_client_get(ten_http_page_client *client, ten_side_thread *thread, const char *url, const char *etag,
                             uint64_t timeout_ms, ten_http_page *page, ten_error *error);
void ten_http_page_free(ten_http_page *page);

/* The URL that a header `Link: VALUE`, of an answer from `base`, calls the next; appends nothing when it names none.
 * TENURE_E_STORE: it is no URL, or on another server than `origin`, and that is not to get our token. */
int ten_http_page_next_link(const char *origin, const char *base, const char *value, ten_buf *next, ten_error *error);

#endif
