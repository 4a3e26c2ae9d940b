/*
 * The thread of a fleet member: it carries the fleet's requests to the store and the answers back, reads lists and
 * changes, and sleeps until something is due or happens. What is held and released is decided in src/core. What is
 * decided here is when the store is read: how the feed is paced, when everything is listed again, and when a registry
 * that has shrunk is trusted. A slow store delays the thread, but no deadline: those are in the beliefs
 * (runtime/beliefs.h), which expire without any thread.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/io.h"
#include "runtime/member_state.h"

#define PAGE_SIZE  1000u
#define EVENT_SIZE 1000u
#define FEED_PART  480u /* an eighth of a rank delay: nobody has to hear of a change sooner */
#define RETRY_MS   250u

/* ---- requests */

/* What the request under way tells about this instance; with the lock held, before the answer is taken. */
static void measure(tenure_member *member, const ten_op *ops, size_t count, uint64_t took_us, int r) {
    ten_measures *measures = member->extras.measures;
    if (!measures)
        return;
    ten_measures_answered(measures, r);
    /* The oldest lease is renewed first: if there is a renewal at all, it stands right behind the heartbeat. */
    bool renewal = ops[0].kind == TEN_OP_RENEW || (count > 1 && ops[1].kind == TEN_OP_RENEW);
    if (renewal)
        ten_measures_renewed(measures, took_us, ten_fleet_margin_ms(member->fleet, ten_member_now_ms(member)), r);
}

static void measure_fleet(tenure_member *member) {
    ten_measures *measures = member->extras.measures;
    if (!measures)
        return;
    ten_fleet_unowned unowned = ten_fleet_get_unowned(member->fleet);
    ten_measures_fleet(measures, ten_fleet_owned_count(member->fleet), ten_fleet_planned_count(member->fleet),
                       unowned.count, unowned.since_ms);
}

/* True: something was sent. */
static bool send_request(tenure_member *member) {
    size_t count = 0;
    pthread_mutex_lock(&member->lock);
    const ten_op *ops = ten_fleet_request(member->fleet, ten_member_now_ms(member), &count);
    /* What is being released is taken out of the beliefs before it is sent. */
    for (size_t i = 0; ops && i < count; i++)
        if (ten_fleet_request_target(member->fleet, i) != TEN_PLAN_NONE)
            ten_member_publish(member, ten_fleet_request_target(member->fleet, i));
    ten_member_absorb(member);
    pthread_mutex_unlock(&member->lock);
    if (!ops)
        return false;
    bool heartbeat = ops[0].kind == TEN_OP_ANNOUNCE;
    uint64_t sent_us = ten_boot_us();
    int r = ten_store_apply(member->store, ops, member->results, count, member->timing.timeout_ms);
    uint64_t took_us = ten_boot_us() - sent_us;
    pthread_mutex_lock(&member->lock);
    measure(member, ops, count, took_us, r);
    ten_fleet_answer(member->fleet, ten_member_now_ms(member), r, member->results);
    for (size_t i = 0; i < count; i++)
        if (ten_fleet_request_target(member->fleet, i) != TEN_PLAN_NONE)
            ten_member_publish(member, ten_fleet_request_target(member->fleet, i));
    ten_member_absorb(member);
    measure_fleet(member);
    pthread_mutex_unlock(&member->lock);
    /* A notice can be lost; the feed is looked at with each heartbeat, too. */
    member->feed_due |= heartbeat && r == TENURE_OK;
    return true;
}

static int add_instance(const ten_instance *instance, void *userdata) {
    tenure_member *member = userdata;
    pthread_mutex_lock(&member->lock);
    ten_fleet_instance(member->fleet, ten_member_now_ms(member), instance);
    pthread_mutex_unlock(&member->lock);
    return 0;
}

static bool read_instances(tenure_member *member) {
    pthread_mutex_lock(&member->lock);
    bool wanted = ten_fleet_wants_instances(member->fleet, ten_member_now_ms(member));
    if (wanted)
        ten_fleet_instances_begin(member->fleet, ten_member_now_ms(member));
    pthread_mutex_unlock(&member->lock);
    if (!wanted)
        return false;
    int r = member->store->ops->list_instances(member->store, member->namespace_name, add_instance, member,
                                               member->timing.timeout_ms);
    pthread_mutex_lock(&member->lock);
    if (r == TENURE_OK)
        ten_fleet_instances_end(member->fleet, ten_member_now_ms(member));
    else
        ten_fleet_instances_failed(member->fleet, ten_member_now_ms(member), r);
    ten_member_absorb(member);
    pthread_mutex_unlock(&member->lock);
    return true;
}

