/*
 * The registry and the listings in etcd. A page is one transaction, so that what it shows was so at one moment. Called
 * through store.h.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/encode.h"
#include "base/json.h"
#include "rules/pin.h"
#include "store/etcd/etcd_cell.h"

#define PAGE_MAX       1000u
#define FEW_INSTANCES  16u  /* each is asked for what is left of it, by every listing */
#define MOST_INSTANCES 256u /* by the first listing of a handle, which may be a person's */
#define FENCES_MAX     120u /* of targets, read in one transaction */
#define EDITS_MAX      60u  /* in one transaction; of more, the first may be done when a later one fails */

/* ---- the registry ------------------------------------------------------------------------------------------ */

/* pin: as rules/pin.h has it; NULL: none. */
static void write_target(ten_buf *value, const tenure_target *target, const char *pin) {
    ten_buf_clear(value);
    ten_json_open(value);
    if (target->url)
        ten_json_text(value, "url", target->url);
    if (target->exec)
        ten_json_text(value, "exec", target->exec);
    if (target->spec)
        ten_json_text(value, "spec", target->spec);
    ten_json_number(value, "every_ms", target->every_ms);
    ten_json_bool(value, "paused", target->paused);
    if (pin)
        ten_json_text(value, "pin", pin);
    ten_json_close(value);
}

static tenure_target read_target(const char *id, const json_t *value) {
    return (tenure_target){.id = id,
                           .url = json_string_value(json_object_get(value, "url")),
                           .exec = json_string_value(json_object_get(value, "exec")),
                           .spec = json_string_value(json_object_get(value, "spec")),
                           .every_ms = ten_etcd_number(value, "every_ms"),
                           .paused = json_is_true(json_object_get(value, "paused"))};
}

static const char *pin_of(const json_t *value) {
    return json_string_value(json_object_get(value, "pin"));
}

/* etcd has no clock that can be read. The time in the text is this host's, and only tells one pin from the next: the pin
 * lasts as long as its key, which is attached to an etcd lease of that length. */
static void make_pin(ten_etcd_store *store, const char *namespace_name, const ten_target_edit *edit, uint64_t lease,
                     ten_buf *pin) {
    char key[TEN_ETCD_KEY_MAX + 1];
    ten_etcd_key_of(store, key, namespace_name, TEN_ETCD_PIN, edit->target.id);
    ten_etcd_txn_put(&store->txn, key, "{}", lease);
    ten_buf_format(pin, "%llu ", (unsigned long long)(ten_wall_ms(store->base.clock) + edit->pin.left_ms));
    ten_pin_write(pin, &edit->pin);
    store->txn.operations.failed |= pin->failed;
}

/* pin_lease: of a pin. */
static void edit(ten_etcd_store *store, const char *namespace_name, ten_target_edit *edit, uint64_t pin_lease,
                 const ten_etcd_kv *kv, ten_buf *changes, size_t *change_count) {
    char key[TEN_ETCD_KEY_MAX + 1];
    ten_change change = {.kind = TENURE_EVENT_TARGET_CHANGED, .target = edit->target.id, .instance = "", .actor = ""};
    ten_etcd_key_of(store, key, namespace_name, TEN_ETCD_TARGET, edit->target.id);
    edit->found = kv->revision > 0;
    if (edit->action != TEN_TARGET_PUT && !edit->found)
        return;
    ten_etcd_txn_compare(&store->txn, key, kv->revision);
    if (edit->action == TEN_TARGET_REMOVE) {
        ten_etcd_txn_delete(&store->txn, key);
        change.kind = TENURE_EVENT_TARGET_REMOVED;
    } else {
        tenure_target target = edit->target;
        TEN_CLEANUP(ten_buf_free) ten_buf pin = {0};
        if (edit->action != TEN_TARGET_PUT)
            target = read_target(edit->target.id, kv->value);
        else if (!edit->found)
            change.kind = TENURE_EVENT_TARGET_ADDED;
        if (edit->action == TEN_TARGET_PAUSE || edit->action == TEN_TARGET_RESUME)
            target.paused = edit->action == TEN_TARGET_PAUSE;
        if (edit->action == TEN_TARGET_PIN)
            make_pin(store, namespace_name, edit, pin_lease, &pin);
        write_target(&store->value, &target,
                     pin.size                           ? ten_buf_string(&pin)
                     : edit->action == TEN_TARGET_UNPIN ? NULL
                                                        : pin_of(kv->value));
        ten_etcd_txn_put(&store->txn, key, ten_buf_string(&store->value), 0);
    }
    ten_pin_tell(edit, &change);
    ten_buf_text(changes, (*change_count)++ ? "," : "[");
    ten_etcd_feed_add(changes, &change);
}

