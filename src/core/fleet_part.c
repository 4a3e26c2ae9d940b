/*
 * The fleet as a part of the driver (core/driver.h): its functions in the form that the driver calls.
 */
#include "core/fleet_state.h"

static const ten_op *request(void *self, uint64_t now_ms, size_t *ret_count) {
    return ten_fleet_request(self, now_ms, ret_count);
}

static void answer(void *self, uint64_t now_ms, int error, const ten_result *results) {
    ten_fleet_answer(self, now_ms, error, results);
}

static void expire(void *self, uint64_t now_ms) {
    ten_fleet *fleet = self;
    fleet->now_ms = now_ms;
    ten_fleet_expire(fleet);
}

static uint64_t next_ms(const void *self, uint64_t now_ms) {
    return ten_fleet_next_ms(self, now_ms);
}

static uint64_t deadline_ms(const void *self) {
    return ten_fleet_deadline_ms(self);
}

static uint64_t urgent_ms(const void *self) {
    return ten_fleet_urgent_ms(self);
}

static void follow(void *self, uint64_t now_ms, uint64_t sent_ms) {
    (void)sent_ms;
    ten_fleet_follow(self, now_ms);
}

static void change(void *self, uint64_t now_ms, uint64_t sent_ms, const ten_change *entry) {
    (void)sent_ms;
    ten_fleet_change(self, now_ms, entry);
}

static uint64_t instances_ms(const void *self) {
    const ten_fleet *fleet = self;
    return fleet->announced && !fleet->left && !fleet->refused ? fleet->next_list_ms : UINT64_MAX;
}

static void instances_begin(void *self, uint64_t now_ms) {
    ten_fleet_instances_begin(self, now_ms);
}

static void instance(void *self, uint64_t now_ms, const ten_instance *listed) {
    ten_fleet_instance(self, now_ms, listed);
}

static void instances_end(void *self, uint64_t now_ms, int error) {
    ten_fleet_instances_end(self, now_ms, error);
}

static void listing_begin(void *self, uint64_t now_ms) {
    (void)now_ms;
    ten_fleet_begin_listing(self);
}

static void row(void *self, uint64_t now_ms, const ten_row *listed) {
    ten_fleet_row(self, now_ms, listed);
}

static uint64_t listing_end(void *self, uint64_t now_ms) {
    return ten_fleet_end_listing(self, now_ms);
}

static void unregistered(void *self, uint64_t now_ms, const char *target) {
    ten_fleet_unregistered(self, now_ms, target);
}

static void registrations_end(void *self, uint64_t now_ms) {
    ten_fleet_targets_settled(self, now_ms);
}

const ten_driver_part ten_fleet_part = {.request = request,
                                        .answer = answer,
                                        .expire = expire,
                                        .next_ms = next_ms,
                                        .deadline_ms = deadline_ms,
                                        .urgent_ms = urgent_ms,
                                        .follow = follow,
                                        .change = change,
                                        .instances_ms = instances_ms,
                                        .instances_begin = instances_begin,
                                        .instance = instance,
                                        .instances_end = instances_end,
                                        .listing_begin = listing_begin,
                                        .row = row,
                                        .listing_end = listing_end,
                                        .unregistered = unregistered,
                                        .registrations_end = registrations_end};
