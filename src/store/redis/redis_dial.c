/*
 * Finding a Redis server and connecting to it: names, addresses, Sentinels, and what the server says of itself. See
 * redis_link.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/random.h"
#include "base/utf8.h"
#include "store/redis/redis_link_state.h"

#define PASSWORD_SIZE   16384u /* some are tokens that somebody signed */
#define KEEPALIVE_S     10
#define USER_TIMEOUT_MS 10000u
#define FULL_US         5000u

/* ---- sockets ------------------------------------------------------------------------------------------- */

/* All of them help, none is needed: a server that vanished is noticed by the calls' own deadlines in any case. */
static void tune(int fd) {
    static const int options[][3] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_S},
        {IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_S},
        {IPPROTO_TCP, TCP_USER_TIMEOUT, USER_TIMEOUT_MS},
    };
    for (size_t i = 0; i < TEN_COUNT(options); i++)
        (void)setsockopt(fd, options[i][0], options[i][1], &options[i][2], sizeof options[i][2]);
}

static int wait_connected(int fd, uint64_t deadline_ms) {
    int failure = 0;
    socklen_t size = sizeof failure;
    int ready = ten_wait_events(fd, POLLOUT, deadline_ms);
    if (ready <= 0)
        return ready == 0 ? ETIMEDOUT : -ready;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size) == 0 ? failure : errno;
}

/* Where nobody listens, a system that picks our own port at random may pick just that one, and we meet ourselves. */
static bool is_ourselves(int fd) {
    struct sockaddr_storage here = {0};
    struct sockaddr_storage there = {0};
    socklen_t here_size = sizeof here;
    socklen_t there_size = sizeof there;
    return getsockname(fd, (struct sockaddr *)&here, &here_size) == 0 &&
           getpeername(fd, (struct sockaddr *)&there, &there_size) == 0 && here.ss_family != AF_UNIX &&
           here_size == there_size && memcmp(&here, &there, here_size) == 0;
}

/* Starts the connection; 0, or an errno. */
static int start_connecting(int fd, const ten_address *to, uint64_t deadline_ms) {
    for (;;) {
        int failure = connect(fd, (const struct sockaddr *)&to->address, to->size) == 0 ? 0 : errno;
        /* A Unix socket whose queue is full: its server is busy or stopped. There is nothing to wait on. */
        if (failure != EAGAIN || to->address.ss_family != AF_UNIX)
            return failure;
        if (ten_now_ms() >= deadline_ms)
            return ETIMEDOUT;
        ten_sleep_us(FULL_US);
    }
}

