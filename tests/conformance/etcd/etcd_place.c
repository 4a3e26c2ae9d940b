/*
 * A private etcd to test the store on. See etcd_place.h.
 */
#include "conformance/etcd/etcd_place.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

etcd_server etcd_member;
struct etcd_wire etcd_wire;
static char directory[FIXTURE_PATH_SIZE];
static char printed[65536];

int etcd_group_setup(void **state) {
    (void)state;
    return fixture_make_directory(directory) == 0 && etcd_start(&etcd_member, directory) ? 0 : -1;
}

int etcd_group_teardown(void **state) {
    (void)state;
    etcd_stop(&etcd_member);
    fixture_remove_directory(directory);
    return 0;
}

void etcd_url(char url[FIXTURE_URL_SIZE], const char *rest) {
    snprintf(url, FIXTURE_URL_SIZE, "etcd://127.0.0.1:%d%s", etcd_member.port, rest);
}

int etcd_place_setup(void **state) {
    static struct place place;
    char url[FIXTURE_URL_SIZE];
    etcd_url(url, "");
    etcd_wire = (struct etcd_wire){0};
    place.store = open_store(url);
    place.other = open_store(url);
    make_namespace(place.ns);
    *state = &place;
    return 0;
}

int etcd_place_teardown(void **state) {
    etcd_wire = (struct etcd_wire){0};
    return place_teardown(state);
}

void etcd_restart(void) {
    etcd_stop(&etcd_member);
    assert_true(etcd_start_again(&etcd_member));
}

void etcd_raise_alarm(void) {
    ten_etcd_call call = {.path = "/v3/maintenance/alarm", .body = "{\"action\":\"ACTIVATE\",\"alarm\":\"NOSPACE\"}"};
    char url[FIXTURE_URL_SIZE];
    etcd_url(url, "");
    ten_store *store = open_store(url);
    assert_int_equal(ten_etcd_perform(etcd_backend(store)->link, &call, 1, now_ms() + CALL_MS, &store->error),
                     TENURE_OK);
    ten_etcd_calls_free(&call, 1);
    ten_store_close(store);
}

void etcd_restart_alarmed(const struct place *place) {
    etcd_member.alarmed = true;
    etcd_restart();
    etcd_member.alarmed = false;
    uint64_t until_ms = now_ms() + HANG_MS;
    while (place->other->ops->ping(place->other, 1000) != TENURE_OK && now_ms() < until_ms)
        sleep_ms(20);
}

/* ---- by hand ----------------------------------------------------------------------------------------------- */

const char *etcdctl(const char *format, ...) {
    char words[1024];
    char command[1200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    snprintf(command, sizeof command, "ETCDCTL_API=3 etcdctl --endpoints=127.0.0.1:%d %s 2>&1", etcd_member.port,
             words);
    FILE *pipe = popen(command, "re");
    assert_non_null(pipe);
    size_t size = fread(printed, 1, sizeof printed - 1, pipe);
    printed[size] = '\0';
    if (pclose(pipe) != 0)
        fail_msg("etcdctl %s: %s", words, printed);
    return printed;
}

/* By its text: the ids of members are numbers of 64 bits, which jansson does not read. */
uint64_t etcd_fact(const struct place *place, const char *key, const char *fact) {
    char name[40];
    snprintf(name, sizeof name, "\"%s\":", fact);
    const char *found = strstr(etcdctl("get tenure/%s/%s -w json", place->ns, key), name);
    return found ? strtoull(found + strlen(name), NULL, 10) : 0;
}

uint64_t etcd_key_fact(const struct place *place, const char *target, const char *fact) {
    char key[TENURE_TARGET_MAX + 8];
    snprintf(key, sizeof key, "lease/%s", target);
    return etcd_fact(place, key, fact);
}

void etcd_delete_key(const struct place *place, const char *target) {
    assert_string_equal(etcdctl("del tenure/%s/lease/%s", place->ns, target), "1\n");
}

void etcd_revoke(uint64_t lease) {
    assert_true(lease > 0);
    (void)etcdctl("lease revoke %llx", (unsigned long long)lease);
}

static size_t read_metrics(char *text, size_t size) {
    static const char question[] = "GET /metrics HTTP/1.0\r\n\r\n";
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)etcd_member.port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    assert_int_equal(ten_write_all(fd, question, sizeof question - 1), 0);
    size_t used = 0;
    for (ssize_t got; used < size - 1 && (got = ten_read_some(fd, text + used, size - 1 - used)) > 0;)
        used += (size_t)got;
    text[used] = '\0';
    ten_close_fd(&fd);
    return used;
}

