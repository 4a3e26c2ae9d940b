/*
 * The fleet as a part of the driver (core/driver.h).
 */
#include "core/fleet_state.h"

static void expire(void *self, uint64_t now_ms) {
    ten_fleet *fleet = self;
    fleet->now_ms = now_ms;
    ten_fleet_expire(fleet);
}

static uint64_t instances_ms(const void *self) {
    const ten_fleet *fleet = self;
    return fleet->announced && !fleet->left && !fleet->refused ? fleet->next_list_ms : UINT64_MAX;
}

const ten_driver_part ten_fleet_part = {.request = ten_fleet_request,
                                        .answer = ten_fleet_answer,
                                        .expire = expire,
                                        .next_ms = ten_fleet_next_ms,
                                        .deadline_ms = ten_fleet_deadline_ms,
                                        .urgent_ms = ten_fleet_urgent_ms,
                                        .follow = ten_fleet_follow,
                                        .change = ten_fleet_change,
                                        .instances_ms = instances_ms,
                                        .instances_begin = ten_fleet_instances_begin,
                                        .instance = ten_fleet_instance,
                                        .instances_end = ten_fleet_instances_end,
                                        .listing_begin = ten_fleet_begin_listing,
                                        .row = ten_fleet_row,
                                        .listing_end = ten_fleet_end_listing,
                                        .listing_checked = ten_fleet_believe_listing,
                                        .unregistered = ten_fleet_unregistered,
                                        .registrations_end = ten_fleet_registrations_end,
                                        .reread_ms = ten_fleet_reread_ms,
                                        .reread = ten_fleet_reread};