/* The etcd leases of pins. Those that are not used in the end, or whose pin is taken back, end by themselves. */
static int grant_pins(ten_etcd_store *store, const ten_target_edit *edits, uint64_t *pin_leases, size_t count,
                      uint64_t deadline_ms) {
    int r = TENURE_OK;
    for (size_t i = 0; r == TENURE_OK && i < count; i++)
        if (edits[i].action == TEN_TARGET_PIN)
            r = ten_etcd_grant(store, edits[i].pin.left_ms, deadline_ms, &pin_leases[i]);
    return r;
}

/* One try: read what is there, write what is to be. */
static int edit_some(ten_etcd_store *store, const char *namespace_name, ten_target_edit *edits, size_t count,
                     uint64_t deadline_ms, bool *ret_succeeded) {
    char key[TEN_ETCD_KEY_MAX + 1];
    json_t *answer = NULL;
    ten_buf changes = {0};
    size_t change_count = 0;
    uint64_t pin_leases[EDITS_MAX] = {0};
    ten_etcd_txn_clear(&store->txn);
    for (size_t i = 0; i < count; i++) {
        ten_etcd_key_of(store, key, namespace_name, TEN_ETCD_TARGET, edits[i].target.id);
        ten_etcd_txn_get(&store->txn, key);
    }
    int r = ten_etcd_commit(store, false, deadline_ms, ret_succeeded, &answer);
    if (r == TENURE_OK)
        r = grant_pins(store, edits, pin_leases, count, deadline_ms);
    if (r < 0) {
        json_decref(answer);
        return r;
    }
    ten_etcd_txn_clear(&store->txn);
    for (size_t i = 0; i < count; i++) {
        ten_etcd_kv kv = ten_etcd_kv_at(answer, i, &store->scratch);
        edit(store, namespace_name, &edits[i], pin_leases[i], &kv, &changes, &change_count);
        ten_etcd_kv_free(&kv);
    }
    json_decref(answer);
    if (change_count > 0) {
        ten_buf_char(&changes, ']');
        ten_etcd_feed_put(store, namespace_name, ten_buf_string(&changes), change_count);
        r = changes.failed ? ten_etcd_no_memory(store) : ten_etcd_commit(store, true, deadline_ms, ret_succeeded, NULL);
    }
    ten_buf_free(&changes);
    return r;
}

/* How many from the first on can go together: each id once. */
static size_t run_length(const ten_target_edit *edits, size_t count) {
    for (size_t i = 1; i < count && i < EDITS_MAX; i++)
        for (size_t j = 0; j < i; j++)
            if (strcmp(edits[i].target.id, edits[j].target.id) == 0)
                return i;
    return ten_min_u64(count, EDITS_MAX);
}

int ten_etcd_edit_targets(ten_store *base, const char *namespace_name, ten_target_edit *edits, size_t count,
                          uint64_t timeout_ms) {
    ten_etcd_store *store = (ten_etcd_store *)base;
    uint64_t deadline_ms = ten_now_ms() + timeout_ms;
    int r = ten_etcd_enter(store, namespace_name, deadline_ms);
    store->call++;
    for (size_t at = 0; r == TENURE_OK && at < count;) {
        size_t some = run_length(edits + at, count - at);
        bool succeeded = false;
        r = edit_some(store, namespace_name, edits + at, some, deadline_ms, &succeeded);
        if (r == TENURE_OK && succeeded)
            at += some;
    }
    if (r == TENURE_OK)
        ten_etcd_feed_trim(store, namespace_name, deadline_ms);
    return r;
}