uint64_t etcd_calls_served(void) {
    size_t size = 1024 * 1024;
    char *text = malloc(size);
    uint64_t sum = 0;
    assert_non_null(text);
    assert_true(read_metrics(text, size) > 0);
    for (char *rest = NULL, *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        if (strncmp(line, "grpc_server_started_total{", 26) == 0 &&
            (strstr(line, "etcdserverpb.KV\"") || strstr(line, "etcdserverpb.Lease\"")))
            sum += strtoull(strrchr(line, ' ') + 1, NULL, 10);
    free(text);
    return sum;
}

/* ---- the hook ---------------------------------------------------------------------------------------------- */

int __real_ten_etcd_perform(ten_etcd_link *link, ten_etcd_call *calls, size_t count, uint64_t deadline_ms,
                            ten_error *error);
int __wrap_ten_etcd_perform(ten_etcd_link *link, ten_etcd_call *calls, size_t count, uint64_t deadline_ms,
                            ten_error *error);

static bool is_meant(const ten_etcd_call *call, const char *path, const char *body) {
    return path && strcmp(call->path, path) == 0 && (!body || (call->body && strstr(call->body, body)));
}

static void count_call(const ten_etcd_call *call) {
    etcd_wire.sent += call->body ? strlen(call->body) : 0;
    etcd_wire.kept_alive += is_meant(call, "/v3/lease/keepalive", NULL);
    etcd_wire.compared += is_meant(call, "/v3/kv/txn", NULL);
    etcd_wire.local +=
        is_meant(call, "/v3/kv/txn", NULL) && !strstr(call->body, "requestRange") && !strstr(call->body, "requestPut");
}

static void count_keys(const ten_etcd_call *call) {
    for (size_t i = 0; i < json_array_size(json_object_get(call->answer, "responses")); i++)
        etcd_wire.most_keys = ten_max_u64(etcd_wire.most_keys, json_array_size(ten_etcd_kvs(call->answer, i)));
}

int __wrap_ten_etcd_perform(ten_etcd_link *link, ten_etcd_call *calls, size_t count, uint64_t deadline_ms,
                            ten_error *error) {
    for (size_t i = 0; i < count; i++)
        count_call(&calls[i]);
    bool hooked = count > 0 && is_meant(&calls[0], etcd_wire.hook_path, etcd_wire.hook_body);
    bool lost = count > 0 && is_meant(&calls[0], etcd_wire.lose_path, etcd_wire.lose_body);
    if (hooked) {
        etcd_wire.hook_path = NULL;
        etcd_wire.hooked++;
        if (etcd_wire.before)
            etcd_wire.before(etcd_wire.place);
    }
    int r = __real_ten_etcd_perform(link, calls, count, deadline_ms, error);
    for (size_t i = 0; i < count; i++)
        count_keys(&calls[i]);
    if (hooked && etcd_wire.after && r == TENURE_OK)
        etcd_wire.after(&calls[0]);
    if (!lost || r < 0)
        return r;
    etcd_wire.lose_path = NULL;
    etcd_wire.lost++;
    ten_etcd_calls_free(calls, count);
    for (size_t i = 0; i < count; i++)
        calls[i].error = TENURE_E_TIMEOUT;
    return ten_fail(error, TENURE_E_TIMEOUT, "the test has lost this reply");
}

/* ---- many leases ------------------------------------------------------------------------------------------- */

struct many *many_acquire(const struct place *place, size_t count, const char *holder, uint64_t ttl_ms) {
    static struct many many;
    assert_true(count <= MANY_MAX);
    many.count = count;
    many.holder = holder;
    many.ttl_ms = ttl_ms;
    for (size_t i = 0; i < count; i++) {
        snprintf(many.targets[i], sizeof many.targets[i], "t-%zu", i);
        many.ops[i] = (ten_op){.kind = TEN_OP_ACQUIRE,
                               .namespace_name = place->ns,
                               .target = many.targets[i],
                               .holder = holder,
                               .ttl_ms = ttl_ms};
    }
    assert_int_equal(ten_store_apply(place->store, many.ops, many.results, count, CALL_MS), TENURE_OK);
    for (size_t i = 0; i < count; i++) {
        expect_outcome(many.results[i], TEN_OK);
        many.ops[i].kind = TEN_OP_RENEW;
        many.ops[i].token = many.results[i].token;
    }
    return &many;
}

size_t many_renew(const struct place *place, struct many *many) {
    size_t bad = 0;
    if (ten_store_apply(place->store, many->ops, many->results, many->count, CALL_MS) != TENURE_OK)
        fail_msg("the store failed: %s", place->store->error.message);
    for (size_t i = 0; i < many->count; i++)
        bad += many->results[i].outcome != TEN_OK;
    return bad;
}
