/*
 * tenure target: the registry of targets.
 */
#include "base/alloc.h"
#include "base/buf.h"
#include "base/suggest.h"
#include "cli/commands.h"
#include "store/common/json_value.h"

static struct given {
    const char *url;
    const char *exec;
    const char *spec;
    uint64_t every_ms;
    bool paused;
} given;

static const ten_option options[] = {
    TEN_OPT_TEXT("url", "U", &given.url, "what an http poller gets"),
    TEN_OPT_TEXT("exec", "CMD", &given.exec, "what an exec poller runs, where targets are trusted"),
    TEN_OPT_PERIOD("every", "D", &given.every_ms, "time between polls; default the agent's"),
    TEN_OPT_TEXT("spec", "JSON", &given.spec, "anything else, handed to the poller"),
    TEN_OPT_FLAG("paused", &given.paused, "register it paused"),
    TEN_OPT_END,
};

/* ---- add */

static int check_spec(const ten_arguments *arguments) {
    ten_error error;
    bool valid = !given.spec || ten_json_value_check(given.spec, &error) == TENURE_OK;
    return valid ? TEN_EXIT_DONE : ten_arguments_usage(arguments, "--spec is %s", error.message);
}

static int add(ten_arguments *arguments) {
    size_t count = (size_t)arguments->count - 1;
    tenure_target *targets = ten_calloc(count, sizeof *targets);
    if (!targets) {
        fprintf(stderr, "tenure: out of memory for %zu targets\n", count);
        return TEN_EXIT_FAILED;
    }
    for (size_t i = 0; i < count; i++)
        targets[i] = (tenure_target){.size = sizeof targets[i],
                                     .id = arguments->operands[i + 1],
                                     .url = given.url,
                                     .exec = given.exec,
                                     .spec = given.spec,
                                     .every_ms = given.every_ms,
                                     .paused = given.paused};
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

static int add_row(const tenure_target *target, void *userdata) {
    ten_table *table = userdata;
    char every[32];
    snprintf(every, sizeof every, "%llums", (unsigned long long)target->every_ms);
    return TEN_TABLE_ADD(
        table, {"TARGET", "target", .text = target->id}, {"STATE", NULL, .text = target->paused ? "paused" : "active"},
        {"EVERY", NULL, TEN_COLUMN_PERIOD, .number = ten_or_none(target->every_ms)},
        {NULL, "namespace", .text = table->namespace_name}, {"URL", "url", .text = target->url},
        {"EXEC", "exec", .text = target->exec}, {NULL, "every", .text = target->every_ms ? every : NULL},
        {NULL, "paused", TEN_COLUMN_BOOL, .number = target->paused},
        {NULL, "spec", TEN_COLUMN_VALUE, .text = target->spec});
}

static int list(ten_arguments *arguments) {
    ten_table table;
    ten_table_start(&table, arguments);
    int r = tenure_registry_list(arguments->context, add_row, &table);
    return ten_find_end(arguments, &table, r, "registered targets");
}

/* ---- the command */

static int check_usage(const ten_arguments *arguments) {
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
    bool described = given.url || given.exec || given.spec || given.every_ms || given.paused;
    if (described && strcmp(verb, "add") != 0)
        return ten_arguments_usage(arguments, "--url, --exec, --every, --spec and --paused go with 'target add'");
    if (strcmp(verb, "ls") == 0)
        return arguments->count == 1 ? TEN_EXIT_DONE : ten_arguments_usage(arguments, "target ls takes no arguments");
    if (arguments->count < 2)
        return ten_arguments_usage(arguments, "target %s needs at least one id", verb);
    int checked = ten_arguments_check_targets(arguments, 1, arguments->count);
    return checked ? checked : check_spec(arguments);
}

static int check(ten_arguments *arguments) {
    int exit_code = check_usage(arguments);
    arguments->needs_store = arguments->count > 0 && strcmp(arguments->operands[0], "add") != 0;
    return exit_code;
}

static int run(ten_arguments *arguments) {
    const char *verb = arguments->operands[0];
    return strcmp(verb, "add") == 0 ? add(arguments) : strcmp(verb, "ls") == 0 ? list(arguments) : edit_each(arguments);
}

const ten_command ten_cmd_target = {TEN_HELP_target, .options = options, .check = check, .store = TEN_STORE_ANY,
                                    .run = run};
