/*
 * tenure nodes: the live instances, with their weight, and their share against the plan.
 */
#include <stdio.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/find.h"
#include "cli/fleet_listing.h"
#include "cli/table.h"

static size_t planned_for(const ten_view *view, const char *id) {
    uint32_t number = ten_plan_find_instance(view->plan, id);
    return number == TEN_PLAN_NONE ? 0 : ten_plan_share(view->plan, number);
}

/* A candidate has no weight, because no target is planned for it. */
static const char *state_of(const ten_view_instance *instance) {
    bool is_candidate = instance->metadata.role[0] != '\0';
    if (instance->draining || (instance->weight == 0 && !is_candidate))
        return "draining";
    return !is_candidate ? "live" : instance->held ? "leading" : "waiting";
}

static void print_json(const ten_session *session, const ten_view *view, const ten_view_instance *instance) {
    ten_buf line = {0};
    ten_json_open(&line);
    ten_json_text(&line, "instance", instance->id);
    ten_json_text(&line, "namespace", session->namespace_name);
    ten_json_text(&line, "state", state_of(instance));
    ten_json_number(&line, "weight", instance->weight);
    ten_json_number(&line, "held", instance->held);
    ten_json_number(&line, "planned", planned_for(view, instance->id));
    ten_json_time(&line, "since", instance->since_ms);
    ten_json_number(&line, "remaining_ms", instance->remaining_ms);
    if (instance->metadata.isolation[0])
        ten_json_text(&line, "isolation", instance->metadata.isolation);
    if (instance->metadata.role[0])
        ten_json_text(&line, "role", instance->metadata.role);
    if (instance->metadata.address[0])
        ten_json_text(&line, "address", instance->metadata.address);
    if (instance->metadata.labels.size)
        ten_json_raw(&line, "labels", ten_buf_string(&instance->metadata.labels));
    ten_json_close(&line);
    puts(ten_buf_string(&line));
    ten_buf_free(&line);
}

static void add_row(ten_table *table, const ten_view *view, const ten_view_instance *instance) {
    char weight[16];
    char held[24];
    char planned[24];
    char remaining[TEN_DURATION_SIZE];
    char age[TEN_DURATION_SIZE];
    snprintf(weight, sizeof weight, "%u", instance->weight);
    snprintf(held, sizeof held, "%zu", instance->held);
    snprintf(planned, sizeof planned, "%zu", planned_for(view, instance->id));
    ten_duration_show(instance->remaining_ms, remaining);
    if (instance->since_ms)
        ten_duration_show(ten_sub_saturating(ten_wall_ms(&ten_system_clock), instance->since_ms), age);
    else
        snprintf(age, sizeof age, "-"); /* another program's: it does not say */
    const char *address = instance->metadata.address[0] ? instance->metadata.address : "-";
    ten_buf labels = {0};
    ten_metadata_show_labels(&instance->metadata, &labels);
    ten_table_row(table, (const char *const[]){instance->id, state_of(instance), weight, held, planned, age, remaining,
                                               address, labels.size ? ten_buf_string(&labels) : "-"});
    ten_buf_free(&labels);
}

int ten_cmd_nodes(const ten_command *command, int argc, char **argv) {
    static const char *const headings[] = {"INSTANCE", "STATE",          "WEIGHT",  "HELD",  "PLANNED",
                                           "AGE",      "HEARTBEAT LEFT", "ADDRESS", "LABELS"};
    ten_session session;
    int exit_code;
    if (!ten_session_parse(&session, command, NULL, argc, argv, &exit_code))
        return exit_code;
    if (session.count != 0)
        return ten_session_usage(&session, "nodes takes no arguments");
    if (!ten_session_open(&session, &exit_code))
        return exit_code;
    ten_view view;
    int r = ten_view_read(&session, &view);
    if (r < 0)
        return ten_session_close(&session, ten_session_error(&session, r));
    ten_table table;
    ten_table_start(&table, headings, TEN_COUNT(headings));
    for (size_t i = 0; i < view.instance_count; i++) {
        if (session.json)
            print_json(&session, &view, &view.instances[i]);
        else
            add_row(&table, &view, &view.instances[i]);
    }
    bool complete = ten_table_end(&table);
    if (view.instance_count == 0)
        ten_find_nothing(&session, "instances");
    ten_view_free(&view);
    return ten_session_close(&session, complete ? TEN_EXIT_DONE : TEN_EXIT_FAILED);
}