/* A connected socket, or a negative errno. */
static int connect_to(const ten_address *to, uint64_t deadline_ms) {
    int fd = socket(to->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    tune(fd);
    int failure = start_connecting(fd, to, deadline_ms);
    if (failure == EINPROGRESS || failure == EINTR)
        failure = wait_connected(fd, deadline_ms);
    if (failure == 0 && is_ourselves(fd))
        failure = ECONNREFUSED;
    if (failure == 0)
        return fd;
    close(fd);
    return -failure;
}

static int cannot_reach(const char *name, int failure, ten_error *error) {
    if (failure == ETIMEDOUT)
        return ten_fail(error, TENURE_E_TIMEOUT, "%s did not answer in time", name);
    return ten_fail_errno(error, failure == EMFILE || failure == ENFILE ? TENURE_E_SYSTEM : TENURE_E_UNREACHABLE,
                          failure, "cannot reach %s", name);
}

/* Each address in turn; the time that is left is shared, so that one that swallows everything does not eat it all.
 * host: whose certificate is expected; name: for messages. */
static int dial(ten_redis_settings *settings, const ten_addresses *addresses, const char *host, const char *name,
                uint64_t deadline_ms, ten_redis_link **ret_link, ten_error *error) {
    int fd = -EHOSTUNREACH;
    size_t tried = 0;
    for (; tried < addresses->count && fd < 0; tried++) {
        uint64_t now_ms = ten_now_ms();
        uint64_t part_ms = ten_sub_saturating(deadline_ms, now_ms) / (addresses->count - tried);
        fd = connect_to(&addresses->at[tried], ten_add_saturating(now_ms, part_ms));
    }
    if (fd < 0)
        return cannot_reach(name, -fd, error);
    int r = ten_redis_link_make(settings, fd, host, name, deadline_ms, ret_link, error);
    if (r == TENURE_OK)
        (*ret_link)->address = addresses->at[tried - 1];
    return r;
}

/* The host's addresses: asked for anew each time, because they change at a failover, but the last good answer serves
 * when the resolver does not. */
static int find_addresses(ten_redis_host *host, uint64_t deadline_ms, ten_error *error) {
    uint64_t now_ms = ten_now_ms();
    uint64_t left_ms = ten_sub_saturating(deadline_ms, now_ms);
    ten_addresses found;
    uint64_t part_ms = host->known.count ? left_ms / 4 : left_ms;
    int r = ten_resolve(host->name, host->port, ten_add_saturating(now_ms, part_ms), &found, error);
    if (r == TENURE_OK)
        host->known = found;
    return host->known.count ? TENURE_OK : r;
}

/* Connected to the host; `kind` is what it is called before its address. */
static int dial_host(ten_redis_settings *settings, ten_redis_host *host, const char *kind, uint64_t deadline_ms,
                     ten_redis_link **ret_link, ten_error *error) {
    char name[TEN_REDIS_HOST_SIZE + 64];
    snprintf(name, sizeof name, strchr(host->name, ':') ? "%s[%s]:%u" : "%s%s:%u", kind, host->name, host->port);
    int r = find_addresses(host, deadline_ms, error);
    return r < 0 ? r : dial(settings, &host->known, host->name, name, deadline_ms, ret_link, error);
}

static int dial_server(ten_redis_settings *settings, ten_redis_host *host, uint64_t deadline_ms,
                       ten_redis_link **ret_link, ten_error *error) {
    return dial_host(settings, host, settings->tls ? "rediss://" : "redis://", deadline_ms, ret_link, error);
}

static int dial_socket(ten_redis_settings *settings, uint64_t deadline_ms, ten_redis_link **ret_link,
                       ten_error *error) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    ten_addresses one = {.at[0].size = sizeof address, .count = 1};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", settings->socket_path);
    memcpy(&one.at[0].address, &address, sizeof address);
    return dial(settings, &one, "localhost", settings->name, deadline_ms, ret_link, error);
}

/* ---- what the server says ------------------------------------------------------------------------------ */

/* The commands that open a conversation, all sent before the first answer is read. */
enum opening {
    AUTH,
    SELECT,
    INFO,
    SETNAME, /* last: a refusal of it is none, and must not hide that of a server that refuses everybody */
    OPENINGS
};

/* From the file each time, so that a password can be changed without a restart. */
static int read_password(const char *path, char *password, size_t size, ten_error *error) {
    ssize_t count = ten_read_line(path, password, size);
    if (count < 0)
        return ten_fail_errno(error, TENURE_E_DENIED, (int)-count, "password_file=%s cannot be read", path);
    if (count == 0 || (size_t)count == size - 1)
        return ten_fail(error, TENURE_E_DENIED, "password_file=%s has no password in its first line%s", path,
                        count ? ", which is too long" : "");
    return TENURE_OK;
}

static int send_auth(const ten_redis_settings *settings, ten_redis_link *link, ten_error *error) {
    char read[PASSWORD_SIZE];
    const char *password = settings->password;
    int r = TENURE_OK;
    if (settings->files.secret_file) {
        r = read_password(settings->files.secret_file, read, sizeof read, error);
        password = read;
    }
    const char *const words[] = {"AUTH", settings->user ? settings->user : password, password};
    if (r == TENURE_OK)
        r = ten_redis_link_send(link, settings->user ? 3 : 2, words, NULL, error);
    explicit_bzero(read, sizeof read);
    return r;
}

static bool has_password(const ten_redis_settings *settings) {
    return settings->password || settings->files.secret_file;
}

