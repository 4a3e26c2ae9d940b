/*
 * Records in etcd: how they are written, reading and scanning. A record is `NUMBER LIFE NAME VALUE`, where LIFE says
 * what was written of it: ended, endless, or that it ends; the life itself is another key (etcd_state.h). Called
 * through backend.h, and by etcd_commit.c and etcd_touch.c.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/encode.h"
#include "store/etcd/etcd_state.h"

#define ASKED_MAX  64u  /* etcd leases that are asked for the time left: each is a request */
#define LISTED_MAX 16u  /* the same, for people: of more the TTL is told */
#define LAST_MS    100u /* of a lease's last second, how much is left is not known */
#define SCAN_PAGE  500u
#define TTL_DIGITS 24u

static const char *const words[] = {"ended", "endless", "ends"};

/* ---- one record -------------------------------------------------------------------------------------------- */

void ten_etcd_record_write(ten_buf *value, const ten_write *write, enum ten_etcd_life_word word) {
    ten_buf_clear(value);
    ten_buf_format(value, "%llu %s ", (unsigned long long)write->number, words[word]);
    ten_percent_encode_only(value, write->name, " %");
    ten_buf_char(value, ' ');
    ten_buf_text(value, write->value);
}

/* Takes the text apart, in place. False: it is not one of ours. */
static bool parse(char *text, ten_record *record, enum ten_etcd_life_word *ret_word) {
    char *end;
    record->number = strtoull(text, &end, 10);
    char *word = *end == ' ' && end != text ? end + 1 : NULL;
    char *name = word ? strchr(word, ' ') : NULL;
    char *value = name ? strchr(name + 1, ' ') : NULL;
    if (!value)
        return false;
    *name++ = *value++ = '\0';
    for (unsigned i = 0; i < TEN_COUNT(words); i++)
        if (strcmp(word, words[i]) == 0)
            *ret_word = (enum ten_etcd_life_word)i;
    record->name = name;
    record->value = value;
    return ten_percent_decode(name, false);
}

void ten_etcd_record_get(const ten_etcd_store *store, ten_etcd_list *list, ten_key key) {
    ten_etcd_get(list, ten_etcd_record_key(&store->dir, key).text);
    if (ten_etcd_has_life(key.kind))
        ten_etcd_get(list, ten_etcd_life_key(&store->dir, key).text);
}

/* A life without a record was put there by another program: the target is foreign, and nobody may acquire it. */
static int take_life(ten_etcd_store *store, const json_t *item, enum ten_etcd_life_word word, ten_etcd_sight *sight) {
    ten_record *record = &sight->record;
    ten_etcd_kv life = ten_etcd_kv_read(item, &store->scratch);
    bool is_attached = life.revision > 0;
    sight->ttl_ms = strtoull(life.value, NULL, 10);
    sight->in_doubt = record->version && !is_attached && word == TEN_ETCD_ENDS && ten_etcd_is_in_doubt(store);
    record->alive = is_attached || sight->in_doubt;
    /* A record in doubt lives as long as the doubt lasts. */
    sight->lease = sight->in_doubt ? store->space->wait_lease : life.lease;
    record->left_ms = sight->in_doubt ? 1 : !sight->lease ? TEN_FOREVER : ten_max_u64(sight->ttl_ms, 1);
    record->foreign = is_attached && record->version == 0;
    if (record->foreign)
        record->name = ten_arena_text(&store->texts, life.value[0] ? life.value : "?");
    return record->name ? TENURE_OK : ten_etcd_no_memory(store);
}

static int take(ten_etcd_store *store, const json_t *item, const json_t *life_item, ten_etcd_sight *sight) {
    ten_record *record = &sight->record;
    ten_key key = record->key;
    enum ten_etcd_life_word word = TEN_ETCD_ENDED;
    *sight = (ten_etcd_sight){.record = {.key = key, .name = "", .value = "", .ended_ms = TEN_FOREVER}};
    ten_etcd_kv kv = ten_etcd_kv_read(item, &store->scratch);
    record->version = kv.revision;
    char *text = kv.revision ? (char *)ten_arena_text(&store->texts, kv.value) : NULL;
    if (kv.revision && !text)
        return ten_etcd_no_memory(store);
    if (text && !parse(text, record, &word))
        record->name = record->value = "";
    if (ten_etcd_has_life(key.kind))
        return take_life(store, life_item, word, sight);
    record->alive = kv.revision > 0;
    record->left_ms = TEN_FOREVER;
    return TENURE_OK;
}

