/*
 * What every libcurl handle of a store has: no signals, no proxies, TLS 1.2 or newer with verification, and the files
 * that the URL names. Shared by the HTTP and the etcd store.
 */
#ifndef TEN_STORE_CURL_SETUP_H
#define TEN_STORE_CURL_SETUP_H

#include <curl/curl.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/url.h"

typedef struct ten_curl_files {
    char *ca_file; /* each NULL: not given */
    char *cert_file;
    char *key_file;
} ten_curl_files;

/* Starts libcurl, once in a process. */
void ten_curl_start(void);

/* Copies ca_file, cert_file and key_file out of the URL. */
int ten_curl_files_read(const ten_url *url, ten_curl_files *files, ten_error *error);
void ten_curl_files_free(ten_curl_files *files);

/* False: libcurl refused an option. */
bool ten_curl_prepare(CURL *easy, const ten_curl_files *files);

#endif
