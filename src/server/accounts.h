/*
 * The accounts of the server: one for each principal; for clients that have not shown a token, or where none is
 * required, one for each address. core/budget.h decides who may have how much; here is who is who, which namespaces are
 * in use and at whose expense, and what the metrics and the log say of it. Used by the HTTP thread alone.
 */
#ifndef TEN_SERVER_ACCOUNTS_H
#define TEN_SERVER_ACCOUNTS_H

#include <sys/socket.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/map.h"
#include "core/budget.h"

typedef struct ten_accounts {
    ten_budget budget;
    bool has_auth;
    ten_map principals; /* name -> entry */
    ten_map addresses;  /* group -> entry; only those that have a connection */
    /* Namespace -> its use: when it was last written to, how many streams it has, its place in the metrics. */
    ten_map uses[TEN_RESOURCE_COUNT];
    ten_account gone; /* what addresses that have left were refused */
    ten_line_gate strangers_limits;
    ten_line_gate strangers_denials;
} ten_accounts;

typedef struct ten_accounts_limits {
    uint64_t connections;
    uint64_t namespaces;
} ten_accounts_limits;

void ten_accounts_open(ten_accounts *accounts, const ten_accounts_limits *limits, bool has_auth);
void ten_accounts_close(ten_accounts *accounts);

/* NULL: out of memory. */
ten_account *ten_accounts_of_principal(ten_accounts *accounts, const char *name);
/* IPv6 counts by /64, loopback and a socket as one address each. It stays until it is left as often as it was asked
 * for. NULL: out of memory. */
ten_account *ten_accounts_of_address(ten_accounts *accounts, const struct sockaddr *address);
void ten_accounts_leave_address(ten_accounts *accounts, ten_account *account);

/* An account writes to a namespace. False: it has begun too many of them already. */
bool ten_accounts_write_to(ten_accounts *accounts, ten_account *account, const char *namespace_name, uint64_t now_ms);
/* A stream of a namespace begins, and ends. */
bool ten_accounts_stream(ten_accounts *accounts, ten_account *account, const char *namespace_name);
void ten_accounts_stream_end(ten_accounts *accounts, const char *namespace_name);
/* Whether the metrics show this namespace, which is in use. */
bool ten_accounts_measure(ten_accounts *accounts, ten_account *account, const char *namespace_name);

/* Logs a refusal, at a bounded rate for each principal. */
void ten_accounts_log_limit(ten_accounts *accounts, ten_account *account, enum ten_resource resource, ten_log *log);
/* The same for a request that was denied. */
void ten_accounts_log_denied(ten_accounts *accounts, ten_account *account, unsigned status, const char *what,
                             ten_log *log);
/* `only`: of this account and of strangers; NULL: of all. */
void ten_accounts_metrics(const ten_accounts *accounts, const ten_account *only, ten_buf *to);

#endif
