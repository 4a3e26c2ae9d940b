/*
 * What every libcurl handle of a store has: no signals, no proxies, TLS 1.2 or newer with verification, and the files
 * that the URL names. Shared by the HTTP and the etcd store.
 */
#ifndef TEN_STORE_CURL_SETUP_H
#define TEN_STORE_CURL_SETUP_H

#include <curl/curl.h>
#include <stdbool.h>

#include "base/url_files.h"

/* Starts libcurl, once in a process. */
void ten_curl_start(void);

/* The headers of a request with JSON, in the place of those in *list; authorization: a token, or NULL. False: no
 * memory. */
bool ten_curl_headers(struct curl_slist **list, const char *authorization);

/* False: libcurl refused an option. */
bool ten_curl_prepare(CURL *easy, const ten_url_files *files);

#endif
