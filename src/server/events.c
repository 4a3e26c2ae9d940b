/*
 * The event stream. The HTTP thread joins, reads and leaves; the thread here writes.
 */
#include "server/events.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/queue.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/json.h"
#include "base/thread.h"
#include "store/store.h"

#define READERS_MAX    1000u
#define NAMESPACES_MAX 64u /* each has a handle on the store; ten_accounts_stream() shares them out */
#define BUFFER_MAX     ((size_t)512 * 1024)
#define BUFFERS_MAX    ((size_t)32 * 1024 * 1024) /* of all readers */
#define KEPT_ROOM      ((size_t)16 * 1024)        /* of a buffer that was read */
#define EVENT_SIZE     1000u
#define KEEP_ALIVE_MS  15000u
#define BLIND_MS       1000u /* how often a store is read that cannot be watched */

struct ten_event_reader {
    ten_events *events;
    LIST_ENTRY(ten_event_reader) link;
    char namespace_name[TENURE_NAMESPACE_MAX + 1];
    uint64_t cursor; /* it has been given everything up to here */
    bool joined;     /* the thread knows where it stands */
    bool waits;      /* for something to read */
    bool cut_off;    /* its buffer was full, or there is no room for its namespace */
    bool cut;        /* the HTTP thread knows */
    bool busy;       /* the thread catches it up, without the lock */
    bool left;       /* meanwhile: the thread frees it */
    ten_buf text;
    size_t taken; /* of the text */
    void *userdata;
};

/* A namespace that has readers; the thread's own. */
struct feed {
    char name[TENURE_NAMESPACE_MAX + 1];
    ten_store *store; /* NULL: free */
    uint64_t cursor;
};

struct ten_events {
    char *url;
    uint64_t timeout_ms;
    pthread_t thread;
    int work_fd;          /* wakes the thread */
    int ready_fd;         /* wakes the HTTP thread */
    pthread_mutex_t lock; /* around the readers */
    LIST_HEAD(, ten_event_reader) readers;
    size_t count;
    size_t buffered; /* room in the buffers of all readers */
    bool ending;
    atomic_bool closing;
    struct feed feeds[NAMESPACES_MAX];
};

/* ---- text */

static void write_event(const ten_change *change, ten_buf *to) {
    ten_buf_format(to, "id: %llu\nevent: %s\ndata: ", (unsigned long long)change->cursor, ten_event_name(change->kind));
    ten_json_open(to);
    ten_json_time(to, "at", change->at_ms);
    ten_json_text(to, "event", ten_event_name(change->kind));
    ten_json_text(to, "namespace", change->namespace_name);
    ten_json_some_text(to, "target", change->target);
    ten_json_some_text(to, "instance", change->instance);
    ten_json_some(to, "token", change->token);
    if (change->reason)
        ten_json_text(to, "reason", ten_reason_name(change->reason));
    ten_json_some_text(to, "actor", change->actor);
    ten_json_close(to);
    ten_buf_text(to, "\n\n");
}

/* Under the lock. */
static void give(ten_event_reader *reader, const char *text, size_t size) {
    if (reader->cut_off)
        return;
    /* One that is always a little behind would have its buffer grow for ever. */
    if (reader->taken == reader->text.size || reader->taken > BUFFER_MAX) {
        reader->text.size -= reader->taken;
        if (reader->taken > 0)
            memmove(reader->text.data, reader->text.data + reader->taken, reader->text.size);
        reader->taken = 0;
    }
    ten_events *events = reader->events;
    size_t left = reader->text.size - reader->taken;
    /* As much as is still free, like everything that is shared (core/budget.h): slow readers are cut off before those
     * that keep up. */
    size_t most = ten_min_u64(BUFFER_MAX, ten_sub_saturating(BUFFERS_MAX, events->buffered));
    if (left + size > most || reader->text.failed) {
        reader->cut_off = true; /* it comes back with its last id, and gets what it missed, or a resync */
        return;
    }
    size_t room = reader->text.room;
    ten_buf_add(&reader->text, text, size);
    events->buffered += reader->text.room - room;
}

/* ---- the thread */

struct delivery {
    ten_events *events;
    const char *namespace_name;
    ten_event_reader *only; /* NULL: for all of the namespace that are not beyond it */
    ten_buf line;
};

