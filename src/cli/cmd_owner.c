/*
 * tenure owner: which instance holds a target, where it can be reached, and under which token. For routing.
 */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/find.h"
#include "cli/visible.h"
#include "runtime/metadata.h"

struct search {
    const char *holder;
    ten_metadata_shown found;
    bool is_found;
};

static int look(const tenure_instance *instance, void *userdata) {
    struct search *search = userdata;
    if (strcmp(instance->instance, search->holder) != 0)
        return 0;
    ten_metadata_read(instance->metadata, &search->found);
    search->is_found = true;
    return 1;
}

static void print(const ten_session *session, const tenure_info *info, const ten_metadata_shown *holder) {
    if (!session->json) {
        ten_print_visible(stdout, info->holder);
        printf("\t");
        ten_print_visible(stdout, holder->address[0] ? holder->address : "-");
        printf("\t%llu\n", (unsigned long long)info->token);
        return;
    }
    ten_buf line = {0};
    ten_json_open(&line);
    ten_json_text(&line, "target", info->target);
    ten_json_text(&line, "namespace", session->namespace_name);
    ten_json_text(&line, "instance", info->holder);
    ten_json_text(&line, "address", holder->address[0] ? holder->address : NULL);
    ten_json_number(&line, "token", info->token);
    ten_json_raw(&line, "labels", holder->labels.size ? ten_buf_string(&holder->labels) : "{}");
    ten_json_number(&line, "remaining_ms", info->remaining_ms);
    ten_json_close(&line);
    puts(ten_buf_string(&line));
    ten_buf_free(&line);
}

int ten_cmd_owner(const ten_command *command, int argc, char **argv) {
    ten_session session;
    int exit_code;
    if (!ten_session_parse(&session, command, NULL, argc, argv, &exit_code))
        return exit_code;
    if (session.count != 1)
        return ten_session_usage(&session, "owner takes one target id");
    exit_code = ten_session_check_targets(&session, 0);
    if (exit_code || !ten_session_open(&session, &exit_code))
        return exit_code;
    if (!ten_find_namespace(&session, &(ten_wanted){TEN_WANTED_HELD, session.arguments[0], 0}, &exit_code))
        return exit_code;
    tenure_info info = {.size = sizeof info};
    int r = tenure_target_read(session.context, session.arguments[0], &info);
    struct search search = {.holder = info.holder};
    if (r == TENURE_OK && info.holder[0])
        r = tenure_instance_list(session.context, look, &search);
    if (r < 0 && r != TENURE_E_UNKNOWN_TARGET)
        return ten_session_close(&session, ten_session_error(&session, r));
    exit_code = TEN_EXIT_FAILED;
    if (r != TENURE_E_UNKNOWN_TARGET && info.holder[0]) {
        print(&session, &info, &search.found);
        exit_code = TEN_EXIT_DONE;
    } else {
        fprintf(stderr, "tenure: no instance holds %s\n", session.arguments[0]);
    }
    ten_metadata_free(&search.found);
    return ten_session_close(&session, exit_code);
}