/* ---- targets ----------------------------------------------------------------------------------------------- */

/* Ranges that are walked together: registry, leases, pins, fences. */
struct walk {
    const json_t *items;
    size_t at;
    size_t prefix_size;
    bool more;                      /* etcd has more behind what was read */
    char id[TENURE_TARGET_MAX + 1]; /* of the item at hand; "" at the end */
};

static void step(struct walk *walk, ten_buf *scratch) {
    const char *text = json_string_value(json_object_get(json_array_get(walk->items, walk->at), "key"));
    walk->id[0] = '\0';
    if (text && ten_base64_decode(scratch, text) && scratch->size > walk->prefix_size)
        snprintf(walk->id, sizeof walk->id, "%.255s", scratch->data + walk->prefix_size);
}

enum { REGISTRY, LEASES, PINS, FENCES, WALKS };

static const enum ten_etcd_kind walk_kinds[WALKS] = {TEN_ETCD_TARGET, TEN_ETCD_LEASE, TEN_ETCD_PIN, TEN_ETCD_FENCE};

struct page {
    ten_etcd_store *store;
    const ten_query *query;
    ten_row_fn each;
    void *userdata;
    uint64_t deadline_ms;
    size_t given;
    struct walk walks[WALKS];
    char after[TENURE_TARGET_MAX + 1]; /* the last id that was looked at */
    uint64_t *leases;                  /* of the page, and what is left of them */
    uint64_t *left_ms;
    size_t lease_count;
    json_t *fences; /* of the registered targets of the page that are free, if it shows only what is current */
};

static void advance(struct walk *walk, ten_buf *scratch) {
    walk->at++;
    step(walk, scratch);
}

/* The fences that were asked for, behind those that are there. */
static int add_fences(struct page *page) {
    ten_etcd_store *store = page->store;
    json_t *answer = NULL;
    bool succeeded;
    size_t count = store->txn.operation_count;
    int r = ten_etcd_commit(store, false, page->deadline_ms, &succeeded, &answer);
    for (size_t i = 0; r == TENURE_OK && i < count; i++) {
        json_t *fences = json_object_get(
            json_object_get(json_array_get(json_object_get(answer, "responses"), i), "response_range"), "kvs");
        if (fences && json_array_extend(page->fences, fences) != 0)
            r = ten_etcd_no_memory(store);
    }
    json_decref(answer);
    ten_etcd_txn_clear(&store->txn);
    return r;
}

/* Of the registered targets of this page that nobody holds: they tell the last token. */
static int read_fences(struct page *page) {
    ten_etcd_store *store = page->store;
    struct walk registry = page->walks[REGISTRY];
    struct walk leases = page->walks[LEASES];
    char key[TEN_ETCD_KEY_MAX + 1];
    int r = TENURE_OK;
    json_decref(page->fences);
    page->fences = json_array();
    if (!page->fences)
        return ten_etcd_no_memory(store);
    ten_etcd_txn_clear(&store->txn);
    for (; r == TENURE_OK && registry.id[0]; advance(&registry, &store->scratch)) {
        while (leases.id[0] && strcmp(leases.id, registry.id) < 0)
            advance(&leases, &store->scratch);
        if (strcmp(leases.id, registry.id) == 0)
            continue;
        ten_etcd_key_of(store, key, page->query->namespace_name, TEN_ETCD_FENCE, registry.id);
        ten_etcd_txn_get(&store->txn, key);
        if (store->txn.operation_count == FENCES_MAX)
            r = add_fences(page);
    }
    if (r == TENURE_OK && store->txn.operation_count > 0)
        r = add_fences(page);
    ten_etcd_key_of(store, key, page->query->namespace_name, TEN_ETCD_FENCE, NULL);
    page->walks[FENCES] = (struct walk){.items = page->fences, .prefix_size = strlen(key)};
    step(&page->walks[FENCES], &store->scratch);
    return r;
}