static int deliver(const ten_change *change, void *userdata) {
    struct delivery *delivery = userdata;
    ten_events *events = delivery->events;
    ten_buf_clear(&delivery->line);
    write_event(change, &delivery->line);
    TEN_LOCKED(&events->lock);
    ten_event_reader *reader;
    LIST_FOREACH(reader, &events->readers, link) {
        bool meant = delivery->only ? reader == delivery->only
                                    : reader->joined && strcmp(reader->namespace_name, delivery->namespace_name) == 0;
        if (!meant || (reader->joined && change->cursor <= reader->cursor))
            continue;
        give(reader, delivery->line.data, delivery->line.size);
        reader->cursor = change->cursor;
    }
    return 0;
}

static void tell_resync(ten_events *events, const char *namespace_name, const ten_event_reader *only, uint64_t cursor) {
    char text[128];
    int size = snprintf(text, sizeof text, "id: %llu\nevent: resync\ndata: {\"event\":\"resync\"}\n\n",
                        (unsigned long long)cursor);
    TEN_LOCKED(&events->lock);
    ten_event_reader *reader;
    LIST_FOREACH(reader, &events->readers, link) {
        if (only ? reader != only : strcmp(reader->namespace_name, namespace_name) != 0)
            continue;
        give(reader, text, (size_t)size);
        reader->cursor = cursor;
    }
}

static void read_feed(ten_events *events, struct feed *feed) {
    struct delivery delivery = {.events = events, .namespace_name = feed->name};
    for (bool more = true; more;) {
        uint64_t before = feed->cursor;
        int r = feed->store->ops->changes(feed->store, feed->name, &feed->cursor, EVENT_SIZE, deliver, &delivery,
                                          events->timeout_ms);
        if (r == TENURE_E_RESYNC)
            tell_resync(events, feed->name, NULL, feed->cursor);
        more = r == TENURE_OK && feed->cursor != before; /* what was not read is read later: the cursor stands */
    }
    ten_buf_free(&delivery.line);
}

static struct feed *find_feed(ten_events *events, const char *name) {
    struct feed *free_one = NULL;
    for (size_t i = 0; i < NAMESPACES_MAX; i++) {
        struct feed *feed = &events->feeds[i];
        if (feed->store && strcmp(feed->name, name) == 0)
            return feed;
        if (!feed->store && !free_one)
            free_one = feed;
    }
    return free_one;
}

/* There is no room for its namespace. It is refused, so that the readers behind it need not wait. */
static void turn_away(ten_events *events, ten_event_reader *reader) {
    TEN_LOCKED(&events->lock);
    reader->joined = true;
    reader->cut_off = true;
}

static struct feed *open_feed(ten_events *events, const char *name) {
    struct feed *feed = find_feed(events, name);
    int fd;
    ten_error error;
    if (!feed || feed->store)
        return feed;
    ten_store_config config = {.timeout_ms = events->timeout_ms};
    if (ten_store_open(events->url, &config, &feed->store, &error) < 0)
        return NULL;
    snprintf(feed->name, sizeof feed->name, "%s", name);
    feed->cursor = UINT64_MAX;
    (void)feed->store->ops->watch(feed->store, name, &fd);
    if (feed->store->ops->changes(feed->store, name, &feed->cursor, 1, deliver, NULL, events->timeout_ms) == TENURE_OK)
        return feed;
    ten_store_close(feed->store);
    feed->store = NULL;
    return NULL;
}

/* It was cut off, or is gone. */
static bool is_over(ten_event_reader *reader) {
    TEN_LOCKED(&reader->events->lock);
    return reader->cut_off || reader->left;
}

/* Brings a new reader to where its namespace's feed stands. False: the store does not answer; it is tried again, from
 * where the reader has got to. */
static bool catch_up(ten_events *events, ten_event_reader *reader, struct feed *feed) {
    struct delivery delivery = {.events = events, .namespace_name = feed->name, .only = reader};
    uint64_t cursor = reader->cursor == UINT64_MAX ? feed->cursor : reader->cursor;
    if (cursor > feed->cursor) { /* of another store, or from before it lost what it had */
        cursor = feed->cursor;
        tell_resync(events, feed->name, reader, cursor);
    }
    int r = TENURE_OK;
    /* A reader whose buffer is full gets no more, so that this thread can serve the others. */
    for (uint64_t before = UINT64_MAX;
         r == TENURE_OK && before != cursor && cursor < feed->cursor && !is_over(reader);) {
        before = cursor;
        r = feed->store->ops->changes(feed->store, feed->name, &cursor, EVENT_SIZE, deliver, &delivery,
                                      events->timeout_ms);
        if (r == TENURE_E_RESYNC)
            tell_resync(events, feed->name, reader, cursor);
    }
    ten_buf_free(&delivery.line);
    if (r < 0 && r != TENURE_E_RESYNC)
        return false;
    TEN_LOCKED(&events->lock);
    reader->joined = true;
    reader->cursor = cursor;
    give(reader, ": ok\n\n", 6);
    return true;
}

