/*
 * A store that is made of a backend: ten_store_ops for it. A backend's own file has
 *
 *      const ten_store_ops ten_NAME_ops = TEN_RECORD_STORE("NAME", &backend_ops, .capabilities = {...});
 */
#ifndef TEN_STORE_RECORD_STORE_H
#define TEN_STORE_RECORD_STORE_H

#include "store/apply.h"
#include "store/forgetting.h"

int ten_record_store_open(ten_store *base, const ten_url *url, uint64_t timeout_ms);
void ten_record_store_close(ten_store *base);
int ten_record_store_edit_targets(ten_store *base, const char *namespace_name, ten_target_edit *edits, size_t count,
                                  uint64_t timeout_ms);
int ten_record_store_list(ten_store *base, const ten_query *query, ten_row_fn each, void *userdata,
                          uint64_t timeout_ms);
int ten_record_store_read_targets(ten_store *base, const char *namespace_name, const char *const *ids, size_t count,
                                  ten_row_fn each, void *userdata, uint64_t timeout_ms);
int ten_record_store_list_instances(ten_store *base, const char *namespace_name, ten_instance_fn each, void *userdata,
                                    uint64_t timeout_ms);
int ten_record_store_list_namespaces(ten_store *base, tenure_name_fn each, void *userdata, uint64_t timeout_ms);
int ten_record_store_changes(ten_store *base, const char *namespace_name, uint64_t *cursor, size_t limit,
                             ten_change_fn each, void *userdata, uint64_t timeout_ms);
int ten_record_store_watch(ten_store *base, const char *namespace_name, int *ret_fd);
void ten_record_store_watch_clear(ten_store *base);
int ten_record_store_ping(ten_store *base, uint64_t timeout_ms);
int ten_record_store_check(ten_store *base, tenure_check_fn each, void *userdata, uint64_t timeout_ms);

#define TEN_RECORD_STORE(store_name, backend_ops, ...)                                                                 \
    {                                                                                                                  \
        .name = store_name, .size = sizeof(ten_record_store), .backend = backend_ops, .open = ten_record_store_open,   \
        .close = ten_record_store_close, .apply = ten_apply, .edit_targets = ten_record_store_edit_targets,            \
        .forget = ten_forgetting_forget, .list = ten_record_store_list, .read_targets = ten_record_store_read_targets, \
        .list_instances = ten_record_store_list_instances, .list_namespaces = ten_record_store_list_namespaces,        \
        .changes = ten_record_store_changes, .watch = ten_record_store_watch,                                          \
        .watch_clear = ten_record_store_watch_clear, .ping = ten_record_store_ping, .recovery = ten_apply_recovery,    \
        .check = ten_record_store_check, __VA_ARGS__                                                                   \
    }

#endif
