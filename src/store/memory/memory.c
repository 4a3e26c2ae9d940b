/*
 * The memory backend: a store inside one process, for tests and the simulator. `memory:NAME` is shared by all handles
 * of the process that name it, as long as one of them is open; `memory:` alone is private. Nothing survives the last
 * close. It is the plainest backend there is: read it first to learn what a backend does.
 */
#include "store/memory/memory.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/io.h"
#include "store/common/record_key.h"
#include "store/record_store.h"

struct kept {
    char key[TEN_RECORD_KEY_SIZE]; /* namespace, kind and id, in the order of scans */
    ten_record record;             /* as answers have it, but for its life */
    uint64_t ends_ms;              /* boot clock: dead from then on; TEN_FOREVER: never */
    char *texts;                   /* its value and its name */
};

struct told {
    ten_entry entry;
    char *texts; /* namespace, text and id; NULL: it was taken out */
};

struct memory;

struct ten_memory_core {
    char *name;            /* "": private */
    struct kept **records; /* sorted by their keys */
    uint32_t count, room;
    uint64_t last_version;
    uint64_t calls;
    struct told *feed; /* of all namespaces: a ring */
    size_t feed_room, feed_first, feed_count;
    ten_feed_range range;
    uint64_t identity;
    bool lost;
    uint64_t lost_ms;
    struct memory *handles; /* while there is one */
    struct ten_memory_core *next;
};

struct memory {
    ten_backend base;
    struct ten_memory_core *core;
    ten_arena texts; /* of the last answer */
    uint64_t now_ms; /* boot clock, the same for all of it */
    int watch_fd;
    struct memory *next;
};

/* Of all cores: it is held for microseconds. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ten_memory_core *cores;

static int no_memory(struct memory *memory) {
    return ten_fail_memory(memory->base.error, "the memory store");
}

/* ---- records ------------------------------------------------------------------------------------------- */

