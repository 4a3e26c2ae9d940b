/*
 * The manager's thread: it carries the fleet's requests to the store and the answers back, reads lists and changes, and
 * sleeps until something is due or happens. It decides nothing: what to do is src/core/fleet.c's business. A slow store
 * delays it, but no deadline: those are in the slots, which need no thread to end.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/io.h"
#include "runtime/member_state.h"

#define PAGE_SIZE 1000u
#define NEWS_SIZE 1000u
#define FEED_PART 480u /* an eighth of a rank delay: nobody has to hear of a change sooner */
#define RETRY_MS  250u

/* ---- requests */

/* What the request under way tells about this instance; with the lock held, before the answer is taken. */
static void measure(tenure_manager *manager, const ten_op *ops, size_t count, uint64_t took_us, int done) {
    ten_measures *measures = manager->extras.measures;
    if (!measures)
        return;
    ten_measures_answered(measures, done);
    /* The oldest lease is renewed first: if there is a renewal at all, it stands right behind the heartbeat. */
    bool renewal = ops[0].kind == TEN_OP_RENEW || (count > 1 && ops[1].kind == TEN_OP_RENEW);
    if (renewal)
        ten_measures_renewed(measures, took_us, ten_fleet_margin_ms(manager->fleet, ten_manager_now_ms(manager)), done);
}

static void measure_fleet(tenure_manager *manager) {
    ten_measures *measures = manager->extras.measures;
    if (!measures)
        return;
    ten_fleet_unowned unowned = ten_fleet_get_unowned(manager->fleet);
    ten_measures_fleet(measures, ten_fleet_owned_count(manager->fleet), ten_fleet_planned_count(manager->fleet),
                       unowned.count, unowned.since_ms);
}

/* True: something was sent. */
static bool send_request(tenure_manager *manager) {
    size_t count = 0;
    pthread_mutex_lock(&manager->lock);
    const ten_op *ops = ten_fleet_request(manager->fleet, ten_manager_now_ms(manager), &count);
    /* What is being released is taken out of the slots before it is sent. */
    for (size_t i = 0; ops && i < count; i++)
        if (ten_fleet_request_target(manager->fleet, i) != TEN_PLAN_NOBODY)
            ten_manager_publish(manager, ten_fleet_request_target(manager->fleet, i));
    ten_manager_absorb(manager);
    pthread_mutex_unlock(&manager->lock);
    if (!ops)
        return false;
    bool heartbeat = ops[0].kind == TEN_OP_ANNOUNCE;
    uint64_t sent_us = ten_boot_us();
    int done = ten_store_apply(manager->store, ops, manager->results, count, manager->timing.timeout_ms);
    uint64_t took_us = ten_boot_us() - sent_us;
    pthread_mutex_lock(&manager->lock);
    measure(manager, ops, count, took_us, done);
    ten_fleet_answer(manager->fleet, ten_manager_now_ms(manager), done, manager->results);
    for (size_t i = 0; i < count; i++)
        if (ten_fleet_request_target(manager->fleet, i) != TEN_PLAN_NOBODY)
            ten_manager_publish(manager, ten_fleet_request_target(manager->fleet, i));
    ten_manager_absorb(manager);
    measure_fleet(manager);
    pthread_mutex_unlock(&manager->lock);
    /* A notice can be lost; the feed is looked at with each heartbeat, too. */
    manager->feed_due |= heartbeat && done == TENURE_OK;
    return true;
}

static int add_instance(const ten_instance *instance, void *userdata) {
    tenure_manager *manager = userdata;
    pthread_mutex_lock(&manager->lock);
    ten_fleet_instance(manager->fleet, ten_manager_now_ms(manager), instance);
    pthread_mutex_unlock(&manager->lock);
    return 0;
}

static bool read_instances(tenure_manager *manager) {
    pthread_mutex_lock(&manager->lock);
    bool wanted = ten_fleet_wants_instances(manager->fleet, ten_manager_now_ms(manager));
    if (wanted)
        ten_fleet_instances_begin(manager->fleet, ten_manager_now_ms(manager));
    pthread_mutex_unlock(&manager->lock);
    if (!wanted)
        return false;
    int done = manager->store->ops->list_instances(manager->store, manager->namespace_name, add_instance, manager,
                                                   manager->timing.timeout_ms);
    pthread_mutex_lock(&manager->lock);
    if (done == TENURE_OK)
        ten_fleet_instances_end(manager->fleet, ten_manager_now_ms(manager));
    else
        ten_fleet_instances_failed(manager->fleet, ten_manager_now_ms(manager), done);
    ten_manager_absorb(manager);
    pthread_mutex_unlock(&manager->lock);
    return true;
}