static int read_page(struct page *page, json_t **ret_answer) {
    ten_etcd_store *store = page->store;
    char key[TEN_ETCD_KEY_MAX + 1];
    char after[TEN_ETCD_KEY_MAX + 1];
    bool succeeded;
    uint64_t limit = ten_min_u64(PAGE_MAX, ten_max_u64(page->query->limit, 16));
    size_t walks = page->query->current ? FENCES : WALKS; /* most fences are of targets that were leased once */
    ten_etcd_txn_clear(&store->txn);
    for (size_t i = 0; i < walks; i++) {
        ten_etcd_key_of(store, key, page->query->namespace_name, walk_kinds[i], NULL);
        ten_etcd_key_of(store, after, page->query->namespace_name, walk_kinds[i], page->after);
        ten_etcd_txn_get_all(&store->txn, key,
                             &(struct ten_etcd_range){.after = page->after[0] ? after : NULL, .limit = limit});
        page->walks[i].prefix_size = strlen(key);
    }
    int r = ten_etcd_commit(store, false, page->deadline_ms, &succeeded, ret_answer);
    for (size_t i = 0; r == TENURE_OK && i < walks; i++) {
        page->walks[i].items = ten_etcd_kvs(*ret_answer, i);
        page->walks[i].more = ten_etcd_has_more(*ret_answer, i);
        page->walks[i].at = 0;
        step(&page->walks[i], &store->scratch);
    }
    return r < 0 || walks == WALKS ? r : read_fences(page);
}

static bool make_room_for_leases(struct page *page, size_t count) {
    ten_free(page->leases);
    ten_free(page->left_ms);
    page->leases = ten_calloc(count + 1, sizeof *page->leases);
    page->left_ms = ten_calloc(count + 1, sizeof *page->left_ms);
    page->lease_count = 0;
    return page->leases && page->left_ms;
}

static void add_lease(struct page *page, uint64_t lease) {
    for (size_t i = 0; i < page->lease_count; i++)
        if (page->leases[i] == lease)
            return;
    page->leases[page->lease_count++] = lease;
}

static void add_leases(struct page *page, const json_t *items) {
    for (size_t i = 0; i < json_array_size(items); i++)
        add_lease(page, ten_etcd_number(json_array_get(items, i), "lease"));
}

/* What is left of the leases and the pins of this page. */
static int ask_time_left(struct page *page) {
    const json_t *leases = page->walks[LEASES].items;
    const json_t *pins = page->walks[PINS].items;
    if (!make_room_for_leases(page, json_array_size(leases) + json_array_size(pins)))
        return ten_etcd_no_memory(page->store);
    add_leases(page, leases);
    add_leases(page, pins);
    return ten_etcd_time_left(page->store, page->leases, page->left_ms, page->lease_count, page->deadline_ms);
}

static uint64_t left_of(const struct page *page, uint64_t lease) {
    for (size_t i = 0; i < page->lease_count; i++)
        if (page->leases[i] == lease)
            return page->left_ms[i];
    return 1;
}

static ten_etcd_kv take(struct walk *walk, const char *id, ten_buf *scratch) {
    ten_etcd_kv kv = {0};
    if (strcmp(walk->id, id) != 0)
        return kv;
    kv = ten_etcd_kv_read(json_array_get(walk->items, walk->at), scratch);
    advance(walk, scratch);
    return kv;
}

static bool is_wanted(enum tenure_filter filter, bool registered, bool paused, bool held) {
    switch (filter) {
    case TENURE_LEASED:
        return held;
    case TENURE_FREE:
        return !held && !paused;
    case TENURE_REGISTERED:
        return registered;
    case TENURE_ALL:
        break;
    }
    return true;
}

/* Whether a pin has ended is for etcd to say: its key has gone then. */
static void read_pin(const struct page *page, const ten_etcd_kv kvs[WALKS], ten_pin_copy *pin) {
    ten_pin_read(kvs[PINS].revision > 0 ? pin_of(kvs[REGISTRY].value) : NULL, 0, pin);
    if (pin->pin.instance)
        pin->pin.left_ms = ten_max_u64(left_of(page, kvs[PINS].lease), 1);
}