int ten_etcd_record_take(ten_etcd_store *store, const json_t *answer, size_t *at, ten_etcd_sight *sight) {
    const json_t *item = json_array_get(ten_etcd_kvs(answer, (*at)++), 0);
    bool has_life = ten_etcd_has_life(sight->record.key.kind);
    const json_t *life = has_life ? json_array_get(ten_etcd_kvs(answer, (*at)++), 0) : NULL;
    return take(store, item, life, sight);
}

/* ---- the time that is left --------------------------------------------------------------------------------- */

static bool is_among(const ten_etcd_call *calls, size_t count, uint64_t lease) {
    for (size_t i = 0; i < count; i++)
        if (calls[i].lease == lease)
            return true;
    return false;
}

/* A holder that acquires its own lease again must extend it: the time left is always less than the TTL. */
static void set_left(ten_etcd_sight *sights, size_t count, uint64_t lease, uint64_t left_ms) {
    for (size_t i = 0; i < count; i++)
        if (sights[i].lease == lease)
            sights[i].record.left_ms = ten_max_u64(
                sights[i].in_doubt ? left_ms : ten_min_u64(left_ms, ten_sub_saturating(sights[i].ttl_ms, 1)), 1);
}

/* The time left of etcd leases of this handle is known; of others etcd is asked. */
int ten_etcd_tell_left(ten_etcd_store *store, ten_etcd_sight *sights, size_t count) {
    ten_etcd_call calls[ASKED_MAX];
    size_t asked = 0;
    uint64_t now_ms = ten_boot_ms(store->base.clock);
    for (size_t i = 0; i < count; i++) {
        uint64_t lease = sights[i].lease;
        const ten_etcd_group *group = lease ? ten_etcd_group_by_lease(store, lease) : NULL;
        if (group)
            set_left(&sights[i], 1, lease, ten_sub_saturating(group->sent_ms + group->ttl_ms, now_ms));
        else if (lease && !is_among(calls, asked, lease) && asked == ASKED_MAX)
            set_left(&sights[i], 1, lease, 1);
        else if (lease && !is_among(calls, asked, lease))
            calls[asked++] = (ten_etcd_call){.path = "/v3/lease/timetolive", .lease = lease};
    }
    int r = ten_etcd_ask_all(store, calls, asked);
    for (size_t i = 0; r == TENURE_OK && i < asked; i++) {
        /* Whole seconds, rounded down; -1 when it has gone. */
        const char *text = json_string_value(json_object_get(calls[i].answer, "TTL"));
        long long seconds = calls[i].error < 0 ? -1 : text ? strtoll(text, NULL, 10) : 0;
        set_left(sights, count, calls[i].lease, seconds > 0 ? (uint64_t)seconds * 1000 : seconds < 0 ? 1 : LAST_MS);
    }
    ten_etcd_calls_free(calls, asked);
    return r;
}

static size_t count_leases(const ten_etcd_sight *sights, size_t count) {
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        found += sights[i].lease && (i == 0 || sights[i].lease != sights[i - 1].lease);
    return found;
}

/* ---- reading ----------------------------------------------------------------------------------------------- */

void ten_etcd_reading_add(ten_etcd_store *store, const ten_etcd_sight *sights, size_t count) {
    bool flat = count <= TEN_ETCD_FLAT;
    for (size_t i = 0; flat && i < count; i++)
        ten_etcd_record_get(store, &store->txn.operations, sights[i].record.key);
    for (size_t i = 0; !flat && i < count; i += TEN_ETCD_PART) {
        ten_etcd_txn_clear(&store->part);
        for (size_t j = i; j < count && j < i + TEN_ETCD_PART; j++)
            ten_etcd_record_get(store, &store->part.operations, sights[j].record.key);
        ten_etcd_txn_add_part(&store->txn, &store->part);
    }
}

int ten_etcd_reading_take(ten_etcd_store *store, const json_t *answer, size_t operation, ten_etcd_sight *sights,
                          size_t count) {
    bool flat = count <= TEN_ETCD_FLAT;
    int r = TENURE_OK;
    for (size_t i = 0, at = operation; r == TENURE_OK && i < count; i++) {
        at = flat || i % TEN_ETCD_PART ? at : 0;
        const json_t *part = flat ? answer : ten_etcd_part(answer, operation + i / TEN_ETCD_PART);
        r = ten_etcd_record_take(store, part, &at, &sights[i]);
    }
    return r;
}