/* Sends what applies; `sent` says what was. */
static int send_opening(const ten_redis_settings *settings, ten_redis_link *link, bool sent[OPENINGS],
                        ten_error *error) {
    char database[24];
    int r = TENURE_OK;
    snprintf(database, sizeof database, "%llu", (unsigned long long)settings->database);
    sent[AUTH] = has_password(settings);
    sent[SELECT] = settings->database != 0;
    if (sent[AUTH])
        r = send_auth(settings, link, error);
    if (r == TENURE_OK && sent[SELECT])
        r = ten_redis_link_send(link, 2, (const char *const[]){"SELECT", database}, NULL, error);
    if (r == TENURE_OK)
        r = ten_redis_link_send(link, 1, (const char *const[]){"INFO"}, NULL, error);
    if (r == TENURE_OK)
        r = ten_redis_link_send(link, 3, (const char *const[]){"CLIENT", "SETNAME", "tenure"}, NULL, error);
    return r;
}

/* The value of a field of INFO, up to the end of its line, fit to be shown; "" when there is none. */
static void info_text(const char *info, const char *field, char *value, size_t size) {
    size_t field_size = strlen(field);
    value[0] = '\0';
    for (const char *at = info; at && *at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL) {
        if (strncmp(at, field, field_size) != 0 || at[field_size] != ':')
            continue;
        snprintf(value, size, "%.*s", (int)strcspn(at + field_size + 1, "\r\n"), at + field_size + 1);
        for (char *c = value; *c; c++)
            *c = *c < ' ' || *c > '~' ? '?' : *c;
        return;
    }
}

static uint64_t info_number(const char *info, const char *field) {
    char value[32];
    info_text(info, field, value, sizeof value);
    return strtoull(value, NULL, 10);
}

static bool info_says(const char *info, const char *field, const char *expected) {
    char value[32];
    info_text(info, field, value, sizeof value);
    return strcmp(value, expected) == 0;
}

static void take_info(const char *info, ten_redis_server *server) {
    info_text(info, "redis_version", server->version, sizeof server->version);
    info_text(info, "run_id", server->run_id, sizeof server->run_id);
    info_text(info, "maxmemory_policy", server->eviction, sizeof server->eviction);
    server->maxmemory = info_number(info, "maxmemory");
    server->replicas = (unsigned)info_number(info, "connected_slaves");
    server->is_replica = info_says(info, "role", "slave");
    server->is_cluster = info_says(info, "redis_mode", "cluster") || info_says(info, "cluster_enabled", "1");
    server->is_loading = info_says(info, "loading", "1");
    server->saves = info_says(info, "aof_enabled", "1");
}

static int take_opening(const ten_redis_settings *settings, ten_redis_link *link, enum opening what,
                        uint64_t deadline_ms, ten_error *error) {
    static const char *const names[OPENINGS] = {"AUTH", "SELECT", "INFO", "CLIENT"};
    TEN_CLEANUP(ten_redis_free_reply) redisReply *reply = NULL;
    int r = ten_redis_link_receive(link, deadline_ms, &reply, error);
    if (r < 0)
        return r;
    if (reply->type == REDIS_REPLY_ERROR && what != SETNAME) {
        char doing[TEN_REDIS_HOST_SIZE + 128];
        int size = snprintf(doing, sizeof doing, "%s refused %s", link->name, names[what]);
        if (what == SELECT)
            snprintf(doing + size, sizeof doing - (size_t)size, " %llu", (unsigned long long)settings->database);
        r = ten_redis_refusal(reply, doing, error);
        if (r == TENURE_E_STORE && what == AUTH) /* "ERR AUTH <password> called without any password configured" */
            error->code = r = TENURE_E_DENIED;
    } else if (reply->type == REDIS_REPLY_STRING && what == INFO) {
        take_info(reply->str, &link->server);
    }
    return r;
}

static int open_conversation(const ten_redis_settings *settings, ten_redis_link *link, uint64_t deadline_ms,
                             ten_error *error) {
    bool sent[OPENINGS] = {[INFO] = true, [SETNAME] = true};
    int r = send_opening(settings, link, sent, error);
    for (unsigned i = 0; r == TENURE_OK && i < OPENINGS; i++)
        if (sent[i])
            r = take_opening(settings, link, (enum opening)i, deadline_ms, error);
    ten_address_show((const struct sockaddr *)&link->address.address, link->address.size, link->server.address,
                     sizeof link->server.address);
    return r;
}

