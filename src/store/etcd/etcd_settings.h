/*
 * How an etcd cluster is reached, from a URL: etcd://[user[:password]@]host:port[,host:port...][/PREFIX][?option=...].
 */
#ifndef TEN_STORE_ETCD_SETTINGS_H
#define TEN_STORE_ETCD_SETTINGS_H

#include "store/common/curl_setup.h"

#define TEN_ETCD_ENDPOINTS_MAX 16u
#define TEN_ETCD_PREFIX_MAX    128u

typedef struct ten_etcd_settings {
    char *endpoints[TEN_ETCD_ENDPOINTS_MAX]; /* http://host:port */
    size_t endpoint_count;
    char prefix[TEN_ETCD_PREFIX_MAX + 1]; /* of every key, without a slash at either end */
    char *user;                           /* NULL: no authentication */
    char *password;
    ten_url_files files;
} ten_etcd_settings;

int ten_etcd_settings_read(const ten_url *url, ten_etcd_settings *settings, ten_error *error);
void ten_etcd_settings_free(ten_etcd_settings *settings);

#endif
