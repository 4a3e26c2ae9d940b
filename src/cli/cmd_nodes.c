/*
 * tenure nodes: the live instances, with their weight, and their share against the plan.
 */
#include "cli/commands.h"
#include "cli/fleet_listing.h"

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

static void add_row(ten_table *table, const char *namespace_name, const ten_view *view,
                    const ten_view_instance *instance) {
    const ten_metadata_shown *metadata = &instance->metadata;
    TEN_CLEANUP(ten_buf_free) ten_buf labels = {0};
    ten_metadata_show_labels(metadata, &labels);
    (void)TEN_TABLE_ADD(
        table, {"INSTANCE", "instance", .text = instance->id}, {NULL, "namespace", .text = namespace_name},
        {"STATE", "state", .text = state_of(instance)},
        {"WEIGHT", "weight", TEN_COLUMN_NUMBER, .number = instance->weight},
        {"HELD", "held", TEN_COLUMN_NUMBER, .number = instance->held},
        {"PLANNED", "planned", TEN_COLUMN_NUMBER, .number = planned_for(view, instance->id)},
        {"AGE", "since", TEN_COLUMN_AGE, .number = instance->since_ms},
        {"HEARTBEAT LEFT", "remaining_ms", TEN_COLUMN_PERIOD, .number = instance->remaining_ms},
        {NULL, "isolation", TEN_COLUMN_TEXT, .optional = true, .text = ten_or_null(metadata->isolation)},
        {NULL, "role", TEN_COLUMN_TEXT, .optional = true, .text = ten_or_null(metadata->role)},
        {"ADDRESS", "address", TEN_COLUMN_TEXT, .optional = true, .text = ten_or_null(metadata->address)},
        {"LABELS", NULL, .text = ten_or_null(ten_buf_string(&labels))},
        {NULL, "labels", TEN_COLUMN_RAW, .text = ten_or_null(ten_buf_string(&metadata->labels))});
}

static int run(ten_arguments *arguments) {
    TEN_CLEANUP(ten_view_free) ten_view view = {0};
    ten_table table;
    int r = ten_view_read(arguments, &view);
    if (r < 0)
        return ten_arguments_error(arguments, r);
    ten_table_start(&table, arguments);
    for (size_t i = 0; i < view.instance_count; i++)
        add_row(&table, arguments->namespace_name, &view, &view.instances[i]);
    return ten_find_end(arguments, &table, TEN_EXIT_DONE, "instances");
}

const ten_command ten_cmd_nodes = {TEN_HELP_nodes, .takes = TEN_TAKES_NOTHING, .store = TEN_STORE_EXISTING, .run = run};
