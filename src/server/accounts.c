/*
 * See accounts.h. Called by connections.c and request.c.
 */
#include "server/accounts.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/metric.h"

#define MEMORY_MAX         ((uint64_t)96 * 1024 * 1024)
#define MEMORY_RESERVE     ((uint64_t)16 * 1024 * 1024)
#define STREAMS_MAX        1000u
#define FEEDS_MAX          64u /* as many as events.c follows */
#define GAUGES_MAX         64u /* as many as gauges.c has */
#define WAITING_MAX        20000u
#define WAITING_RESERVE    40000u
#define CONNECTION_RESERVE 16u /* one part in so many of all */
#define WRITTEN_MS         (UINT64_C(3600) * 1000)
#define ADDRESSES_KEPT     1000u
#define LINE_EVERY_MS      10000u

/* An account comes first: a pointer to it is one to its entry. */
struct entry {
    ten_account account;
    ten_line_gate limits;
    ten_line_gate denials;
    size_t connections; /* of an address */
    char group[INET6_ADDRSTRLEN + 8];
};

/* What is done with a namespace, at the expense of the account that began it. */
struct use {
    ten_grant grant;
    size_t count;
    uint64_t at_ms;
};

void ten_accounts_open(ten_accounts *accounts, const ten_accounts_limits *limits, bool has_auth) {
    *accounts = (ten_accounts){.has_auth = has_auth, .gone = {.name = "unauthenticated"}};
    ten_budget_rule rules[TEN_RESOURCE_COUNT] = {
        [TEN_RESOURCE_CONNECTIONS] = {.total = limits->connections,
                                      .reserve = limits->connections / CONNECTION_RESERVE,
                                      .factor = 4},
        [TEN_RESOURCE_MEMORY] = {.total = MEMORY_MAX, .reserve = MEMORY_RESERVE, .factor = 2},
        [TEN_RESOURCE_STREAMS] = {.total = STREAMS_MAX, .factor = 4},
        [TEN_RESOURCE_NAMESPACES] = {.total = limits->namespaces, .factor = 1},
        [TEN_RESOURCE_FEEDS] = {.total = FEEDS_MAX, .factor = 1},
        [TEN_RESOURCE_GAUGES] = {.total = GAUGES_MAX, .factor = 1},
        [TEN_RESOURCE_WAITING] = {.total = WAITING_MAX, .reserve = WAITING_RESERVE, .factor = 4},
    };
    ten_budget_init(&accounts->budget, rules);
}

static void free_values(ten_map *map) {
    size_t at = 0;
    for (const ten_map_entry *entry; (entry = ten_map_next(map, &at));)
        ten_free(entry->value);
    ten_map_free(map);
}

void ten_accounts_close(ten_accounts *accounts) {
    free_values(&accounts->principals);
    free_values(&accounts->addresses);
    for (size_t i = 0; i < TEN_RESOURCE_COUNT; i++)
        free_values(&accounts->uses[i]);
}

/* ---- who is who */

static struct entry *find_or_add(ten_map *map, const char *key, const char *name, bool stranger) {
    struct entry *entry = ten_map_get(map, key);
    if (entry)
        return entry;
    entry = ten_calloc(1, sizeof *entry);
    if (!entry)
        return NULL;
    snprintf(entry->account.name, sizeof entry->account.name, "%s", name);
    snprintf(entry->group, sizeof entry->group, "%s", key);
    entry->account.stranger = stranger;
    if (ten_map_put(map, key, entry))
        return entry;
    ten_free(entry);
    return NULL;
}

ten_account *ten_accounts_of_principal(ten_accounts *accounts, const char *name) {
    struct entry *entry = find_or_add(&accounts->principals, name, name, false);
    return entry ? &entry->account : NULL;
}

static void write_group(const struct sockaddr *address, char group[INET6_ADDRSTRLEN + 8]) {
    struct in6_addr network = {0};
    struct in_addr plain = {0};
    snprintf(group, INET6_ADDRSTRLEN + 8, "socket");
    if (!address || (address->sa_family != AF_INET && address->sa_family != AF_INET6))
        return;
    bool is_plain = address->sa_family == AF_INET;
    if (is_plain) {
        plain = ((const struct sockaddr_in *)address)->sin_addr;
    } else {
        network = ((const struct sockaddr_in6 *)address)->sin6_addr;
        is_plain = IN6_IS_ADDR_V4MAPPED(&network);
        if (is_plain)
            memcpy(&plain, &network.s6_addr[12], sizeof plain);
    }
    if (is_plain ? ntohl(plain.s_addr) >> 24 == 127 : IN6_IS_ADDR_LOOPBACK(&network)) {
        snprintf(group, INET6_ADDRSTRLEN + 8, "loopback");
    } else if (is_plain) {
        (void)inet_ntop(AF_INET, &plain, group, INET6_ADDRSTRLEN);
    } else {
        memset(&network.s6_addr[8], 0, 8);
        (void)inet_ntop(AF_INET6, &network, group, INET6_ADDRSTRLEN);
    }
}

