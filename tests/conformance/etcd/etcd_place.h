/*
 * What the tests of the etcd store share: one private member for the whole program, two handles and a namespace for
 * each case, etcdctl to look into it and to do harm by hand, and a hook on every request that the store sends
 * (-Wl,--wrap=ten_etcd_perform), by which replies are lost or things happen in between.
 */
#ifndef CONFORMANCE_ETCD_PLACE_H
#define CONFORMANCE_ETCD_PLACE_H

#include "conformance/suite.h"
#include "lib/etcd_server.h"
#include "store/etcd/etcd_state.h"
#include "store/record_store.h"

static inline ten_etcd_store *etcd_backend(ten_store *store) {
    return (ten_etcd_store *)((ten_record_store *)store)->backend;
}

extern etcd_server etcd_member;
extern const fixture_kind etcd_fixture;

int etcd_group_setup(void **state);
int etcd_group_teardown(void **state);
int etcd_place_setup(void **state);
int etcd_place_teardown(void **state);
#define ETCD_CASE(name) TEST_WITH(name, etcd_place_setup, etcd_place_teardown)

/* The member's URL, with this after it. */
void etcd_url(char url[FIXTURE_URL_SIZE], const char *rest);
/* Killed and started with its data: the term has grown. The handles are to find out by themselves. */
void etcd_restart(void);
/* The member takes no more data, as when its disk has become full; "alarm disarm" ends that. */
void etcd_raise_alarm(void);
/* Restarted with its alarm. It leads when it answers a read. */
void etcd_restart_alarmed(const struct place *place);

/* etcdctl with these words, which the shell reads; what it printed is valid until the next one. A failure fails the
 * test. */
const char *etcdctl(const char *format, ...) TEN_PRINTF(1, 2);
/* A fact of a key below PREFIX/NS/: "mod_revision", "lease"; 0: there is no such key. */
uint64_t etcd_fact(const struct place *place, const char *key, const char *fact);
/* Of the key that is there while a target's lease has an end of its own that has not come. */
uint64_t etcd_key_fact(const struct place *place, const char *target, const char *fact);
void etcd_delete_key(const struct place *place, const char *target);
void etcd_revoke(uint64_t lease);
/* How many calls of its KV and Lease services the member has got, by its own count. */
uint64_t etcd_calls_served(void);

/* ---- the hook */

struct etcd_wire {
    /* The reply of the next request with this path, and this in its body (NULL: any), is lost after it took effect. */
    const char *lose_path;
    const char *lose_body;
    unsigned lost;
    /* Called once before, or after, the next request with this path, and this in its body (NULL: any). */
    const char *hook_path;
    const char *hook_body;
    void (*before)(const struct place *place);
    void (*after)(ten_etcd_call *call);
    const struct place *place;
    unsigned hooked;
    unsigned kept_alive; /* how many keep-alives were sent */
    uint64_t sent;       /* bytes of all requests, without their heads */
    size_t most_keys;    /* in one answer */
    unsigned compared;   /* how many transactions were sent, */
    unsigned local;      /* and how many of those a member without a quorum answers: nothing is read in any branch */
};
extern struct etcd_wire etcd_wire; /* cleared for each case */

/* ---- many leases */

#define MANY_MAX 1000u
struct many {
    size_t count;
    const char *holder;
    uint64_t ttl_ms;
    char targets[MANY_MAX][24];
    ten_op ops[MANY_MAX];
    ten_result results[MANY_MAX];
};
/* As many as wanted, acquired in one batch. */
struct many *many_acquire(const struct place *place, size_t count, const char *holder, uint64_t ttl_ms);
/* One batch; how many are not TEN_OK. */
size_t many_renew(const struct place *place, struct many *many);

#endif