/* kvs: registry, lease, pin and fence of the id; they are freed. */
static int hand_out_row(struct page *page, const char *id, ten_etcd_kv kvs[WALKS]) {
    uint64_t now_ms = ten_boot_ms(page->store->base.clock);
    bool registered = kvs[REGISTRY].revision > 0;
    ten_lease_row row;
    /* One that is reserved for a moment, between the two steps of handing it over, is listed as free. */
    uint64_t left_ms = kvs[LEASES].revision > 0 ? left_of(page, kvs[LEASES].lease) : 0;
    ten_etcd_row_read(&kvs[LEASES], &kvs[FENCES], now_ms, left_ms, &row);
    bool held = ten_lease_row_is_held(&row, now_ms);
    tenure_target target = registered ? read_target(id, kvs[REGISTRY].value) : (tenure_target){.id = id};
    int stopped = 0;
    if (is_wanted(page->query->filter, registered, target.paused, held)) {
        ten_row found = {.target = target, .registered = registered, .token = row.token};
        ten_pin_copy pin;
        read_pin(page, kvs, &pin);
        found.pin = pin.pin;
        if (held) {
            found.holder = row.holder;
            found.barred = row.barred;
            found.ttl_ms = row.ttl_ms;
            found.remaining_ms = ten_min_u64(row.ends_ms - now_ms, row.ttl_ms);
            found.acquired_at_ms = row.acquired_at_ms;
        }
        stopped = page->each(&found, page->userdata);
        page->given++;
    }
    for (size_t i = 0; i < WALKS; i++)
        ten_etcd_kv_free(&kvs[i]);
    return stopped;
}

static int hand_out(struct page *page, const char *id) {
    ten_etcd_kv kvs[WALKS];
    for (size_t i = 0; i < WALKS; i++)
        kvs[i] = take(&page->walks[i], id, &page->store->scratch);
    return hand_out_row(page, id, kvs);
}

/* The smallest id at hand; false: this page is at its end. A range that etcd cut short ends the page with its last
 * id: the others may have more before its next. */
static bool next_id(const struct page *page, char id[TENURE_TARGET_MAX + 1]) {
    id[0] = '\0';
    for (size_t i = 0; i < WALKS; i++) {
        const struct walk *walk = &page->walks[i];
        if (walk->id[0] == '\0' && walk->more)
            return false;
        if (walk->id[0] && (id[0] == '\0' || strcmp(walk->id, id) < 0))
            memcpy(id, walk->id, sizeof walk->id);
    }
    return id[0] != '\0';
}

int ten_etcd_list(ten_store *base, const ten_query *query, ten_row_fn each, void *userdata, uint64_t timeout_ms) {
    struct page page = {.store = (ten_etcd_store *)base,
                        .query = query,
                        .each = each,
                        .userdata = userdata,
                        .deadline_ms = ten_now_ms() + timeout_ms};
    snprintf(page.after, sizeof page.after, "%.255s", query->after ? query->after : "");
    int r = ten_etcd_enter(page.store, query->namespace_name, page.deadline_ms);
    for (bool more = true; r == TENURE_OK && more && page.given < query->limit;) {
        json_t *answer = NULL;
        char id[TENURE_TARGET_MAX + 1];
        r = read_page(&page, &answer);
        if (r == TENURE_OK)
            r = ask_time_left(&page);
        more = false;
        for (size_t i = 0; i < WALKS; i++)
            more |= page.walks[i].more;
        while (r == TENURE_OK && page.given < query->limit && next_id(&page, id)) {
            memcpy(page.after, id, sizeof id);
            r = hand_out(&page, id);
        }
        json_decref(answer);
    }
    json_decref(page.fences);
    ten_free(page.leases);
    ten_free(page.left_ms);
    return r;
}

/* ---- certain targets --------------------------------------------------------------------------------------- */

