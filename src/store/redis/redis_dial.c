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

static void tune(int fd, int family) {
    int on = 1;
    int seconds = KEEPALIVE_S;
    unsigned timeout_ms = USER_TIMEOUT_MS;
    if (family == AF_UNIX)
        return;
    /* All of them help, none is needed: a server that vanished is noticed by the calls' own deadlines in any case. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof timeout_ms);
}

static int wait_connected(int fd, uint64_t deadline_ms) {
    for (;;) {
        uint64_t now_ms = ten_now_ms();
        struct pollfd place = {.fd = fd, .events = POLLOUT};
        int ready = poll(&place, 1, (int)ten_min_u64(ten_sub_saturating(deadline_ms, now_ms), 60000));
        if (ready < 0 && errno != EINTR)
            return errno;
        if (ready > 0) {
            int failure = 0;
            socklen_t size = sizeof failure;
            return getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size) == 0 ? failure : errno;
        }
        if (ten_now_ms() >= deadline_ms)
            return ETIMEDOUT;
    }
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
static int start_connecting(int fd, const struct sockaddr *address, socklen_t size, uint64_t deadline_ms) {
    for (;;) {
        int failure = connect(fd, address, size) == 0 ? 0 : errno;
        /* A Unix socket whose queue is full: its server is busy or stopped. There is nothing to wait on. */
        if (failure != EAGAIN || address->sa_family != AF_UNIX)
            return failure;
        if (ten_now_ms() >= deadline_ms)
            return ETIMEDOUT;
        ten_sleep_us(FULL_US);
    }
}

/* A connected socket, or a negative errno. */
static int connect_to(const struct sockaddr *address, socklen_t size, uint64_t deadline_ms) {
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    tune(fd, address->sa_family);
    int failure = start_connecting(fd, address, size, deadline_ms);
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

/* Each address in turn; the time that is left is shared, so that one that swallows everything does not eat it all. */
static int connect_to_any(const ten_addresses *addresses, const char *name, uint64_t deadline_ms, size_t *ret_which,
                          int *ret_fd, ten_error *error) {
    int fd = -EHOSTUNREACH;
    for (size_t i = 0; i < addresses->count && fd < 0; i++) {
        uint64_t now_ms = ten_now_ms();
        uint64_t part_ms = ten_sub_saturating(deadline_ms, now_ms) / (addresses->count - i);
        fd = connect_to((const struct sockaddr *)&addresses->at[i].address, addresses->at[i].size,
                        ten_add_saturating(now_ms, part_ms));
        *ret_which = i;
    }
    if (fd < 0)
        return cannot_reach(name, -fd, error);
    *ret_fd = fd;
    return TENURE_OK;
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
    size_t which = 0;
    int fd = -1;
    snprintf(name, sizeof name, strchr(host->name, ':') ? "%s[%s]:%u" : "%s%s:%u", kind, host->name, host->port);
    int r = find_addresses(host, deadline_ms, error);
    if (r == TENURE_OK)
        r = connect_to_any(&host->known, name, deadline_ms, &which, &fd, error);
    if (r == TENURE_OK)
        r = ten_redis_link_make(settings, fd, host->name, name, deadline_ms, ret_link, error);
    if (r == TENURE_OK) {
        (*ret_link)->address = host->known.at[which].address;
        (*ret_link)->address_size = host->known.at[which].size;
    }
    return r;
}

static int dial_server(ten_redis_settings *settings, ten_redis_host *host, uint64_t deadline_ms,
                       ten_redis_link **ret_link, ten_error *error) {
    return dial_host(settings, host, settings->tls ? "rediss://" : "redis://", deadline_ms, ret_link, error);
}

static int dial_address(ten_redis_settings *settings, const struct sockaddr *address, socklen_t size, const char *host,
                        const char *name, uint64_t deadline_ms, ten_redis_link **ret_link, ten_error *error) {
    int fd = connect_to(address, size, deadline_ms);
    if (fd < 0)
        return cannot_reach(name, -fd, error);
    int r = ten_redis_link_make(settings, fd, host, name, deadline_ms, ret_link, error);
    if (r == TENURE_OK) {
        memcpy(&(*ret_link)->address, address, size);
        (*ret_link)->address_size = size;
    }
    return r;
}

static int dial_socket(ten_redis_settings *settings, uint64_t deadline_ms, ten_redis_link **ret_link,
                       ten_error *error) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", settings->socket_path);
    return dial_address(settings, (const struct sockaddr *)&address, sizeof address, "localhost", settings->name,
                        deadline_ms, ret_link, error);
}