int ten_etcd_look(ten_etcd_store *store, ten_etcd_sight *sights, size_t count) {
    int r = TENURE_OK;
    for (size_t i = 0; r == TENURE_OK && (i < count || i == 0); i += TEN_ETCD_READING_MAX) {
        size_t some = ten_min_u64(count - i, TEN_ETCD_READING_MAX);
        json_t *answer = NULL;
        ten_etcd_state_begin(store);
        ten_etcd_reading_add(store, sights + i, some);
        r = ten_etcd_state_send(store, &answer);
        if (r == TENURE_OK)
            r = ten_etcd_reading_take(store, answer, TEN_ETCD_STATE_READS, sights + i, some);
        json_decref(answer);
    }
    return r;
}

/* A reader that notices a change of leader writes the new term. If it may not, or etcd has no room, the doubt stays. */
static int notice_term(ten_etcd_store *store) {
    if (!store->space->term_revision || store->space->term == store->head.term)
        return TENURE_OK;
    int r = ten_etcd_set_term(store, 0);
    return r == TENURE_E_FULL || r == TENURE_E_DENIED ? TENURE_OK : r;
}

static int read_once(ten_etcd_store *store, ten_etcd_sight *sights, size_t count) {
    int r = ten_etcd_enter(store);
    if (r == TENURE_OK)
        r = ten_etcd_look(store, sights, count);
    if (r == TENURE_OK)
        r = notice_term(store);
    if (r == TENURE_OK)
        r = ten_etcd_tell_left(store, sights, count);
    return r == TENURE_OK ? ten_etcd_confirm(store) : r;
}

int ten_etcd_read(ten_backend *base, const char *namespace_name, ten_record *records, size_t count,
                  uint64_t timeout_ms) {
    ten_etcd_store *store = (ten_etcd_store *)base;
    int r = ten_etcd_begin(store, namespace_name, timeout_ms);
    ten_etcd_sight *sights = r == TENURE_OK ? ten_calloc(count + 1, sizeof *sights) : NULL;
    if (!sights)
        return ten_etcd_no_memory(store);
    for (size_t i = 0; i < count; i++)
        sights[i].record.key = records[i].key;
    r = read_once(store, sights, count);
    if (r < 0 && store->is_older)
        r = read_once(store, sights, count);
    for (size_t i = 0; r == TENURE_OK && i < count; i++)
        records[i] = sights[i].record;
    ten_free(sights);
    return r;
}

/* ---- scanning ---------------------------------------------------------------------------------------------- */

struct page {
    ten_etcd_sight sights[SCAN_PAGE];
    size_t count;
    size_t limit;
    bool more;
    char after[TENURE_HOLDER_MAX + 1];
};

/* The id of an item whose key begins with so many bytes. */
static const char *id_of(ten_etcd_store *store, const json_t *item, size_t size) {
    const char *key = ten_etcd_kv_key(item, &store->scratch);
    return strlen(key) > size ? ten_arena_text(&store->texts, key + size) : NULL;
}

/* Adds the reading of a page of keys below that one. */
static void get_page(ten_etcd_store *store, const struct page *page, const ten_etcd_key *dir) {
    ten_etcd_key from = *dir;
    strncat(from.text, page->after, sizeof from.text - strlen(from.text) - 1);
    ten_etcd_get_all(&store->txn.operations, dir->text,
                     &(struct ten_etcd_range){.after = page->after[0] ? from.text : NULL, .limit = page->limit});
}

/* The life that is of that id, from *at on; those before it are of no record. NULL: the record has none. */
static const json_t *find_life(ten_etcd_store *store, const json_t *lives, size_t *at, size_t dir_size,
                               const char *id) {
    for (; *at < json_array_size(lives); ++*at) {
        const json_t *life = json_array_get(lives, *at);
        const char *key = ten_etcd_kv_key(life, &store->scratch);
        int order = strlen(key) > dir_size ? strcmp(key + dir_size, id) : -1;
        if (order >= 0)
            return order == 0 ? life : NULL;
    }
    return NULL;
}

/* As many lives as records are read: those of the records are among them, but for what others have put there. Leases
 * with a name have an index of their own: few are held among many that are known. */
