/*
 * What every libcurl handle of a store has: no signals, no proxies, TLS 1.2 or newer with verification, and the files
 * that the URL names. Shared by the HTTP and the etcd store.
 */
#ifndef TEN_STORE_CURL_SETUP_H
#define TEN_STORE_CURL_SETUP_H

#include <curl/curl.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/url_files.h"

/* Starts libcurl, once in a process. */
void ten_curl_start(void);

/* The headers of a request with JSON, in the place of those in *list; authorization: a token, or NULL. False: no
 * memory. */
bool ten_curl_headers(struct curl_slist **list, const char *authorization);

/* False: libcurl refused an option. */
bool ten_curl_prepare(CURL *easy, const ten_url_files *files);

/* What a handle has got by its last request. */
typedef struct ten_curl_answer {
    ten_buf body; /* up to 64 MiB */
    char detail[CURL_ERROR_SIZE];
} ten_curl_answer;

/* A handle for requests, with its answers and what takes their headers. NULL: libcurl refused it. */
CURL *ten_curl_open(const ten_url_files *files, ten_curl_answer *answer, curl_write_callback take_header,
                    void *userdata);
/* The next request is this; body NULL: a GET. The body is not copied. */
bool ten_curl_aim(CURL *easy, ten_curl_answer *answer, const char *url, const char *body, uint64_t timeout_ms);
/* It failed with that code. */
int ten_curl_fail(const ten_curl_answer *answer, CURLcode code, const char *server, ten_error *error);

#endif