static int ask_for(struct page *page, const char *const *ids, size_t count, json_t **ret_answer) {
    ten_etcd_store *store = page->store;
    char key[TEN_ETCD_KEY_MAX + 1];
    bool succeeded;
    ten_etcd_txn_clear(&store->txn);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < WALKS; k++) {
            ten_etcd_key_of(store, key, page->query->namespace_name, walk_kinds[k], ids[i]);
            ten_etcd_txn_get(&store->txn, key);
        }
    int r = ten_etcd_commit(store, false, page->deadline_ms, &succeeded, ret_answer);
    if (r < 0)
        return r;
    if (!make_room_for_leases(page, 2 * count))
        return ten_etcd_no_memory(store);
    for (size_t i = 0; i < count; i++) {
        add_leases(page, ten_etcd_kvs(*ret_answer, i * WALKS + LEASES));
        add_leases(page, ten_etcd_kvs(*ret_answer, i * WALKS + PINS));
    }
    return ten_etcd_time_left(store, page->leases, page->left_ms, page->lease_count, page->deadline_ms);
}

/* As many in one transaction as etcd allows. */
static int read_some(struct page *page, const char *const *ids, size_t count) {
    json_t *answer = NULL;
    int r = ask_for(page, ids, count, &answer);
    for (size_t i = 0; r == TENURE_OK && i < count; i++) {
        ten_etcd_kv kvs[WALKS];
        bool known = false;
        for (size_t k = 0; k < WALKS; k++) {
            kvs[k] = ten_etcd_kv_at(answer, i * WALKS + k, &page->store->scratch);
            known |= kvs[k].revision > 0;
        }
        if (known) {
            r = hand_out_row(page, ids[i], kvs);
            continue;
        }
        for (size_t k = 0; k < WALKS; k++)
            ten_etcd_kv_free(&kvs[k]);
    }
    json_decref(answer);
    return r;
}

int ten_etcd_read_targets(ten_store *base, const char *namespace_name, const char *const *ids, size_t count,
                          ten_row_fn each, void *userdata, uint64_t timeout_ms) {
    ten_query query = {.namespace_name = namespace_name, .filter = TENURE_ALL};
    struct page page = {.store = (ten_etcd_store *)base,
                        .query = &query,
                        .each = each,
                        .userdata = userdata,
                        .deadline_ms = ten_now_ms() + timeout_ms};
    int r = ten_etcd_enter(page.store, namespace_name, page.deadline_ms);
    for (size_t at = 0, some; r == TENURE_OK && at < count; at += some) {
        some = ten_min_u64(count - at, TEN_ETCD_TXN_MAX / WALKS);
        r = read_some(&page, ids + at, some);
    }
    ten_free(page.leases);
    ten_free(page.left_ms);
    return r;
}

/* ---- instances --------------------------------------------------------------------------------------------- */

static int hand_out_instance(ten_etcd_store *store, const json_t *item, size_t prefix_size, uint64_t left_ms,
                             ten_instance_fn each, void *userdata) {
    const char *text = json_string_value(json_object_get(item, "key"));
    if (!text || !ten_base64_decode(&store->value, text) || store->value.size <= prefix_size)
        return TENURE_OK;
    ten_etcd_kv kv = ten_etcd_kv_read(item, &store->scratch);
    uint64_t ttl_ms = ten_etcd_number(kv.value, "ttl_ms");
    if (json_is_true(json_object_get(kv.value, "left"))) {
        ten_etcd_kv_free(&kv);
        return TENURE_OK;
    }
    ten_instance instance = {.instance = store->value.data + prefix_size,
                             .weight = (uint32_t)ten_etcd_number(kv.value, "weight"),
                             .metadata = json_string_value(json_object_get(kv.value, "metadata")),
                             .ttl_ms = ttl_ms,
                             .remaining_ms = ten_min_u64(ten_max_u64(left_ms, 1), ttl_ms),
                             .since_ms = ten_etcd_number(kv.value, "since_ms"),
                             .ask = (enum ten_ask)ten_etcd_number(kv.value, "ask"),
                             .has_session = ten_etcd_number(kv.value, "session") > 0};
    int stopped = each(&instance, userdata);
    ten_etcd_kv_free(&kv);
    return stopped;
}

/* How many of the instances are asked for what is left of them, one request each: all or none. Every instance of a
 * fleet lists all others with each renewal, so that this would grow with the square of the fleet. */