/* ---- targets of the registry */

/* Remembers that the listing under way has the target. */
static void mark_listed(tenure_manager *manager, uint32_t number) {
    if (number >= manager->listed_room) {
        uint32_t room = manager->listed_room ? manager->listed_room : 64;
        while (room <= number)
            room *= 2;
        uint32_t *listed = ten_realloc(manager->listed, room * sizeof *listed);
        if (!listed)
            return; /* it may be taken for removed, and comes back with the next listing */
        memset(listed + manager->listed_room, 0, (room - manager->listed_room) * sizeof *listed);
        manager->listed = listed;
        manager->listed_room = room;
    }
    manager->listed[number] = manager->listing;
}

static void put_target(tenure_manager *manager, const ten_row *row) {
    pthread_mutex_lock(&manager->lock);
    uint32_t number =
        ten_fleet_put_target(manager->fleet, ten_manager_now_ms(manager), row->target.id, row->target.paused);
    if (number != TEN_PLAN_NOBODY) {
        mark_listed(manager, number);
        ten_manager_publish(manager, number);
    }
    pthread_mutex_unlock(&manager->lock);
    if (number != TEN_PLAN_NOBODY && manager->extras.on_target)
        manager->extras.on_target(&row->target, false, manager->extras.userdata);
}

static void remove_target(tenure_manager *manager, const char *id) {
    tenure_target target = {.id = id};
    if (manager->extras.on_target)
        manager->extras.on_target(&target, true, manager->extras.userdata);
    pthread_mutex_lock(&manager->lock);
    uint32_t number = ten_plan_find_target(ten_fleet_plan(manager->fleet), id);
    if (number != TEN_PLAN_NOBODY)
        ten_fleet_remove_target(manager->fleet, ten_manager_now_ms(manager), number);
    pthread_mutex_unlock(&manager->lock);
}

static void settle_targets(tenure_manager *manager) {
    pthread_mutex_lock(&manager->lock);
    ten_fleet_targets_settled(manager->fleet, ten_manager_now_ms(manager));
    ten_manager_absorb(manager);
    pthread_mutex_unlock(&manager->lock);
}

/* ---- listing everything */

struct page {
    tenure_manager *manager;
    size_t count;
    char last[TENURE_TARGET_MAX + 1];
};

static int take_row(const ten_row *row, void *userdata) {
    struct page *page = userdata;
    tenure_manager *manager = page->manager;
    page->count++;
    snprintf(page->last, sizeof page->last, "%s", row->target.id);
    if (manager->targets_from_store && row->registered)
        put_target(manager, row);
    pthread_mutex_lock(&manager->lock);
    if (row->holder)
        ten_fleet_holder(manager->fleet, ten_manager_now_ms(manager), row->target.id, row->holder, row->token,
                         row->remaining_ms);
    pthread_mutex_unlock(&manager->lock);
    return 0;
}

/* Targets that were not in a whole listing are gone; without `remove`, whether there are any. */
static bool sweep_targets(tenure_manager *manager, bool remove) {
    const ten_plan *plan = ten_fleet_plan(manager->fleet);
    bool found = false;
    for (uint32_t i = 0; i < manager->listed_room; i++) {
        char id[TENURE_TARGET_MAX + 1] = "";
        pthread_mutex_lock(&manager->lock);
        if (manager->listed[i] && manager->listed[i] != manager->listing && ten_plan_target_id(plan, i))
            snprintf(id, sizeof id, "%s", ten_plan_target_id(plan, i));
        pthread_mutex_unlock(&manager->lock);
        found |= id[0] != '\0';
        if (remove && id[0] != '\0') {
            manager->listed[i] = 0;
            remove_target(manager, id);
        }
    }
    return found;
}

/* Removals come one by one through the feed. A registry that has shrunk otherwise may be that of a store which lost
 * data: it is believed when it still looks like that a TTL later. Returns when to look again. */
static uint64_t doubt_missing_targets(tenure_manager *manager) {
    uint64_t now_ms = ten_manager_now_ms(manager);
    bool believed = manager->shrunk_ms != 0 && now_ms >= manager->shrunk_ms + manager->timing.ttl_ms;
    if (!sweep_targets(manager, believed) || believed)
        manager->shrunk_ms = 0;
    else if (manager->shrunk_ms == 0)
        manager->shrunk_ms = now_ms;
    return manager->shrunk_ms ? manager->shrunk_ms + manager->timing.ttl_ms : UINT64_MAX;
}