/* ---- targets of the registry */

/* Remembers that the listing under way has the target. */
static void mark_listed(tenure_member *member, uint32_t number) {
    if (number >= member->listed_room) {
        uint32_t room = member->listed_room ? member->listed_room : 64;
        while (room <= number)
            room *= 2;
        uint32_t *listed = ten_realloc(member->listed, room * sizeof *listed);
        if (!listed)
            return; /* it may be taken for removed, and comes back with the next listing */
        memset(listed + member->listed_room, 0, (room - member->listed_room) * sizeof *listed);
        member->listed = listed;
        member->listed_room = room;
    }
    member->listed[number] = member->listing;
}

static void put_target(tenure_member *member, const ten_row *row) {
    pthread_mutex_lock(&member->lock);
    uint32_t number =
        ten_fleet_put_target(member->fleet, ten_member_now_ms(member), row->target.id, row->target.paused);
    if (number != TEN_PLAN_NONE) {
        mark_listed(member, number);
        ten_member_publish(member, number);
    }
    pthread_mutex_unlock(&member->lock);
    if (number != TEN_PLAN_NONE && member->extras.on_target)
        member->extras.on_target(&row->target, false, member->extras.userdata);
}

static void remove_target(tenure_member *member, const char *id) {
    tenure_target target = {.id = id};
    if (member->extras.on_target)
        member->extras.on_target(&target, true, member->extras.userdata);
    pthread_mutex_lock(&member->lock);
    uint32_t number = ten_plan_find_target(ten_fleet_plan(member->fleet), id);
    if (number != TEN_PLAN_NONE)
        ten_fleet_remove_target(member->fleet, ten_member_now_ms(member), number);
    pthread_mutex_unlock(&member->lock);
}

static void settle_targets(tenure_member *member) {
    pthread_mutex_lock(&member->lock);
    ten_fleet_targets_settled(member->fleet, ten_member_now_ms(member));
    ten_member_absorb(member);
    pthread_mutex_unlock(&member->lock);
}

/* ---- listing everything */

struct page {
    tenure_member *member;
    size_t count;
    char last[TENURE_TARGET_MAX + 1];
};

static int take_row(const ten_row *row, void *userdata) {
    struct page *page = userdata;
    tenure_member *member = page->member;
    page->count++;
    snprintf(page->last, sizeof page->last, "%s", row->target.id);
    if (member->targets_from_store && row->registered)
        put_target(member, row);
    pthread_mutex_lock(&member->lock);
    if (row->holder)
        ten_fleet_holder(member->fleet, ten_member_now_ms(member), row->target.id, row->holder, row->token,
                         row->remaining_ms);
    pthread_mutex_unlock(&member->lock);
    return 0;
}

/* Targets that were not in a whole listing are gone; without `remove`, whether there are any. */
static bool sweep_targets(tenure_member *member, bool remove) {
    const ten_plan *plan = ten_fleet_plan(member->fleet);
    bool found = false;
    for (uint32_t i = 0; i < member->listed_room; i++) {
        char id[TENURE_TARGET_MAX + 1] = "";
        pthread_mutex_lock(&member->lock);
        if (member->listed[i] && member->listed[i] != member->listing && ten_plan_target_id(plan, i))
            snprintf(id, sizeof id, "%s", ten_plan_target_id(plan, i));
        pthread_mutex_unlock(&member->lock);
        found |= id[0] != '\0';
        if (remove && id[0] != '\0') {
            member->listed[i] = 0;
            remove_target(member, id);
        }
    }
    return found;
}

/* Removals come one by one through the feed. A registry that has shrunk otherwise may be that of a store which lost
 * data: it is believed when it still looks like that a TTL later. Returns when to look again. */
static uint64_t doubt_missing_targets(tenure_member *member) {
    uint64_t now_ms = ten_member_now_ms(member);
    bool believed = member->shrunk_ms != 0 && now_ms >= member->shrunk_ms + member->timing.ttl_ms;
    if (!sweep_targets(member, believed) || believed)
        member->shrunk_ms = 0;
    else if (member->shrunk_ms == 0)
        member->shrunk_ms = now_ms;
    return member->shrunk_ms ? member->shrunk_ms + member->timing.ttl_ms : UINT64_MAX;
}