ten_account *ten_accounts_of_address(ten_accounts *accounts, const struct sockaddr *address) {
    char group[INET6_ADDRSTRLEN + 8];
    write_group(address, group);
    struct entry *entry = find_or_add(&accounts->addresses, group, accounts->has_auth ? "unauthenticated" : "everybody",
                                      accounts->has_auth);
    if (!entry)
        return NULL;
    entry->connections++;
    return &entry->account;
}

/* What its requests had was returned with them; its namespaces are charged to those who write to them next. */
static void disown(ten_accounts *accounts, enum ten_resource resource, const ten_account *account) {
    size_t at = 0;
    for (const ten_map_entry *found; (found = ten_map_next(&accounts->uses[resource], &at));) {
        struct use *use = found->value;
        if (use->grant.account == account)
            ten_budget_return(&accounts->budget, &use->grant, resource);
    }
}

void ten_accounts_leave_address(ten_accounts *accounts, ten_account *account) {
    struct entry *entry = (struct entry *)account;
    if (!entry || --entry->connections > 0)
        return;
    /* What it has used is remembered: else the namespaces that it began would be charged to the next one that uses
     * them. */
    if (!account->stranger && accounts->addresses.count <= ADDRESSES_KEPT)
        return;
    for (size_t i = 0; i < TEN_RESOURCE_COUNT; i++) {
        disown(accounts, (enum ten_resource)i, account);
        accounts->gone.refused[i] += account->refused[i];
    }
    (void)ten_map_remove(&accounts->addresses, entry->group);
    ten_free(entry);
}

/* ---- namespaces */

/* The account is charged for a use that begins. NULL: it has its share of them. */
static struct use *use_namespace(ten_accounts *accounts, enum ten_resource resource, const char *namespace_name,
                                 ten_account *account) {
    ten_map *uses = &accounts->uses[resource];
    struct use *use = ten_map_get(uses, namespace_name);
    ten_grant grant = {0};
    if (use || !ten_budget_resize(&accounts->budget, &grant, account, resource, 1, TEN_USUAL))
        return use;
    use = ten_calloc(1, sizeof *use);
    if (use && ten_map_put(uses, namespace_name, use)) {
        use->grant = grant;
        return use;
    }
    ten_free(use);
    ten_budget_return(&accounts->budget, &grant, resource);
    return NULL;
}

static void end_use(ten_accounts *accounts, enum ten_resource resource, const char *namespace_name) {
    struct use *use = ten_map_remove(&accounts->uses[resource], namespace_name);
    if (use)
        ten_budget_return(&accounts->budget, &use->grant, resource);
    ten_free(use);
}

/* One that was last written to long ago. */
static const char *find_old(const ten_accounts *accounts, uint64_t now_ms) {
    size_t at = 0;
    for (const ten_map_entry *found; (found = ten_map_next(&accounts->uses[TEN_RESOURCE_NAMESPACES], &at));)
        if (now_ms - ((struct use *)found->value)->at_ms > WRITTEN_MS)
            return found->key;
    return NULL;
}

static void forget_old(ten_accounts *accounts, uint64_t now_ms) {
    char name[TENURE_NAMESPACE_MAX + 1];
    for (const char *old; (old = find_old(accounts, now_ms));) {
        snprintf(name, sizeof name, "%s", old);
        end_use(accounts, TEN_RESOURCE_NAMESPACES, name);
    }
}

bool ten_accounts_write_to(ten_accounts *accounts, ten_account *account, const char *namespace_name, uint64_t now_ms) {
    if (!ten_map_get(&accounts->uses[TEN_RESOURCE_NAMESPACES], namespace_name) &&
        !ten_budget_has_room(&accounts->budget, account, TEN_RESOURCE_NAMESPACES, 1, TEN_USUAL))
        forget_old(accounts, now_ms);
    struct use *use = use_namespace(accounts, TEN_RESOURCE_NAMESPACES, namespace_name, account);
    if (use)
        use->at_ms = now_ms;
    return use != NULL;
}