static ten_event_reader *find_new(ten_events *events) {
    TEN_LOCKED(&events->lock);
    ten_event_reader *reader;
    LIST_FOREACH(reader, &events->readers, link) {
        if (reader->joined)
            continue;
        reader->busy = true;
        break;
    }
    return reader;
}

/* Under the lock: one that has left, and that the thread is done with. */
static void free_reader(ten_event_reader *reader) {
    if (!reader->left || reader->busy)
        return;
    reader->events->buffered -= reader->text.room;
    ten_buf_free(&reader->text);
    ten_free(reader);
}

static void let_go(ten_events *events, ten_event_reader *reader) {
    TEN_LOCKED(&events->lock);
    reader->busy = false;
    free_reader(reader);
}

static bool is_read(ten_events *events, const char *name) {
    TEN_LOCKED(&events->lock);
    ten_event_reader *reader;
    LIST_FOREACH(reader, &events->readers, link)
    if (strcmp(reader->namespace_name, name) == 0)
        return true;
    return false;
}

static void keep_alive(ten_events *events) {
    TEN_LOCKED(&events->lock);
    ten_event_reader *reader;
    LIST_FOREACH(reader, &events->readers, link)
    give(reader, ": \n\n", 4);
}

/* Sleeps until something changed, a reader joined, or the time has passed. */
static void sleep_until_events(ten_events *events, bool blind) {
    struct pollfd polled[NAMESPACES_MAX + 1] = {{.fd = events->work_fd, .events = POLLIN}};
    nfds_t count = 1;
    struct feed *of[NAMESPACES_MAX + 1];
    for (size_t i = 0; i < NAMESPACES_MAX; i++) {
        struct feed *feed = &events->feeds[i];
        int fd;
        if (!feed->store)
            continue;
        if (feed->store->ops->watch(feed->store, feed->name, &fd) < 0) {
            blind = true;
            continue;
        }
        of[count] = feed;
        polled[count++] = (struct pollfd){.fd = fd, .events = POLLIN};
    }
    (void)poll(polled, count, blind ? (int)BLIND_MS : (int)KEEP_ALIVE_MS);
    ten_eventfd_clear(events->work_fd);
    for (nfds_t i = 1; i < count; i++)
        if (polled[i].revents)
            of[i]->store->ops->watch_clear(of[i]->store);
}

/* True: a namespace could not be opened, and is to be tried again. */
static bool welcome(ten_events *events) {
    bool failed = false;
    for (ten_event_reader *reader; !failed && (reader = find_new(events));) {
        struct feed *feed = open_feed(events, reader->namespace_name);
        if (!feed && !find_feed(events, reader->namespace_name))
            turn_away(events, reader);
        else
            failed = !feed || !catch_up(events, reader, feed);
        let_go(events, reader);
    }
    return failed;
}

static void *run(void *arg) {
    ten_events *events = arg;
    uint64_t alive_ms = 0;
    while (!atomic_load(&events->closing)) {
        bool blind = welcome(events);
        for (size_t i = 0; i < NAMESPACES_MAX; i++) {
            struct feed *feed = &events->feeds[i];
            if (feed->store && !is_read(events, feed->name)) {
                ten_store_close(feed->store);
                feed->store = NULL;
            }
            if (feed->store)
                read_feed(events, feed);
        }
        uint64_t now_ms = ten_now_ms();
        if (now_ms >= alive_ms + KEEP_ALIVE_MS) {
            keep_alive(events);
            alive_ms = now_ms;
        }
        ten_eventfd_poke(events->ready_fd);
        sleep_until_events(events, blind);
    }
    return NULL;
}

/* ---- for the HTTP thread */