static int list_everything(tenure_member *member, uint64_t *ret_again_ms) {
    struct page page = {.member = member};
    char after[TENURE_TARGET_MAX + 1] = "";
    member->listing++;
    do {
        page.count = 0;
        ten_query query = {
            .namespace_name = member->namespace_name, .filter = TENURE_ALL, .after = after, .limit = PAGE_SIZE};
        int r = member->store->ops->list(member->store, &query, take_row, &page, member->timing.timeout_ms);
        if (r < 0)
            return r;
        memcpy(after, page.last, sizeof after);
    } while (page.count == PAGE_SIZE);
    *ret_again_ms = member->targets_from_store ? doubt_missing_targets(member) : UINT64_MAX;
    settle_targets(member);
    return TENURE_OK;
}

/* The cursor first, then the listing: what changes in between is heard of twice rather than never. */
static bool read_everything(tenure_member *member) {
    if (ten_member_now_ms(member) < member->listing_due_ms)
        return false;
    uint64_t cursor = UINT64_MAX;
    uint64_t again_ms = UINT64_MAX;
    int r = member->store->ops->changes(member->store, member->namespace_name, &cursor, 1, NULL, NULL,
                                        member->timing.timeout_ms);
    if (r == TENURE_OK) {
        member->cursor = cursor;
        pthread_mutex_lock(&member->lock);
        ten_fleet_resync(member->fleet, ten_member_now_ms(member));
        pthread_mutex_unlock(&member->lock);
        r = list_everything(member, &again_ms);
    }
    member->listing_due_ms = r == TENURE_OK ? again_ms : ten_member_now_ms(member) + RETRY_MS;
    return true;
}

/* ---- changes */

/* Copies of the ids whose registration changed: a listing must not be asked for inside another. */
struct events {
    tenure_member *member;
    char (*ids)[TENURE_TARGET_MAX + 1];
    size_t count;
    size_t room;
    bool too_many;
};

static void remember(struct events *events, const char *id) {
    if (events->count == events->room) {
        size_t room = events->room ? events->room * 2 : 16;
        void *ids = ten_realloc(events->ids, room * sizeof *events->ids);
        if (!ids) {
            events->too_many = true;
            return;
        }
        events->ids = ids;
        events->room = room;
    }
    snprintf(events->ids[events->count++], sizeof *events->ids, "%s", id);
}

static int take_change(const ten_change *change, void *userdata) {
    struct events *events = userdata;
    tenure_member *member = events->member;
    bool registry =
        change->kind == TEN_TARGET_ADDED || change->kind == TEN_TARGET_CHANGED || change->kind == TEN_TARGET_REMOVED;
    if (registry && member->targets_from_store)
        remember(events, change->target);
    pthread_mutex_lock(&member->lock);
    ten_fleet_change(member->fleet, ten_member_now_ms(member), change);
    pthread_mutex_unlock(&member->lock);
    return 0;
}

struct found {
    tenure_member *member;
    bool registered;
};

static int take_one(const ten_row *row, void *userdata) {
    struct found *found = userdata;
    found->registered = row->registered;
    if (row->registered)
        put_target(found->member, row);
    return 0;
}

static void read_registrations(tenure_member *member, struct events *events) {
    for (size_t i = 0; i < events->count && !events->too_many; i++) {
        struct found found = {.member = member};
        if (ten_store_list_one(member->store, member->namespace_name, events->ids[i], take_one, &found,
                               member->timing.timeout_ms) < 0)
            events->too_many = true;
        else if (!found.registered)
            remove_target(member, events->ids[i]);
    }
    if (events->too_many)
        member->listing_due_ms = ten_member_now_ms(member);
    if (events->count > 0)
        settle_targets(member);
    ten_free(events->ids);
}

