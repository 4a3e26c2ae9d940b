/*
 * The ops tables of the backends, for store.c. A new backend adds a line here, one in store.c, and one in meson.build.
 */
#ifndef TEN_STORE_BACKENDS_H
#define TEN_STORE_BACKENDS_H

#include "store/store.h"

extern const ten_store_ops ten_etcd_ops;
extern const ten_store_ops ten_http_ops;
extern const ten_store_ops ten_memory_ops;
extern const ten_store_ops ten_postgres_ops;
extern const ten_store_ops ten_redis_ops;
extern const ten_store_ops ten_sqlite_ops;

#endif