ten_event_reader *ten_events_join(ten_events *events, const char *namespace_name, uint64_t cursor, void *userdata) {
    ten_event_reader *reader = ten_calloc(1, sizeof *reader);
    if (!reader)
        return NULL;
    *reader = (ten_event_reader){.events = events, .cursor = cursor, .userdata = userdata};
    snprintf(reader->namespace_name, sizeof reader->namespace_name, "%s", namespace_name);
    TEN_LOCKED(&events->lock);
    if (events->count == READERS_MAX || events->ending) {
        ten_free(reader);
        return NULL;
    }
    LIST_INSERT_HEAD(&events->readers, reader, link);
    events->count++;
    ten_eventfd_poke(events->work_fd);
    return reader;
}

void ten_events_leave(ten_event_reader *reader) {
    ten_events *events = reader->events;
    TEN_LOCKED(&events->lock);
    LIST_REMOVE(reader, link);
    events->count--;
    reader->left = true;
    free_reader(reader);
    ten_eventfd_poke(events->work_fd);
}

void ten_events_cut(ten_event_reader *reader) {
    TEN_LOCKED(&reader->events->lock);
    reader->cut_off = true;
    ten_eventfd_poke(reader->events->ready_fd);
}

ssize_t ten_events_read(ten_event_reader *reader, char *text, size_t size) {
    TEN_LOCKED(&reader->events->lock);
    size_t left = reader->text.size - reader->taken;
    ssize_t count = (ssize_t)ten_min_u64(left, size);
    if (count > 0)
        memcpy(text, reader->text.data + reader->taken, (size_t)count);
    reader->taken += (size_t)count;
    if (reader->taken == reader->text.size && reader->text.room > KEPT_ROOM) {
        reader->events->buffered -= reader->text.room;
        ten_buf_free(&reader->text);
        reader->taken = 0;
    }
    reader->waits = count == 0;
    if (count == 0 && (reader->cut_off || reader->events->ending))
        count = -1;
    return count;
}

void ten_events_wake(ten_events *events, void (*resume)(void *userdata), void (*cut)(void *userdata)) {
    ten_eventfd_clear(events->ready_fd);
    TEN_LOCKED(&events->lock);
    ten_event_reader *reader;
    LIST_FOREACH(reader, &events->readers, link) {
        bool ready = reader->text.size > reader->taken || reader->cut_off || events->ending;
        if (reader->waits && ready) {
            reader->waits = false;
            resume(reader->userdata);
        }
        if (reader->cut_off && !reader->cut) {
            reader->cut = true;
            cut(reader->userdata);
        }
    }
}

void ten_events_end(ten_events *events) {
    TEN_LOCKED(&events->lock);
    events->ending = true;
    ten_eventfd_poke(events->ready_fd);
}

int ten_events_fd(const ten_events *events) {
    return events->ready_fd;
}

size_t ten_events_count(ten_events *events) {
    TEN_LOCKED(&events->lock);
    return events->count;
}

/* ---- start and end */

static void free_events(ten_events *events) {
    for (size_t i = 0; i < NAMESPACES_MAX; i++)
        ten_store_close(events->feeds[i].store);
    ten_close_fd(&events->work_fd);
    ten_close_fd(&events->ready_fd);
    pthread_mutex_destroy(&events->lock);
    ten_free(events->url);
    ten_free(events);
}

int ten_events_open(const char *url, uint64_t timeout_ms, ten_events **ret_events, ten_error *error) {
    ten_events *events = ten_calloc(1, sizeof *events);
    if (!events)
        return ten_fail_memory(error, "the server");
    events->timeout_ms = timeout_ms;
    events->work_fd = ten_eventfd_open();
    events->ready_fd = ten_eventfd_open();
    pthread_mutex_init(&events->lock, NULL);
    events->url = url ? ten_strdup(url) : NULL;
    bool made = events->work_fd >= 0 && events->ready_fd >= 0 && (!url || events->url) &&
                ten_thread_start(&events->thread, run, events) == 0;
    if (!made) {
        free_events(events);
        return ten_fail(error, TENURE_E_SYSTEM, "cannot start the thread of the event stream");
    }
    *ret_events = events;
    return TENURE_OK;
}

void ten_events_close(ten_events *events) {
    if (!events)
        return;
    atomic_store(&events->closing, true);
    ten_eventfd_poke(events->work_fd);
    pthread_join(events->thread, NULL);
    free_events(events);
}