static bool read_feed(tenure_member *member) {
    uint64_t now_ms = ten_member_now_ms(member);
    if (!member->feed_due || now_ms < member->feed_ms)
        return false;
    member->feed_due = false;
    /* The first notice is read at once; when a thousand instances start together, not each of their notices. */
    member->feed_ms = now_ms + ten_max_u64(member->timing.ttl_ms / FEED_PART, 1);
    struct events events = {.member = member};
    uint64_t before = member->cursor;
    int r = member->store->ops->changes(member->store, member->namespace_name, &member->cursor, EVENT_SIZE, take_change,
                                        &events, member->timing.timeout_ms);
    if (r == TENURE_E_RESYNC)
        member->listing_due_ms = ten_member_now_ms(member);
    member->feed_due = r == TENURE_OK && member->cursor != before;
    read_registrations(member, &events);
    pthread_mutex_lock(&member->lock);
    ten_member_absorb(member);
    pthread_mutex_unlock(&member->lock);
    return true;
}

/* ---- questions */

static bool answer_question(tenure_member *member) {
    pthread_mutex_lock(&member->lock);
    struct ten_question *question = member->questions;
    while (question && question->answered)
        question = question->next;
    if (question)
        question->taken = true;
    pthread_mutex_unlock(&member->lock);
    if (!question)
        return false;
    ten_op op = {.kind = TEN_OP_READ, .namespace_name = member->namespace_name, .target = question->target};
    ten_result result;
    int r = ten_store_apply(member->store, &op, &result, 1, member->timing.timeout_ms);
    pthread_mutex_lock(&member->lock);
    if (r == TENURE_OK && !(result.holder && strcmp(result.holder, member->instance) == 0 &&
                            result.token == question->token && !result.barred))
        r = TENURE_E_LOST;
    question->answer = r;
    question->answered = true;
    pthread_cond_broadcast(&member->changed);
    pthread_mutex_unlock(&member->lock);
    return true;
}

/* ---- telling, and sleeping */

static void deliver(tenure_member *member) {
    if (!member->on_event)
        return;
    pthread_mutex_lock(&member->lock);
    while (member->event_count > 0) {
        tenure_event event = member->events[member->event_first];
        member->event_first = (member->event_first + 1) % member->event_room;
        member->event_count--;
        pthread_mutex_unlock(&member->lock);
        member->on_event(&event, member->userdata);
        pthread_mutex_lock(&member->lock);
    }
    pthread_mutex_unlock(&member->lock);
}

static void sleep_until_due(tenure_member *member) {
    int watch_fd = -1;
    if (member->store->ops->watch(member->store, member->namespace_name, &watch_fd) < 0)
        watch_fd = -1;
    pthread_mutex_lock(&member->lock);
    uint64_t now_ms = ten_member_now_ms(member);
    uint64_t next_ms = ten_min_u64(ten_fleet_next_ms(member->fleet, now_ms), member->listing_due_ms);
    pthread_mutex_unlock(&member->lock);
    if (member->feed_due) /* it is known that there are events: when to read it is the question */
        next_ms = ten_min_u64(next_ms, member->feed_ms);
    uint64_t wait_ms = next_ms == UINT64_MAX ? UINT64_MAX : ten_sub_saturating(next_ms, now_ms);
    if (watch_fd < 0)
        wait_ms = ten_min_u64(wait_ms, RETRY_MS);
    int woken = ten_wait_readable(member->wake_fd, member->feed_due ? -1 : watch_fd, wait_ms);
    if (woken > 0 && (woken & 1))
        ten_eventfd_clear(member->wake_fd);
    if (watch_fd >= 0 && woken > 0 && (woken & 2))
        member->store->ops->watch_clear(member->store);
    member->feed_due |= watch_fd < 0 || (woken > 0 && (woken & 2));
}

void *ten_member_run(void *arg) {
    tenure_member *member = arg;
    for (;;) {
        bool worked = send_request(member);
        worked |= read_everything(member);
        worked |= read_instances(member);
        worked |= read_feed(member);
        worked |= answer_question(member);
        deliver(member);
        pthread_mutex_lock(&member->lock);
        bool end = member->quit || member->stopped;
        pthread_mutex_unlock(&member->lock);
        if (end)
            break;
        if (!worked)
            sleep_until_due(member);
    }
    pthread_mutex_lock(&member->lock);
    member->stopped = true;
    for (struct ten_question *question = member->questions; question; question = question->next) {
        question->answer = question->answered ? question->answer : TENURE_E_CANCELLED;
        question->answered = true;
    }
    pthread_cond_broadcast(&member->changed);
    pthread_mutex_unlock(&member->lock);
    return NULL;
}
