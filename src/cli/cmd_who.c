/*
 * tenure who: the leader of a role and those who wait to lead it, once.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/find.h"
#include "cli/fleet_listing.h"
#include "cli/table.h"

struct listing {
    const ten_session *session;
    const ten_view *view;
    ten_table table;
    size_t leaders;
};

static void print_json(const struct listing *listing, const char *target, const char *state, const char *instance,
                       const char *address, uint64_t since_ms, uint64_t token) {
    ten_buf line = {0};
    ten_json_open(&line);
    ten_json_text(&line, "target", target);
    ten_json_text(&line, "namespace", listing->session->namespace_name);
    ten_json_text(&line, "state", state);
    ten_json_text(&line, "instance", instance);
    if (token)
        ten_json_number(&line, "token", token);
    ten_json_time(&line, "since", since_ms);
    if (address[0])
        ten_json_text(&line, "address", address);
    ten_json_close(&line);
    puts(ten_buf_string(&line));
    ten_buf_free(&line);
}

static void add(struct listing *listing, const char *target, const char *state, const char *instance, uint64_t since_ms,
                uint64_t token) {
    const ten_view_instance *known = ten_view_instance_find(listing->view, instance);
    const char *address = known ? known->metadata.address : "";
    char age[TEN_DURATION_SIZE] = "-";
    char number[24] = "-";
    if (listing->session->json) {
        print_json(listing, target, state, instance, address, since_ms, token);
        return;
    }
    if (since_ms)
        ten_duration_show(ten_sub_saturating(ten_wall_ms(&ten_system_clock), since_ms), age);
    if (token)
        snprintf(number, sizeof number, "%llu", (unsigned long long)token);
    ten_table_row(&listing->table,
                  (const char *const[]){target, state, instance, number, age, address[0] ? address : "-"});
}

static bool leads(const ten_view *view, const char *role, const char *instance) {
    for (size_t i = 0; i < view->target_count; i++)
        if (ten_view_is_of_role(view->targets[i].target, role) && strcmp(view->targets[i].holder, instance) == 0)
            return true;
    return false;
}

static void list(struct listing *listing) {
    const ten_view *view = listing->view;
    const char *role = listing->session->arguments[0];
    for (size_t i = 0; i < view->target_count; i++) {
        const tenure_info *info = &view->targets[i];
        if (!ten_view_is_of_role(info->target, role) || info->holder[0] == '\0')
            continue;
        listing->leaders++;
        add(listing, info->target, "leading", info->holder, info->acquired_at_ms, info->token);
    }
    for (size_t i = 0; i < view->instance_count; i++) {
        const ten_view_instance *instance = &view->instances[i];
        if (strcmp(instance->metadata.role, role) == 0 && !leads(view, role, instance->id))
            add(listing, role, instance->draining ? "drained" : "waiting", instance->id, instance->since_ms, 0);
    }
}

int ten_cmd_who(const ten_command *command, int argc, char **argv) {
    static const char *const headings[] = {"ROLE", "STATE", "INSTANCE", "TOKEN", "FOR", "ADDRESS"};
    ten_session session;
    int exit_code;
    if (!ten_session_parse(&session, command, NULL, argc, argv, &exit_code))
        return exit_code;
    if (session.count != 1)
        return ten_session_usage(&session, "who takes one role");
    exit_code = ten_session_check_roles(&session);
    if (exit_code || !ten_session_open(&session, &exit_code))
        return exit_code;
    if (!ten_find_namespace(&session, &(ten_wanted){TEN_WANTED_ROLE, session.arguments[0], 0}, &exit_code))
        return exit_code;
    ten_view view;
    int r = ten_view_read(&session, &view);
    if (r < 0)
        return ten_session_close(&session, ten_session_error(&session, r));
    struct listing listing = {.session = &session, .view = &view};
    ten_table_start(&listing.table, headings, TEN_COUNT(headings));
    list(&listing);
    bool complete = ten_table_end(&listing.table);
    ten_view_free(&view);
    if (listing.leaders == 0)
        ten_session_note(&session, "nobody leads %s", session.arguments[0]);
    return ten_session_close(&session, complete && listing.leaders > 0 ? TEN_EXIT_DONE : TEN_EXIT_FAILED);
}
