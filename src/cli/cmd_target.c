/*
 * tenure target: the registry of targets.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/duration.h"
#include "base/json.h"
#include "base/suggest.h"
#include "cli/commands.h"
#include "cli/find.h"
#include "cli/table.h"
#include "store/common/json_value.h"

struct given {
    const char *url;
    const char *exec;
    const char *spec;
    uint64_t every_ms;
    bool paused;
};

/* ---- add */

static int check_spec(const ten_arguments *arguments, const char *spec) {
    ten_error error;
    bool valid = !spec || ten_json_value_check(spec, &error) == TENURE_OK;
    return valid ? TEN_EXIT_DONE : ten_arguments_usage(arguments, "--spec is %s", error.message);
}

static int add(ten_arguments *arguments, const struct given *given) {
    size_t count = (size_t)arguments->count - 1;
    tenure_target *targets = ten_calloc(count, sizeof *targets);
    if (!targets) {
        fprintf(stderr, "tenure: out of memory for %zu targets\n", count);
        return TEN_EXIT_FAILED;
    }
    for (size_t i = 0; i < count; i++)
        targets[i] = (tenure_target){.size = sizeof targets[i],
                                     .id = arguments->operands[i + 1],
                                     .url = given->url,
                                     .exec = given->exec,
                                     .spec = given->spec,
                                     .every_ms = given->every_ms,
                                     .paused = given->paused};
    size_t added = 0;
    int r = tenure_registry_put(arguments->context, targets, count, &added);
    ten_free(targets);
    if (r < 0)
        return ten_arguments_error(arguments, r);
    ten_arguments_note(arguments, "%zu added, %zu changed", added, count - added);
    return TEN_EXIT_DONE;
}

/* ---- rm, pause, resume */

static int edit_each(ten_arguments *arguments) {
    const char *verb = arguments->operands[0];
    int (*edit)(tenure_context * context, const char *id) = strcmp(verb, "rm") == 0      ? tenure_registry_remove
                                                            : strcmp(verb, "pause") == 0 ? tenure_registry_pause
                                                                                         : tenure_registry_resume;
    int exit_code = TEN_EXIT_DONE;
    size_t done = 0;
    for (int i = 1; i < arguments->count; i++) {
        const char *id = arguments->operands[i];
        int r = edit(arguments->context, id);
        /* One that is not there does not keep the others from being dealt with. */
        if (r < 0)
            exit_code = ten_arguments_error(arguments, r);
        done += r == TENURE_OK;
        if (r < 0 && r != TENURE_E_UNKNOWN_TARGET)
            break;
    }
    if (done > 0)
        ten_arguments_note(arguments, "%zu %s", done,
                           strcmp(verb, "rm") == 0      ? "removed"
                           : strcmp(verb, "pause") == 0 ? "paused; their holders stop the work and release them"
                                                        : "resumed");
    return exit_code;
}

/* ---- ls */

struct listing {
    const ten_arguments *arguments;
    ten_table table;
    size_t count;
};

static void print_json(const tenure_target *target, const char *namespace_name) {
    ten_buf line = {0};
    ten_json_open(&line);
    ten_json_text(&line, "target", target->id);
    ten_json_text(&line, "namespace", namespace_name);
    ten_json_text(&line, "url", target->url);
    ten_json_text(&line, "exec", target->exec);
    if (target->every_ms) {
        char every[32];
        snprintf(every, sizeof every, "%llums", (unsigned long long)target->every_ms);
        ten_json_text(&line, "every", every);
    } else {
        ten_json_text(&line, "every", NULL);
    }
    ten_json_bool(&line, "paused", target->paused);
    ten_json_value(&line, "spec", target->spec);
    ten_json_close(&line);
    puts(ten_buf_string(&line));
    ten_buf_free(&line);
}

static int add_row(const tenure_target *target, void *userdata) {
    struct listing *listing = userdata;
    char every[TEN_DURATION_SIZE] = "-";
    listing->count++;
    if (listing->arguments->json) {
        print_json(target, listing->arguments->namespace_name);
        return ferror(stdout) ? 1 : 0;
    }
    if (target->every_ms)
        ten_duration_show(target->every_ms, every);
    ten_table_row(&listing->table,
                  (const char *const[]){target->id, target->paused ? "paused" : "active", every,
                                        target->url ? target->url : "-", target->exec ? target->exec : "-"});
    return ferror(stdout) ? 1 : 0;
}