static int list_everything(tenure_manager *manager, uint64_t *ret_again_ms) {
    struct page page = {.manager = manager};
    char after[TENURE_TARGET_MAX + 1] = "";
    manager->listing++;
    do {
        page.count = 0;
        ten_query query = {
            .namespace_name = manager->namespace_name, .filter = TENURE_ALL, .after = after, .limit = PAGE_SIZE};
        int done = manager->store->ops->list(manager->store, &query, take_row, &page, manager->timing.timeout_ms);
        if (done < 0)
            return done;
        memcpy(after, page.last, sizeof after);
    } while (page.count == PAGE_SIZE);
    *ret_again_ms = manager->targets_from_store ? doubt_missing_targets(manager) : UINT64_MAX;
    settle_targets(manager);
    return TENURE_OK;
}

/* The cursor first, then the listing: what changes in between is heard of twice rather than never. */
static bool read_everything(tenure_manager *manager) {
    if (ten_manager_now_ms(manager) < manager->listing_due_ms)
        return false;
    uint64_t cursor = UINT64_MAX;
    uint64_t again_ms = UINT64_MAX;
    int done = manager->store->ops->changes(manager->store, manager->namespace_name, &cursor, 1, NULL, NULL,
                                            manager->timing.timeout_ms);
    if (done == TENURE_OK) {
        manager->cursor = cursor;
        pthread_mutex_lock(&manager->lock);
        ten_fleet_resync(manager->fleet, ten_manager_now_ms(manager));
        pthread_mutex_unlock(&manager->lock);
        done = list_everything(manager, &again_ms);
    }
    manager->listing_due_ms = done == TENURE_OK ? again_ms : ten_manager_now_ms(manager) + RETRY_MS;
    return true;
}

/* ---- changes */

/* Copies of the ids whose registration changed: a listing must not be asked for inside another. */
struct news {
    tenure_manager *manager;
    char (*ids)[TENURE_TARGET_MAX + 1];
    size_t count;
    size_t room;
    bool too_many;
};

static void remember(struct news *news, const char *id) {
    if (news->count == news->room) {
        size_t room = news->room ? news->room * 2 : 16;
        void *ids = ten_realloc(news->ids, room * sizeof *news->ids);
        if (!ids) {
            news->too_many = true;
            return;
        }
        news->ids = ids;
        news->room = room;
    }
    snprintf(news->ids[news->count++], sizeof *news->ids, "%s", id);
}

static int take_change(const ten_change *change, void *userdata) {
    struct news *news = userdata;
    tenure_manager *manager = news->manager;
    bool registry =
        change->kind == TEN_TARGET_ADDED || change->kind == TEN_TARGET_CHANGED || change->kind == TEN_TARGET_REMOVED;
    if (registry && manager->targets_from_store)
        remember(news, change->target);
    pthread_mutex_lock(&manager->lock);
    ten_fleet_change(manager->fleet, ten_manager_now_ms(manager), change);
    pthread_mutex_unlock(&manager->lock);
    return 0;
}

struct found {
    tenure_manager *manager;
    bool registered;
};

static int take_one(const ten_row *row, void *userdata) {
    struct found *found = userdata;
    found->registered = row->registered;
    if (row->registered)
        put_target(found->manager, row);
    return 0;
}

static void read_registrations(tenure_manager *manager, struct news *news) {
    for (size_t i = 0; i < news->count && !news->too_many; i++) {
        struct found found = {.manager = manager};
        if (ten_store_list_one(manager->store, manager->namespace_name, news->ids[i], take_one, &found,
                               manager->timing.timeout_ms) < 0)
            news->too_many = true;
        else if (!found.registered)
            remove_target(manager, news->ids[i]);
    }
    if (news->too_many)
        manager->listing_due_ms = ten_manager_now_ms(manager);
    if (news->count > 0)
        settle_targets(manager);
    ten_free(news->ids);
}