bool ten_accounts_stream(ten_accounts *accounts, ten_account *account, const char *namespace_name) {
    struct use *use = use_namespace(accounts, TEN_RESOURCE_FEEDS, namespace_name, account);
    if (use)
        use->count++;
    return use != NULL;
}

void ten_accounts_stream_end(ten_accounts *accounts, const char *namespace_name) {
    struct use *use = ten_map_get(&accounts->uses[TEN_RESOURCE_FEEDS], namespace_name);
    if (use && --use->count == 0)
        end_use(accounts, TEN_RESOURCE_FEEDS, namespace_name);
}

bool ten_accounts_measure(ten_accounts *accounts, ten_account *account, const char *namespace_name) {
    return namespace_name[0] != '\0' && use_namespace(accounts, TEN_RESOURCE_GAUGES, namespace_name, account);
}

/* ---- what is said of it */

static ten_line_gate *gate_of(ten_accounts *accounts, ten_account *account, bool denial) {
    if (account->stranger) /* one for all of them: addresses are many */
        return denial ? &accounts->strangers_denials : &accounts->strangers_limits;
    struct entry *entry = (struct entry *)account;
    return denial ? &entry->denials : &entry->limits;
}

void ten_accounts_log_limit(ten_accounts *accounts, ten_account *account, enum ten_resource resource, ten_log *log) {
    uint64_t missed;
    if (ten_line_gate_pass(gate_of(accounts, account, false), LINE_EVERY_MS, ten_now_ms(), &missed))
        TEN_LOG(log, TEN_LOG_WARN, "limit_reached", TEN_TEXT("principal", account->name),
                TEN_TEXT("limit", ten_resource_name(resource)), TEN_NUMBER("more", missed));
}

void ten_accounts_log_denied(ten_accounts *accounts, ten_account *account, unsigned status, const char *what,
                             ten_log *log) {
    uint64_t missed;
    if (ten_line_gate_pass(gate_of(accounts, account, true), LINE_EVERY_MS, ten_now_ms(), &missed))
        TEN_LOG(log, TEN_LOG_WARN, "request_denied", TEN_TEXT("principal", account->name), TEN_NUMBER("status", status),
                TEN_TEXT("request", what), TEN_NUMBER("more", missed));
}

static void add_account(ten_account *sum, const ten_account *account) {
    for (size_t i = 0; i < TEN_RESOURCE_COUNT; i++) {
        sum->used[i] += account->used[i] + account->reserved[i];
        sum->refused[i] += account->refused[i];
    }
}

static void write_one(ten_buf *to, const ten_account *account, bool refused) {
    for (size_t i = 0; i < TEN_RESOURCE_COUNT; i++) {
        if (i == TEN_RESOURCE_TIME && !refused)
            continue;
        ten_buf_text(to, refused ? "tenure_principal_refused_total{" : "tenure_principal_used{");
        ten_metric_label(to, "principal", account->name);
        ten_buf_format(to, ",limit=\"%s\"} %llu\n", ten_resource_name((enum ten_resource)i),
                       (unsigned long long)(refused ? account->refused : account->used)[i]);
    }
}

static void write_each(const ten_accounts *accounts, const ten_account *only, ten_buf *to, bool refused) {
    ten_account sum = accounts->gone;
    snprintf(sum.name, sizeof sum.name, "%s", accounts->has_auth ? "unauthenticated" : "everybody");
    size_t at = 0;
    for (const ten_map_entry *found; (found = ten_map_next(&accounts->addresses, &at));)
        add_account(&sum, &((struct entry *)found->value)->account);
    write_one(to, &sum, refused);
    at = 0;
    for (const ten_map_entry *found; (found = ten_map_next(&accounts->principals, &at));) {
        ten_account account = {0};
        const ten_account *ours = &((struct entry *)found->value)->account;
        add_account(&account, ours);
        snprintf(account.name, sizeof account.name, "%s", ours->name);
        if (!only || only == ours)
            write_one(to, &account, refused);
    }
}

void ten_accounts_metrics(const ten_accounts *accounts, const ten_account *only, ten_buf *to) {
    ten_metric_head(to, "tenure_principal_used", "gauge", "What a principal uses of the server.");
    write_each(accounts, only, to, false);
    ten_metric_head(to, "tenure_principal_refused_total", "counter",
                    "What was refused because a principal had its share.");
    write_each(accounts, only, to, true);
}