static int list(ten_arguments *arguments) {
    static const char *const headings[] = {"TARGET", "STATE", "EVERY", "URL", "EXEC"};
    struct listing listing = {.arguments = arguments};
    ten_table_start(&listing.table, headings, TEN_COUNT(headings));
    int r = tenure_registry_list(arguments->context, add_row, &listing);
    int exit_code = r < 0 ? ten_arguments_error(arguments, r) : TEN_EXIT_DONE;
    bool complete = ten_table_end(&listing.table);
    if (r == TENURE_OK && listing.count == 0)
        ten_find_nothing(arguments, "registered targets");
    return complete ? exit_code : TEN_EXIT_FAILED;
}

/* ---- the command */

static int check_usage(const ten_arguments *arguments, const struct given *given) {
    static const char *const verbs[] = {"add", "rm", "pause", "resume", "ls"};
    if (arguments->count == 0)
        return ten_arguments_usage(arguments, "target needs a verb: add, rm, pause, resume or ls");
    const char *verb = arguments->operands[0];
    size_t at = 0;
    while (at < TEN_COUNT(verbs) && strcmp(verbs[at], verb) != 0)
        at++;
    if (at == TEN_COUNT(verbs)) {
        bool removes = strcmp(verb, "remove") == 0 || strcmp(verb, "delete") == 0 || strcmp(verb, "del") == 0;
        const char *meant = removes ? "rm" : ten_suggest(verb, verbs, TEN_COUNT(verbs));
        return ten_arguments_usage(arguments, "unknown verb '%.40s' of target%s%s%s", verb,
                                   meant ? "; did you mean '" : "", meant ? meant : "", meant ? "'?" : "");
    }
    bool described = given->url || given->exec || given->spec || given->every_ms || given->paused;
    if (described && strcmp(verb, "add") != 0)
        return ten_arguments_usage(arguments, "--url, --exec, --every, --spec and --paused go with 'target add'");
    if (strcmp(verb, "ls") == 0)
        return arguments->count == 1 ? TEN_EXIT_DONE : ten_arguments_usage(arguments, "target ls takes no arguments");
    if (arguments->count < 2)
        return ten_arguments_usage(arguments, "target %s needs at least one id", verb);
    int checked = ten_arguments_check_targets(arguments, 1);
    return checked ? checked : check_spec(arguments, given->spec);
}

int ten_cmd_target(const ten_command *command, int argc, char **argv) {
    ten_arguments arguments;
    struct given given = {0};
    const ten_option options[] = {
        {"url", TEN_OPTION_TEXT, &given.url, "U", "what an http poller gets", NULL, NULL},
        {"exec", TEN_OPTION_TEXT, &given.exec, "CMD", "what an exec poller runs, where targets are trusted", NULL,
         NULL},
        {"every", TEN_OPTION_PERIOD, &given.every_ms, "D", "time between polls; default the agent's", NULL, NULL},
        {"spec", TEN_OPTION_TEXT, &given.spec, "JSON", "anything else, handed to the poller", NULL, NULL},
        {"paused", TEN_OPTION_FLAG, &given.paused, NULL, "register it paused", NULL, NULL},
        {.name = NULL},
    };
    int exit_code;
    if (!ten_arguments_parse(&arguments, command, options, argc, argv, &exit_code))
        return exit_code;
    exit_code = check_usage(&arguments, &given);
    arguments.needs_store = arguments.count > 0 && strcmp(arguments.operands[0], "add") != 0;
    if (exit_code || !ten_arguments_open(&arguments, &exit_code))
        return exit_code;
    const char *verb = arguments.operands[0];
    if (strcmp(verb, "add") == 0)
        exit_code = add(&arguments, &given);
    else if (strcmp(verb, "ls") == 0)
        exit_code = list(&arguments);
    else
        exit_code = edit_each(&arguments);
    return ten_arguments_close(&arguments, exit_code);
}