/* Where the key is, or would be. */
static size_t place_of(const struct ten_memory_core *core, const char *key) {
    size_t low = 0;
    for (size_t high = core->count; low < high;) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(core->records[middle]->key, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct kept *find(const struct ten_memory_core *core, const char *namespace_name, ten_key key) {
    char text[TEN_RECORD_KEY_SIZE];
    (void)ten_record_key(text, namespace_name, key);
    size_t place = place_of(core, text);
    return place < core->count && strcmp(core->records[place]->key, text) == 0 ? core->records[place] : NULL;
}

static struct kept *make(struct ten_memory_core *core, const char *namespace_name, ten_key key) {
    struct kept *kept = TEN_GROW(core->records, core->room, core->count + 1) ? ten_calloc(1, sizeof *kept) : NULL;
    if (!kept)
        return NULL;
    size_t size = ten_record_key(kept->key, namespace_name, key);
    kept->record.key = (ten_key){key.kind, kept->key + size};
    size_t place = place_of(core, kept->key);
    memmove(core->records + place + 1, core->records + place, (core->count - place) * sizeof *core->records);
    core->records[place] = kept;
    core->count++;
    return kept;
}

static void drop(struct ten_memory_core *core, struct kept *kept) {
    size_t place = place_of(core, kept->key);
    core->count--;
    memmove(core->records + place, core->records + place + 1, (core->count - place) * sizeof *core->records);
    ten_free(kept->texts);
    ten_free(kept);
}

/* Texts one after the other, in one piece of memory. NULL: there is none. */
static char *join(const char *const *texts, size_t count) {
    size_t size = 0;
    for (size_t i = 0; i < count; i++)
        size += strlen(texts[i]) + 1;
    char *joined = ten_malloc(size);
    for (size_t i = 0, at = 0; joined && i < count; at += strlen(texts[i++]) + 1)
        memcpy(joined + at, texts[i], strlen(texts[i]) + 1);
    return joined;
}

/* As it is now. NULL: it is absent. */
static ten_record show(const struct kept *kept, uint64_t now_ms) {
    if (!kept)
        return (ten_record){.name = ""};
    ten_record record = kept->record;
    record.alive = kept->ends_ms > now_ms;
    record.left_ms = kept->ends_ms == TEN_FOREVER ? TEN_FOREVER : ten_sub_saturating(kept->ends_ms, now_ms);
    record.ended_ms = ten_sub_saturating(now_ms, kept->ends_ms);
    return record;
}

/* Others may change the record when the lock is free again. */
static bool tell(struct memory *memory, const struct kept *kept, ten_record *record) {
    ten_key key = record->key;
    *record = show(kept, memory->now_ms);
    record->key = key;
    if (!kept)
        return true;
    record->value = ten_arena_text(&memory->texts, record->value);
    record->name = ten_arena_text(&memory->texts, record->name);
    return record->value && record->name;
}

/* Every answer starts with this, under the lock; nothing waits but for that. */
static struct memory *answer(ten_backend *base, uint64_t timeout_ms) {
    struct memory *memory = (struct memory *)base;
    (void)timeout_ms;
    pthread_mutex_lock(&lock);
    memory->core->calls++;
    ten_arena_reset(&memory->texts);
    memory->now_ms = ten_boot_ms(memory->base.clock);
    memory->base.wall_ms = ten_wall_ms(memory->base.clock);
    snprintf(memory->base.identity, sizeof memory->base.identity, "memory-%llu",
             (unsigned long long)memory->core->identity);
    memory->base.lost = memory->core->lost;
    memory->base.lost_ms = memory->core->lost_ms;
    return memory;
}

static int memory_read(ten_backend *base, const char *namespace_name, ten_record *records, size_t count,
                       uint64_t timeout_ms) {
    struct memory *memory = answer(base, timeout_ms);
    bool told = true;
    for (size_t i = 0; told && i < count; i++)
        told = tell(memory, find(memory->core, namespace_name, records[i].key), &records[i]);
    pthread_mutex_unlock(&lock);
    return told ? TENURE_OK : no_memory(memory);
}

static int memory_scan(ten_backend *base, const ten_scan *scan, ten_record_fn each, void *userdata,
                       uint64_t timeout_ms) {
    struct memory *memory = answer(base, timeout_ms);
    struct ten_memory_core *core = memory->core;
    char key[TEN_RECORD_KEY_SIZE];
    size_t given = 0;
    int stopped = 0;
    const char *of = scan->namespace_name ? scan->namespace_name : "";
    size_t prefix = ten_record_key(key, of, (ten_key){scan->kind, scan->after});
    size_t same = of[0] ? prefix : 0;
    for (size_t i = same ? place_of(core, key) : 0; !stopped && given < scan->limit && i < core->count; i++) {
        const struct kept *kept = core->records[i];
        ten_record record = show(kept, memory->now_ms);
        char namespace_name[TENURE_NAMESPACE_MAX + 1];
        if (strncmp(kept->key, key, same) != 0)
            break;
        if (!same) { /* of all namespaces */
            snprintf(namespace_name, sizeof namespace_name, "%.*s", (int)strcspn(kept->key, " "), kept->key);
            record.key.id = namespace_name;
        }
        bool named = record.name[0] != '\0';
        if (record.key.kind != scan->kind || strcmp(record.key.id, scan->after) <= 0 ||
            (scan->names != TEN_SCAN_ALL && named != (scan->names == TEN_SCAN_NAMED)))
            continue;
        given++;
        stopped = each(&record, userdata);
    }
    pthread_mutex_unlock(&lock);
    return stopped;
}

/* ---- the feed ------------------------------------------------------------------------------------------ */

static struct told *told_at(const struct ten_memory_core *core, size_t at) {
    return &core->feed[(core->feed_first + at) % core->feed_room];
}

static void take_out(struct told *told) {
    ten_free(told->texts);
    told->texts = NULL;
}

static bool add_entry(struct memory *memory, const char *namespace_name, const ten_entry *entry, uint64_t least) {
    struct ten_memory_core *core = memory->core;
    const char *const texts[] = {namespace_name, entry->text, entry->id ? entry->id : ""};
    if (!core->feed)
        core->feed = ten_calloc(core->feed_room, sizeof *core->feed);
    char *joined = core->feed ? join(texts, TEN_COUNT(texts)) : NULL;
    if (!joined)
        return false;
    if (core->feed_count == core->feed_room) {
        core->range.before = told_at(core, 0)->entry.number;
        take_out(told_at(core, 0));
        core->feed_first = (core->feed_first + 1) % core->feed_room;
        core->feed_count--;
    }
    const char *text = joined + strlen(namespace_name) + 1;
    const char *id = text + strlen(text) + 1;
    core->range.last = ten_max_u64(core->range.last, least) + 1;
    *told_at(core, core->feed_count++) = (struct told){
        .entry = {.id = id[0] ? id : NULL, .text = text, .number = core->range.last, .at_ms = memory->base.wall_ms},
        .texts = joined};
    return true;
}

static int memory_feed(ten_backend *base, const char *namespace_name, uint64_t after, size_t limit, ten_entry_fn each,
                       void *userdata, ten_feed_range *ret_range, uint64_t timeout_ms) {
    struct memory *memory = answer(base, timeout_ms);
    const struct ten_memory_core *core = memory->core;
    int stopped = 0;
    *ret_range = core->range;
    bool missing = after < core->range.before || after > core->range.last;
    size_t at = missing ? 0 : core->feed_count; /* the first behind the cursor: most readers have nearly all */
    while (at > 0 && told_at(core, at - 1)->entry.number > after)
        at--;
    for (size_t given = 0; !missing && !stopped && given < limit && at < core->feed_count; at++) {
        const struct told *told = told_at(core, at);
        if (!told->texts || strcmp(told->texts, namespace_name) != 0)
            continue;
        given++;
        stopped = each(&told->entry, userdata);
    }
    pthread_mutex_unlock(&lock);
    return stopped;
}

static int memory_unfeed(ten_backend *base, const char *namespace_name, const char *const *ids, size_t count,
                         uint64_t timeout_ms) {
    struct memory *memory = answer(base, timeout_ms);
    for (size_t i = 0; i < memory->core->feed_count; i++) {
        struct told *told = told_at(memory->core, i);
        for (size_t j = 0; told->texts && told->entry.id && j < count; j++)
            if (strcmp(told->entry.id, ids[j]) == 0 && strcmp(told->texts, namespace_name) == 0)
                take_out(told);
    }
    pthread_mutex_unlock(&lock);
    return TENURE_OK;
}

/* ---- commit -------------------------------------------------------------------------------------------- */

static bool holds(struct memory *memory, const char *namespace_name, const ten_check *check) {
    ten_record record = show(find(memory->core, namespace_name, check->key), memory->now_ms);
    return (check->version == TEN_VERSION_ANY || check->version == record.version) &&
           (check->life == TEN_CHECK_EITHER || record.alive == (check->life == TEN_CHECK_ALIVE));
}

/* Nothing has been written yet. */
static bool judge(struct memory *memory, const char *namespace_name, ten_commit_change *change) {
    bool told = true;
    for (size_t i = 0; i < change->check_count; i++)
        change->conflict |= !holds(memory, namespace_name, &change->checks[i]);
    for (size_t i = 0; told && change->conflict && i < change->check_count; i++) {
        change->checks[i].present.key = change->checks[i].key;
        told = tell(memory, find(memory->core, namespace_name, change->checks[i].key), &change->checks[i].present);
    }
    return told;
}

static uint64_t end_of(struct memory *memory, const char *namespace_name, const struct kept *kept,
                       const ten_life *life) {
    uint64_t now_ms = memory->now_ms;
    if (life->kind != TEN_LIFE_LATEST)
        return life->kind == TEN_LIFE_ENDLESS ? TEN_FOREVER : now_ms;
    uint64_t end_ms = life->as_it_is ? kept->ends_ms : 0;
    const struct kept *other = life->with.id ? find(memory->core, namespace_name, life->with) : NULL;
    if (other && other->ends_ms > now_ms)
        end_ms = ten_max_u64(end_ms, other->ends_ms);
    return life->ttl_ms ? ten_max_u64(end_ms, now_ms + life->ttl_ms) : end_ms;
}

static bool put(struct memory *memory, const char *namespace_name, ten_write *write) {
    struct ten_memory_core *core = memory->core;
    struct kept *kept = find(core, namespace_name, write->key);
    if (write->kind == TEN_WRITE_REMOVE) {
        if (kept)
            drop(core, kept);
        return true;
    }
    if (write->kind == TEN_WRITE_RAISE) {
        if (kept)
            write->version = kept->record.version = ++core->last_version;
        return true;
    }
    const char *const texts[] = {write->value, write->name};
    char *joined = join(texts, TEN_COUNT(texts));
    if (joined && !kept)
        kept = make(core, namespace_name, write->key);
    if (!joined || !kept) {
        ten_free(joined);
        return false;
    }
    kept->ends_ms = end_of(memory, namespace_name, kept, &write->life);
    ten_free(kept->texts);
    kept->texts = joined;
    kept->record.value = joined;
    kept->record.name = joined + strlen(joined) + 1;
    kept->record.number = write->number;
    write->version = kept->record.version = ++core->last_version;
    return true;
}

/* Whether the caller relies on what is so. */
static bool is_epoch(struct memory *memory, const char *namespace_name, const char *identity, uint64_t epoch) {
    const struct kept *space = find(memory->core, namespace_name, (ten_key){TEN_KIND_NAMESPACE, ""});
    return strcmp(memory->base.identity, identity) == 0 && space && strcmp(space->record.name, identity) == 0 &&
           space->record.number == epoch;
}

static void wake_all(const struct ten_memory_core *core) {
    for (const struct memory *handle = core->handles; handle; handle = handle->next)
        if (handle->watch_fd >= 0)
            ten_eventfd_poke(handle->watch_fd);
}

static bool carry_out(struct memory *memory, const ten_commit *commit, ten_commit_change *change) {
    bool done = true;
    for (size_t i = 0; done && i < change->write_count; i++)
        done = put(memory, commit->namespace_name, &change->writes[i]);
    for (size_t i = 0; done && i < change->entry_count; i++)
        done = add_entry(memory, commit->namespace_name, &change->entries[i], commit->least_number);
    if (change->entry_count > 0)
        wake_all(memory->core);
    return done;
}

static int memory_commit(ten_backend *base, ten_commit *commit, uint64_t timeout_ms) {
    struct memory *memory = answer(base, timeout_ms);
    bool done = true;
    bool same = ten_commit_writes_namespace(commit)
                    ? strcmp(base->identity, commit->identity) == 0
                    : is_epoch(memory, commit->namespace_name, commit->identity, commit->epoch);
    for (size_t i = 0; same && done && i < commit->count; i++)
        done = judge(memory, commit->namespace_name, &commit->changes[i]);
    for (size_t i = 0; same && done && i < commit->count; i++)
        if (!commit->changes[i].conflict)
            done = carry_out(memory, commit, &commit->changes[i]);
    pthread_mutex_unlock(&lock);
    return !same ? TEN_OTHER_EPOCH : done ? TENURE_OK : no_memory(memory);
}

static int memory_touch(ten_backend *base, const char *namespace_name, const char *identity, uint64_t epoch,
                        ten_touch *touches, size_t count, uint64_t timeout_ms) {
    struct memory *memory = answer(base, timeout_ms);
    bool same = !namespace_name || is_epoch(memory, namespace_name, identity, epoch);
    uint64_t now_ms = memory->now_ms;
    for (size_t i = 0; same && i < count; i++) {
        struct kept *kept = find(memory->core, namespace_name, touches[i].key);
        bool meant = kept && (touches[i].version == TEN_VERSION_ANY || touches[i].version == kept->record.version);
        touches[i].present = kept ? kept->record.version : 0;
        touches[i].extended = meant && kept->ends_ms > now_ms && kept->ends_ms <= now_ms + touches[i].ttl_ms &&
                              strcmp(kept->record.name, touches[i].name) == 0;
        if (touches[i].extended)
            kept->ends_ms = now_ms + touches[i].ttl_ms;
    }
    pthread_mutex_unlock(&lock);
    return same ? TENURE_OK : TEN_OTHER_EPOCH;
}

/* ---- the handle ---------------------------------------------------------------------------------------- */

static int memory_watch(ten_backend *base, const char *namespace_name, int *ret_fd) {
    (void)namespace_name; /* whatever changes wakes everybody */
    struct memory *memory = (struct memory *)base;
    pthread_mutex_lock(&lock);
    if (memory->watch_fd < 0)
        memory->watch_fd = ten_eventfd_open();
    int failed = memory->watch_fd < 0 ? errno : 0;
    pthread_mutex_unlock(&lock);
    *ret_fd = memory->watch_fd;
    return failed ? ten_fail_errno(base->error, TENURE_E_SYSTEM, failed, "cannot watch the memory store") : TENURE_OK;
}

static void memory_watch_clear(ten_backend *base) {
    struct memory *memory = (struct memory *)base;
    if (memory->watch_fd >= 0)
        ten_eventfd_clear(memory->watch_fd);
}

static int memory_check(ten_backend *base, tenure_check_fn each, void *userdata, uint64_t timeout_ms) {
    (void)base;
    (void)timeout_ms;
    each(TENURE_CHECK_WARN, "durability", "this store lives inside one process and ends with it",
         "use it in tests only; sqlite:PATH is the embedded store", userdata);
    return TENURE_OK;
}

static struct ten_memory_core *get_core(const char *name) {
    for (struct ten_memory_core *core = cores; core; core = core->next)
        if (name[0] != '\0' && strcmp(core->name, name) == 0)
            return core;
    struct ten_memory_core *core = ten_calloc(1, sizeof *core);
    char *copy = ten_strdup(name);
    if (!core || !copy) {
        ten_free(core);
        ten_free(copy);
        return NULL;
    }
    *core = (struct ten_memory_core){.name = copy, .feed_room = TEN_FEED_MAX, .next = cores};
    return cores = core;
}

static int memory_open(ten_backend *base, const ten_url *url, uint64_t timeout_ms) {
    static const char *const options[] = {"timeout", NULL};
    struct memory *memory = (struct memory *)base;
    (void)timeout_ms;
    memory->watch_fd = -1;
    int r = ten_url_check_options(url, options, base->error);
    if (r < 0)
        return r;
    pthread_mutex_lock(&lock);
    memory->core = get_core(url->path);
    if (memory->core) {
        memory->next = memory->core->handles;
        memory->core->handles = memory;
    }
    pthread_mutex_unlock(&lock);
    return memory->core ? TENURE_OK : no_memory(memory);
}

static void free_core(struct ten_memory_core *core) {
    struct ten_memory_core **at = &cores;
    while (*at != core)
        at = &(*at)->next;
    *at = core->next;
    while (core->count > 0)
        drop(core, core->records[core->count - 1]);
    for (size_t i = 0; i < core->feed_count; i++)
        take_out(told_at(core, i));
    ten_free(core->records);
    ten_free(core->feed);
    ten_free(core->name);
    ten_free(core);
}

static void leave(const struct memory *memory) {
    struct memory **at = &memory->core->handles;
    while (*at != memory)
        at = &(*at)->next;
    *at = memory->next;
    if (!memory->core->handles)
        free_core(memory->core);
}

static void memory_close(ten_backend *base) {
    struct memory *memory = (struct memory *)base;
    pthread_mutex_lock(&lock);
    if (memory->core)
        leave(memory);
    pthread_mutex_unlock(&lock);
    ten_close_fd(&memory->watch_fd);
    ten_arena_free(&memory->texts);
}

static const ten_backend_ops memory_ops = {
    .size = sizeof(struct memory),
    .open = memory_open,
    .close = memory_close,
    .read = memory_read,
    .commit = memory_commit,
    .touch = memory_touch,
    .scan = memory_scan,
    .feed = memory_feed,
    .unfeed = memory_unfeed,
    .watch = memory_watch,
    .watch_clear = memory_watch_clear,
    .check = memory_check,
};

const ten_store_ops ten_memory_ops = TEN_RECORD_STORE("memory", &memory_ops,
                                                      .capabilities = {.ttl_min_ms = TENURE_TTL_MIN_MS,
                                                                       .hands = true,
                                                                       .sessions = true,
                                                                       .expiry_clock = "this process's boot clock",
                                                                       .change_notice = "direct"});

/* ---- for tests ----------------------------------------------------------------------------------------- */

struct ten_memory_core *ten_memory_core_of(ten_store *store) {
    return ((struct memory *)((ten_record_store *)store)->backend)->core;
}

ten_record ten_memory_look(struct ten_memory_core *core, const char *namespace_name, enum ten_kind kind, const char *id,
                           uint64_t now_ms) {
    return show(find(core, namespace_name, (ten_key){kind, id}), now_ms);
}

uint64_t ten_memory_calls(const struct ten_memory_core *core) {
    return core->calls;
}

uint64_t ten_memory_last_number(const struct ten_memory_core *core) {
    return core->range.last;
}

void ten_memory_set_feed_room(struct ten_memory_core *core, size_t room) {
    core->feed_room = room;
}

void ten_memory_lose(struct ten_memory_core *core, const char *namespace_name, enum ten_kind kind, const char *id) {
    char key[TEN_RECORD_KEY_SIZE];
    core->calls++;
    size_t same = ten_record_key(key, namespace_name, (ten_key){kind, id ? id : ""});
    for (size_t i = place_of(core, key); i < core->count;) {
        struct kept *kept = core->records[i];
        if (strncmp(kept->key, key, same) != 0 || (id && strcmp(kept->record.key.id, id) != 0))
            break;
        drop(core, kept);
    }
}

void ten_memory_replace(struct ten_memory_core *core, uint64_t lost_ms) {
    core->identity++;
    core->lost = true;
    core->lost_ms = lost_ms;
}