static int check_fitness(const ten_redis_link *link, ten_error *error) {
    const ten_redis_server *server = &link->server;
    if (server->is_cluster)
        return ten_fail(error, TENURE_E_UNSUPPORTED,
                        "%s is a Redis Cluster; Tenure needs a single Redis for now (with replicas, if you like)",
                        link->name);
    if (atoi(server->version) < 6)
        return ten_fail(error, TENURE_E_UNSUPPORTED, "%s is Redis %s; leases need 6.0 or later", link->name,
                        server->version[0] ? server->version : "of an unknown version");
    if (strcmp(server->eviction, "noeviction") != 0)
        return ten_fail(
            error, TENURE_E_UNSUPPORTED,
            "%s evicts keys (maxmemory-policy %s): a lease could vanish while it is held. Set maxmemory-policy "
            "to noeviction, or use another Redis",
            link->name, server->eviction[0] ? server->eviction : "unknown");
    if (server->is_loading)
        return ten_fail(error, TENURE_E_UNREACHABLE, "%s is reading its data after a start; try again when it is done",
                        link->name);
    if (server->is_replica)
        return ten_fail(error, TENURE_E_UNREACHABLE, "%s is a read-only replica; leases need its master", link->name);
    return TENURE_OK;
}

/* ---- Sentinel ------------------------------------------------------------------------------------------ */