static int scan_page(ten_etcd_store *store, const ten_scan *scan, bool by_name, struct page *page) {
    ten_etcd_key dir = by_name ? ten_etcd_place(&store->dir, TEN_ETCD_NAMED, NULL)
                               : ten_etcd_record_key(&store->dir, (ten_key){scan->kind, ""});
    ten_etcd_key life_dir = ten_etcd_life_key(&store->dir, (ten_key){scan->kind, ""});
    json_t *answer = NULL;
    ten_etcd_state_begin(store);
    get_page(store, page, &dir);
    if (!by_name && ten_etcd_has_life(scan->kind))
        get_page(store, page, &life_dir);
    int r = ten_etcd_state_send(store, &answer);
    const json_t *items = ten_etcd_kvs(answer, TEN_ETCD_STATE_READS);
    const json_t *lives = ten_etcd_kvs(answer, TEN_ETCD_STATE_READS + 1);
    page->more = r == TENURE_OK && ten_etcd_has_more(answer, TEN_ETCD_STATE_READS);
    for (size_t i = 0, life = 0; r == TENURE_OK && i < json_array_size(items) && page->count < SCAN_PAGE; i++) {
        const json_t *item = json_array_get(items, i);
        const char *id = id_of(store, item, strlen(dir.text));
        if (!id && scan->kind > TEN_KIND_QUARANTINE)
            continue;
        id = id ? id : "";
        ten_etcd_sight *sight = &page->sights[page->count++];
        sight->record.key = (ten_key){scan->kind, id};
        if (!by_name)
            r = take(store, item, find_life(store, lives, &life, strlen(life_dir.text), id), sight);
        ten_copy_text(page->after, sizeof page->after, id);
    }
    json_decref(answer);
    return r == TENURE_OK && by_name && page->count > 0 ? ten_etcd_look(store, page->sights, page->count) : r;
}

static int scan_pages(ten_etcd_store *store, const ten_scan *scan, struct page *page, ten_record_fn each,
                      void *userdata) {
    int r = TENURE_OK;
    size_t given = 0;
    bool by_name = scan->kind == TEN_KIND_LEASE && scan->names == TEN_SCAN_NAMED;
    ten_copy_text(page->after, sizeof page->after, scan->after);
    for (page->more = true; r == TENURE_OK && page->more && given < scan->limit;) {
        page->limit = scan->names == TEN_SCAN_ALL || by_name ? ten_min_u64(scan->limit - given, SCAN_PAGE) : SCAN_PAGE;
        page->count = 0;
        r = scan_page(store, scan, by_name, page);
        if (r == TENURE_OK && count_leases(page->sights, page->count) <= LISTED_MAX)
            r = ten_etcd_tell_left(store, page->sights, page->count);
        for (size_t i = 0; r == TENURE_OK && i < page->count && given < scan->limit; i++) {
            const ten_record *record = &page->sights[i].record;
            bool named = record->name[0] != '\0';
            if (record->version == 0 || (scan->names != TEN_SCAN_ALL && named != (scan->names == TEN_SCAN_NAMED)))
                continue;
            given++;
            r = each(record, userdata);
        }
    }
    return r;
}

/* ---- namespaces -------------------------------------------------------------------------------------------- */

static int scan_namespaces(ten_etcd_store *store, const ten_scan *scan, ten_record_fn each, void *userdata) {
    ten_etcd_key dir = ten_etcd_namespace_key(&(ten_etcd_dir){store->settings.prefix, ""});
    ten_etcd_key from = ten_etcd_namespace_key(&(ten_etcd_dir){store->settings.prefix, scan->after});
    json_t *answer = NULL;
    ten_etcd_txn_clear(&store->txn);
    ten_etcd_get_all(&store->txn.operations, dir.text, &(struct ten_etcd_range){.after = from.text});
    int r = ten_etcd_send(store, false, &answer);
    const json_t *items = ten_etcd_kvs(answer, 0);
    for (size_t i = 0, given = 0; r == TENURE_OK && i < json_array_size(items) && given < scan->limit; i++) {
        ten_etcd_sight sight = {.record.key = {TEN_KIND_NAMESPACE, ""}};
        const char *name = id_of(store, json_array_get(items, i), strlen(dir.text));
        r = name ? ten_etcd_use(store, name) : TENURE_OK;
        if (name && r == TENURE_OK)
            r = ten_etcd_look(store, &sight, 1);
        if (r < 0 || sight.record.version == 0)
            continue; /* its keys were deleted by hand */
        given++;
        sight.record.key.id = name;
        r = each(&sight.record, userdata);
    }
    json_decref(answer);
    return r;
}

int ten_etcd_scan(ten_backend *base, const ten_scan *scan, ten_record_fn each, void *userdata, uint64_t timeout_ms) {
    ten_etcd_store *store = (ten_etcd_store *)base;
    int r = ten_etcd_begin(store, scan->namespace_name, timeout_ms);
    struct page *page = r == TENURE_OK ? ten_calloc(1, sizeof *page) : NULL;
    r = page ? ten_etcd_enter(store) : ten_etcd_no_memory(store);
    if (r == TENURE_OK)
        r = scan->namespace_name ? scan_pages(store, scan, page, each, userdata)
                                 : scan_namespaces(store, scan, each, userdata);
    ten_free(page);
    return r;
}