static size_t asked_of(ten_etcd_store *store, size_t count) {
    size_t most = store->listed ? FEW_INSTANCES : MOST_INSTANCES;
    store->listed = true;
    return count <= most ? count : 0;
}

static int hand_out_instances(ten_etcd_store *store, const json_t *nodes, size_t prefix_size, ten_instance_fn each,
                              void *userdata, uint64_t deadline_ms) {
    size_t count = json_array_size(nodes);
    size_t asked = asked_of(store, count);
    uint64_t *leases = ten_calloc(asked + 1, sizeof *leases);
    uint64_t *left_ms = ten_calloc(asked + 1, sizeof *left_ms);
    int r = leases && left_ms ? TENURE_OK : ten_etcd_no_memory(store);
    for (size_t i = 0; r == TENURE_OK && i < asked; i++)
        leases[i] = ten_etcd_number(json_array_get(nodes, i), "lease");
    if (r == TENURE_OK)
        r = ten_etcd_time_left(store, leases, left_ms, asked, deadline_ms);
    for (size_t i = 0; r == TENURE_OK && i < count; i++)
        r = hand_out_instance(store, json_array_get(nodes, i), prefix_size, i < asked ? left_ms[i] : UINT64_MAX, each,
                              userdata);
    ten_free(leases);
    ten_free(left_ms);
    return r;
}

/* Whether an instance of that namespace sends its heartbeats by this handle. */
static bool announces(const ten_etcd_store *store, const char *namespace_name, const char *node_prefix) {
    for (const ten_etcd_group *group = store->groups; group; group = group->next)
        for (size_t i = 0; strcmp(group->namespace_name, namespace_name) == 0 && i < group->count; i++)
            if (strncmp(group->holds[i]->key, node_prefix, strlen(node_prefix)) == 0)
                return true;
    return false;
}

int ten_etcd_list_instances(ten_store *base, const char *namespace_name, ten_instance_fn each, void *userdata,
                            uint64_t timeout_ms) {
    ten_etcd_store *store = (ten_etcd_store *)base;
    uint64_t deadline_ms = ten_now_ms() + timeout_ms;
    char nodes[TEN_ETCD_KEY_MAX + 1];
    char key[TEN_ETCD_KEY_MAX + 1];
    bool succeeded;
    json_t *answer = NULL;
    ten_etcd_txn_clear(&store->txn);
    ten_etcd_key_of(store, nodes, namespace_name, TEN_ETCD_INSTANCE, NULL);
    ten_etcd_txn_get_all(&store->txn, nodes, &(struct ten_etcd_range){0});
    ten_etcd_key_of(store, key, namespace_name, TEN_ETCD_MEMBER, NULL);
    ten_etcd_txn_get_all(&store->txn, key, &(struct ten_etcd_range){.keys_only = true});
    ten_etcd_key_of(store, key, namespace_name, TEN_ETCD_WAIT, NULL);
    ten_etcd_txn_get(&store->txn, key);
    ten_etcd_key_of(store, key, namespace_name, TEN_ETCD_EPOCH, NULL);
    ten_etcd_txn_get(&store->txn, key);
    int r = ten_etcd_commit(store, false, deadline_ms, &succeeded, &answer);
    if (r < 0)
        return r;
    ten_etcd_kv epoch = ten_etcd_kv_at(answer, 3, &store->scratch);
    r = ten_etcd_check_layout(store, namespace_name, epoch.value);
    ten_etcd_kv_free(&epoch);
    if (r == TENURE_OK)
        r = hand_out_instances(store, ten_etcd_kvs(answer, 0), strlen(nodes), each, userdata, deadline_ms);
    /* While the wait lasts, what vanished may have been revoked early: whoever lives announces itself again. */
    bool waits = json_array_size(ten_etcd_kvs(answer, 2)) > 0;
    if (r == TENURE_OK && !waits && announces(store, namespace_name, nodes))
        ten_etcd_tell_expired(store, namespace_name, ten_etcd_kvs(answer, 0), ten_etcd_kvs(answer, 1), deadline_ms);
    json_decref(answer);
    return r;
}