/* ---- what the server says ------------------------------------------------------------------------------ */

/* The commands that open a conversation, all sent before the first answer is read. */
enum opening {
    AUTH,
    SELECT,
    INFO_SERVER,
    INFO_REPLICATION,
    INFO_CLUSTER,
    INFO_MEMORY,
    INFO_PERSISTENCE,
    SETNAME, /* last: a refusal of it is none, and must not hide that of a server that refuses everybody */
    OPENINGS
};

static int send_words(ten_redis_link *link, const char *const *words, size_t count, ten_error *error) {
    size_t sizes[4];
    for (size_t i = 0; i < count; i++)
        sizes[i] = strlen(words[i]);
    return ten_redis_link_send(link, count, words, sizes, error);
}

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
    if (r == TENURE_OK && settings->user)
        r = send_words(link, (const char *const[]){"AUTH", settings->user, password}, 3, error);
    else if (r == TENURE_OK)
        r = send_words(link, (const char *const[]){"AUTH", password}, 2, error);
    explicit_bzero(read, sizeof read);
    return r;
}

static bool has_password(const ten_redis_settings *settings) {
    return settings->password || settings->files.secret_file;
}

/* Sends what applies; `sent` says what was. */
static int send_opening(const ten_redis_settings *settings, ten_redis_link *link, bool look, bool sent[OPENINGS],
                        ten_error *error) {
    static const char *const sections[] = {"server", "replication", "cluster", "memory", "persistence"};
    char database[24];
    int r = TENURE_OK;
    snprintf(database, sizeof database, "%llu", (unsigned long long)settings->database);
    sent[AUTH] = has_password(settings);
    sent[SELECT] = settings->database != 0;
    sent[SETNAME] = true;
    if (sent[AUTH])
        r = send_auth(settings, link, error);
    if (r == TENURE_OK && sent[SELECT])
        r = send_words(link, (const char *const[]){"SELECT", database}, 2, error);
    for (unsigned i = 0; look && r == TENURE_OK && i < TEN_COUNT(sections); i++) {
        sent[INFO_SERVER + i] = true;
        r = send_words(link, (const char *const[]){"INFO", sections[i]}, 2, error);
    }
    if (r == TENURE_OK)
        r = send_words(link, (const char *const[]){"CLIENT", "SETNAME", "tenure"}, 3, error);
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

static void take_info(enum opening what, const char *info, ten_redis_server *server) {
    char value[64];
    switch (what) {
    case INFO_SERVER:
        info_text(info, "redis_version", server->version, sizeof server->version);
        info_text(info, "run_id", server->run_id, sizeof server->run_id);
        info_text(info, "redis_mode", value, sizeof value);
        server->is_cluster |= strcmp(value, "cluster") == 0;
        break;
    case INFO_REPLICATION:
        info_text(info, "role", value, sizeof value);
        server->is_replica = strcmp(value, "slave") == 0;
        server->replicas = (unsigned)info_number(info, "connected_slaves");
        break;
    case INFO_CLUSTER:
        server->is_cluster |= info_number(info, "cluster_enabled") == 1;
        break;
    case INFO_MEMORY:
        info_text(info, "maxmemory_policy", server->eviction, sizeof server->eviction);
        server->maxmemory = info_number(info, "maxmemory");
        break;
    case INFO_PERSISTENCE:
        server->is_loading = info_number(info, "loading") == 1;
        server->saves = info_number(info, "aof_enabled") == 1;
        break;
    case AUTH:
    case SELECT:
    case SETNAME:
    case OPENINGS:
        break;
    }
}

static int take_opening(const ten_redis_settings *settings, ten_redis_link *link, enum opening what,
                        uint64_t deadline_ms, ten_error *error) {
    static const char *const names[OPENINGS] = {"AUTH",         "SELECT",      "INFO server",      "INFO replication",
                                                "INFO cluster", "INFO memory", "INFO persistence", "CLIENT"};
    redisReply *reply = NULL;
    int r = ten_redis_link_receive(link, deadline_ms, &reply, error);
    if (r < 0)
        return r;
    if (reply->type == REDIS_REPLY_ERROR && what != SETNAME) {
        char doing[TEN_REDIS_HOST_SIZE + 128];
        if (what == SELECT)
            snprintf(doing, sizeof doing, "%s refused SELECT %llu", link->name, (unsigned long long)settings->database);
        else
            snprintf(doing, sizeof doing, "%s refused %s", link->name, names[what]);
        r = ten_redis_refusal(reply, doing, error);
        if (r == TENURE_E_STORE && what == AUTH) /* "ERR AUTH <password> called without any password configured" */
            error->code = r = TENURE_E_DENIED;
    } else if (reply->type == REDIS_REPLY_STRING) {
        take_info(what, reply->str, &link->server);
    }
    freeReplyObject(reply);
    return r;
}

static int open_conversation(const ten_redis_settings *settings, ten_redis_link *link, bool look, uint64_t deadline_ms,
                             ten_error *error) {
    bool sent[OPENINGS] = {false};
    int r = send_opening(settings, link, look, sent, error);
    for (unsigned i = 0; r == TENURE_OK && i < OPENINGS; i++)
        if (sent[i])
            r = take_opening(settings, link, (enum opening)i, deadline_ms, error);
    ten_address_show((const struct sockaddr *)&link->address, link->address_size, link->server.address,
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

static int ask_for_master(const ten_redis_settings *settings, ten_redis_link *link, uint64_t deadline_ms,
                          redisReply **ret_reply, ten_error *error) {
    int r = send_words(link, (const char *const[]){"SENTINEL", "GET-MASTER-ADDR-BY-NAME", settings->master}, 3, error);
    return r == TENURE_OK ? ten_redis_link_receive(link, deadline_ms, ret_reply, error) : r;
}

/* A Sentinel may want a password, too; it is given ours when it asks for one, and not before. */
static int ask_again_with_password(const ten_redis_settings *settings, ten_redis_link *link, uint64_t deadline_ms,
                                   redisReply **ret_reply, ten_error *error) {
    int r = send_auth(settings, link, error);
    if (r == TENURE_OK)
        r = take_opening(settings, link, AUTH, deadline_ms, error);
    return r == TENURE_OK ? ask_for_master(settings, link, deadline_ms, ret_reply, error) : r;
}

static bool is_refusal(const redisReply *reply, const char *word) {
    return reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, word, strlen(word)) == 0;
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
    redisReply *reply = NULL;
    int r = dial_host(settings, sentinel, "the Sentinel ", deadline_ms, &link, error);
    if (r == TENURE_OK)
        r = ask_for_master(settings, link, deadline_ms, &reply, error);
    if (r == TENURE_OK && is_refusal(reply, "NOAUTH") && has_password(settings)) {
        freeReplyObject(reply);
        reply = NULL;
        r = ask_again_with_password(settings, link, deadline_ms, &reply, error);
    }
    if (r == TENURE_OK)
        r = take_leader(settings, link, reply, error);
    if (reply)
        freeReplyObject(reply);
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
        r = open_conversation(settings, link, true, deadline_ms, error);
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
            r = open_conversation(settings, link, true, deadline_ms, error);
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
    if (!error)
        error = &ignored;
    int r = dial_address(settings, (const struct sockaddr *)&other->address, other->address_size, other->host,
                         other->name, deadline_ms, &link, error);
    if (r == TENURE_OK)
        r = open_conversation(settings, link, false, deadline_ms, error);
    if (r < 0) {
        ten_redis_link_close(link);
        return r;
    }
    link->server = other->server;
    *ret_link = link;
    return TENURE_OK;
}