/* A Sentinel may want a password, too; it is given ours when it asks for one, and not before. */
static int ask_for_master(const ten_redis_settings *settings, ten_redis_link *link, uint64_t deadline_ms,
                          redisReply **ret_reply, ten_error *error) {
    const char *const words[] = {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", settings->master};
    for (bool asks = has_password(settings);; asks = false) {
        int r = ten_redis_link_send(link, TEN_COUNT(words), words, NULL, error);
        if (r == TENURE_OK)
            r = ten_redis_link_receive(link, deadline_ms, ret_reply, error);
        if (r < 0 || !asks || (*ret_reply)->type != REDIS_REPLY_ERROR || strncmp((*ret_reply)->str, "NOAUTH", 6) != 0)
            return r;
        ten_redis_free_reply(ret_reply);
        *ret_reply = NULL;
        r = send_auth(settings, link, error);
        if (r == TENURE_OK)
            r = take_opening(settings, link, AUTH, deadline_ms, error);
        if (r < 0)
            return r;
    }
}

/* What it says becomes the leader. What is known of the addresses of the one that was it before stays, if it still is.
 */
static int take_leader(ten_redis_settings *settings, const ten_redis_link *link, const redisReply *reply,
                       ten_error *error) {
    bool known = reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
                 reply->element[0]->type == REDIS_REPLY_STRING && reply->element[1]->type == REDIS_REPLY_STRING;
    unsigned long port = known ? strtoul(reply->element[1]->str, NULL, 10) : 0;
    if (reply->type == REDIS_REPLY_ERROR)
        return ten_redis_refusal(reply, link->name, error);
    if (!known || port == 0 || port > UINT16_MAX || reply->element[0]->len >= TEN_REDIS_HOST_SIZE ||
        !ten_utf8_is_printable(reply->element[0]->str, reply->element[0]->len))
        return ten_fail(error, TENURE_E_UNREACHABLE,
                        "%s has no master named '%s'; SENTINEL MASTERS lists those that it has", link->name,
                        settings->master);
    if (strcmp(settings->leader.name, reply->element[0]->str) == 0 && settings->leader.port == port)
        return TENURE_OK;
    settings->leader = (ten_redis_host){.port = (uint16_t)port};
    snprintf(settings->leader.name, sizeof settings->leader.name, "%s", reply->element[0]->str);
    return TENURE_OK;
}

static int ask_sentinel(ten_redis_settings *settings, ten_redis_host *sentinel, uint64_t deadline_ms,
                        ten_error *error) {
    ten_redis_link *link = NULL;
    TEN_CLEANUP(ten_redis_free_reply) redisReply *reply = NULL;
    int r = dial_host(settings, sentinel, "the Sentinel ", deadline_ms, &link, error);
    if (r == TENURE_OK)
        r = ask_for_master(settings, link, deadline_ms, &reply, error);
    if (r == TENURE_OK)
        r = take_leader(settings, link, reply, error);
    ten_redis_link_close(link);
    return r;
}

static int dial_master_by(ten_redis_settings *settings, ten_redis_host *sentinel, uint64_t part_ms,
                          ten_redis_link **ret_link, ten_error *error) {
    uint64_t now_ms = ten_now_ms();
    uint64_t deadline_ms = ten_add_saturating(now_ms, part_ms);
    int r = ask_sentinel(settings, sentinel, ten_add_saturating(now_ms, part_ms / 2), error);
    ten_redis_link *link = NULL;
    if (r == TENURE_OK)
        r = dial_server(settings, &settings->leader, deadline_ms, &link, error);
    if (r == TENURE_OK)
        r = open_conversation(settings, link, deadline_ms, error);
    if (r == TENURE_OK && link->server.is_replica)
        r = ten_fail(error, TENURE_E_UNREACHABLE,
                     "the Sentinel %s:%u names %s as the master '%s', but it is a replica: a failover is under way",
                     sentinel->name, sentinel->port, link->server.address, settings->master);
    if (r < 0)
        ten_redis_link_close(link);
    else
        *ret_link = link;
    return r;
}

/* Each Sentinel in turn, from the one that answered last; each gets a part of the time that is left, for the master
 * that it names, too: it may name one that is dead, and another know better. */
static int dial_master(ten_redis_settings *settings, uint64_t deadline_ms, ten_redis_link **ret_link,
                       ten_error *error) {
    ten_error one = {0};
    int r = TENURE_E_UNREACHABLE;
    int worst = TENURE_OK;
    for (size_t i = 0; i < settings->host_count && r < 0; i++) {
        size_t which = (settings->next_host + i) % settings->host_count;
        uint64_t left_ms = ten_sub_saturating(deadline_ms, ten_now_ms());
        r = dial_master_by(settings, &settings->hosts[which], left_ms / (settings->host_count - i), ret_link, &one);
        if (r == TENURE_OK)
            settings->next_host = which;
        /* An error that somebody has to repair is reported rather than that another server was away. */
        if (worst == TENURE_OK || worst == TENURE_E_UNREACHABLE || worst == TENURE_E_TIMEOUT) {
            worst = r;
            *error = one;
        }
    }
    return r < 0 ? worst : TENURE_OK;
}

/* ---- opening ------------------------------------------------------------------------------------------- */

int ten_redis_link_open(ten_redis_settings *settings, enum ten_redis_need need, uint64_t deadline_ms,
                        ten_redis_link **ret_link, ten_error *error) {
    ten_error ignored;
    ten_redis_link *link = NULL;
    int r;
    if (!error)
        error = &ignored;
    if (settings->master) {
        r = dial_master(settings, deadline_ms, &link, error);
    } else {
        r = settings->socket_path ? dial_socket(settings, deadline_ms, &link, error)
                                  : dial_server(settings, &settings->hosts[0], deadline_ms, &link, error);
        if (r == TENURE_OK)
            r = open_conversation(settings, link, deadline_ms, error);
    }
    if (r == TENURE_OK && need == TEN_REDIS_LEASES)
        r = check_fitness(link, error);
    if (r < 0)
        ten_redis_link_close(link);
    else
        *ret_link = link;
    return r;
}

int ten_redis_link_open_beside(const ten_redis_link *other, ten_redis_settings *settings, uint64_t deadline_ms,
                               ten_redis_link **ret_link, ten_error *error) {
    ten_error ignored;
    ten_redis_link *link = NULL;
    ten_addresses one = {.at[0] = other->address, .count = 1};
    if (!error)
        error = &ignored;
    int r = dial(settings, &one, other->host, other->name, deadline_ms, &link, error);
    if (r == TENURE_OK)
        r = open_conversation(settings, link, deadline_ms, error);
    if (r < 0)
        ten_redis_link_close(link);
    else
        *ret_link = link;
    return r;
}