static bool read_feed(tenure_manager *manager) {
    uint64_t now_ms = ten_manager_now_ms(manager);
    if (!manager->feed_due || now_ms < manager->feed_ms)
        return false;
    manager->feed_due = false;
    /* The first notice is read at once; when a thousand instances start together, not each of their notices. */
    manager->feed_ms = now_ms + ten_max_u64(manager->timing.ttl_ms / FEED_PART, 1);
    struct news news = {.manager = manager};
    uint64_t before = manager->cursor;
    int done = manager->store->ops->changes(manager->store, manager->namespace_name, &manager->cursor, NEWS_SIZE,
                                            take_change, &news, manager->timing.timeout_ms);
    if (done == TENURE_E_RESYNC)
        manager->listing_due_ms = ten_manager_now_ms(manager);
    manager->feed_due = done == TENURE_OK && manager->cursor != before;
    read_registrations(manager, &news);
    pthread_mutex_lock(&manager->lock);
    ten_manager_absorb(manager);
    pthread_mutex_unlock(&manager->lock);
    return true;
}

/* ---- questions */

static bool answer_question(tenure_manager *manager) {
    pthread_mutex_lock(&manager->lock);
    struct ten_question *question = manager->questions;
    while (question && question->answered)
        question = question->next;
    if (question)
        question->taken = true;
    pthread_mutex_unlock(&manager->lock);
    if (!question)
        return false;
    ten_op op = {.kind = TEN_OP_READ, .namespace_name = manager->namespace_name, .target = question->target};
    ten_result result;
    int done = ten_store_apply(manager->store, &op, &result, 1, manager->timing.timeout_ms);
    pthread_mutex_lock(&manager->lock);
    if (done == TENURE_OK && !(result.holder && strcmp(result.holder, manager->instance) == 0 &&
                               result.token == question->token && !result.barred))
        done = TENURE_E_LOST;
    question->answer = done;
    question->answered = true;
    pthread_cond_broadcast(&manager->changed);
    pthread_mutex_unlock(&manager->lock);
    return true;
}

/* ---- telling, and sleeping */

static void deliver(tenure_manager *manager) {
    if (!manager->on_event)
        return;
    pthread_mutex_lock(&manager->lock);
    while (manager->event_count > 0) {
        tenure_event event = manager->events[manager->event_first];
        manager->event_first = (manager->event_first + 1) % manager->event_room;
        manager->event_count--;
        pthread_mutex_unlock(&manager->lock);
        manager->on_event(&event, manager->userdata);
        pthread_mutex_lock(&manager->lock);
    }
    pthread_mutex_unlock(&manager->lock);
}

static void sleep_until_due(tenure_manager *manager) {
    int watch_fd = -1;
    if (manager->store->ops->watch(manager->store, manager->namespace_name, &watch_fd) < 0)
        watch_fd = -1;
    pthread_mutex_lock(&manager->lock);
    uint64_t now_ms = ten_manager_now_ms(manager);
    uint64_t next_ms = ten_min_u64(ten_fleet_next_ms(manager->fleet, now_ms), manager->listing_due_ms);
    pthread_mutex_unlock(&manager->lock);
    if (manager->feed_due) /* it is known that there is news: when to read it is the question */
        next_ms = ten_min_u64(next_ms, manager->feed_ms);
    uint64_t wait_ms = next_ms == UINT64_MAX ? UINT64_MAX : ten_left_u64(next_ms, now_ms);
    if (watch_fd < 0)
        wait_ms = ten_min_u64(wait_ms, RETRY_MS);
    int woken = ten_wait_readable(manager->wake_fd, manager->feed_due ? -1 : watch_fd, wait_ms);
    uint64_t count;
    if (woken > 0 && (woken & 1))
        (void)ten_read_some(manager->wake_fd, &count, sizeof count);
    if (watch_fd >= 0 && woken > 0 && (woken & 2))
        manager->store->ops->watch_clear(manager->store);
    manager->feed_due |= watch_fd < 0 || (woken > 0 && (woken & 2));
}

void *ten_manager_run(void *arg) {
    tenure_manager *manager = arg;
    for (;;) {
        bool worked = send_request(manager);
        worked |= read_everything(manager);
        worked |= read_instances(manager);
        worked |= read_feed(manager);
        worked |= answer_question(manager);
        deliver(manager);
        pthread_mutex_lock(&manager->lock);
        bool end = manager->quit || manager->stopped;
        pthread_mutex_unlock(&manager->lock);
        if (end)
            break;
        if (!worked)
            sleep_until_due(manager);
    }
    pthread_mutex_lock(&manager->lock);
    manager->stopped = true;
    for (struct ten_question *question = manager->questions; question; question = question->next) {
        question->answer = question->answered ? question->answer : TENURE_E_CANCELLED;
        question->answered = true;
    }
    pthread_cond_broadcast(&manager->changed);
    pthread_mutex_unlock(&manager->lock);
    return NULL;
}
