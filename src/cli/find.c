/*
 * Finding what a person means. See find.h.
 */
#include "cli/find.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/id.h"
#include "cli/visible.h"
#include "runtime/metadata.h"

/* ---- instances */

struct match {
    const char *text;
    size_t count;
    bool exact;
    char id[TENURE_HOLDER_MAX + 1];
    ten_buf names; /* of those that match */
};

static int look_at(const tenure_instance *instance, void *userdata) {
    struct match *match = userdata;
    char shown[TENURE_HOLDER_MAX + 1];
    ten_id_shorten(instance->instance, shown);
    match->exact |= strcmp(instance->instance, match->text) == 0;
    if (strncmp(instance->instance, match->text, strlen(match->text)) != 0 && strcmp(shown, match->text) != 0)
        return 0;
    ten_buf_format(&match->names, "%s%s", match->count++ ? ", " : "", instance->instance);
    snprintf(match->id, sizeof match->id, "%s", instance->instance);
    return 0;
}

bool ten_find_instance(const ten_arguments *arguments, const char **text, char id[TENURE_HOLDER_MAX + 1]) {
    struct match match = {.text = *text};
    bool asked = tenure_instance_list(arguments->context, look_at, &match) == TENURE_OK && !match.exact;
    bool clear = !asked || match.count <= 1;
    if (asked && match.count == 1)
        *text = memcpy(id, match.id, sizeof match.id);
    if (!clear)
        ten_say_format("'%.100s' names %zu instances: %.500s", *text, match.count, ten_buf_string(&match.names));
    ten_buf_free(&match.names);
    return clear;
}

/* ---- namespaces */

struct wanted {
    enum ten_wanted_kind kind;
    const char *name;
    uint64_t token; /* 0: any */
};

struct candidacy {
    const char *role;
    bool found;
};

static int look_for_candidate(const tenure_instance *instance, void *userdata) {
    struct candidacy *candidacy = userdata;
    ten_metadata_shown shown;
    ten_metadata_read(instance->metadata, &shown);
    candidacy->found = strcmp(shown.role, candidacy->role) == 0;
    ten_metadata_free(&shown);
    return candidacy->found ? 1 : 0;
}

/* 1: yes; 0: no; or an error. */
static int is_known(tenure_context *context, const char *target, tenure_info *info) {
    *info = (tenure_info){.size = sizeof *info};
    int r = tenure_target_read(context, target, info);
    return r == TENURE_OK ? 1 : r == TENURE_E_UNKNOWN_TARGET ? 0 : r;
}

/* The first slot of a semaphore, or of a role that has several leaders. It stands for all. */
static int has_slots(tenure_context *context, const char *name, tenure_info *info) {
    char slot[TENURE_TARGET_MAX + 1];
    return snprintf(slot, sizeof slot, "%s/0", name) < (int)sizeof slot ? is_known(context, slot, info) : 0;
}

static int is_held(tenure_context *context, const char *target, uint64_t token) {
    tenure_info info;
    int r = is_known(context, target, &info);
    if (r == 1 && info.holder[0] != '\0')
        return token == 0 || info.token == token;
    if (r >= 0 && token == 0)
        r = has_slots(context, target, &info);
    return r == 1 ? info.holder[0] != '\0' : r;
}

/* A role that an instance leads or waits for. */
static int has_role(tenure_context *context, const char *role) {
    struct candidacy candidacy = {.role = role};
    int r = is_held(context, role, 0);
    return r == 0 ? tenure_instance_list(context, look_for_candidate, &candidacy) : r;
}

static int has_instance(tenure_context *context, const char *text) {
    struct match match = {.text = text};
    int r = tenure_instance_list(context, look_at, &match);
    ten_buf_free(&match.names);
    return r < 0 ? r : match.exact || match.count > 0;
}

static int has(tenure_context *context, const struct wanted *wanted) {
    tenure_info info;
    switch (wanted->kind) {
    case TEN_WANTED_NOTHING:
        return 0;
    case TEN_WANTED_KNOWN:
        return is_known(context, wanted->name, &info);
    case TEN_WANTED_HELD:
        return is_held(context, wanted->name, wanted->token);
    case TEN_WANTED_ROLE:
        return has_role(context, wanted->name);
    case TEN_WANTED_INSTANCE:
        return has_instance(context, wanted->name);
    }
    return 0;
}

bool ten_find_slots(const ten_arguments *arguments, const char *name) {
    tenure_info info;
    bool found = has_slots(arguments->context, name, &info) == 1;
    if (found)
        ten_say_format("%.200s has slots: name one of them, such as %.200s/0 ('tenure ls --namespace %s' lists them)",
                       name, name, arguments->namespace_name);
    return found;
}

struct search {
    const ten_arguments *arguments;
    const struct wanted *wanted; /* NULL: every namespace counts */
    size_t count;
    char last[TENURE_NAMESPACE_MAX + 1];
    ten_buf names;
};

static bool is_there(const struct search *search, const char *namespace_name) {
    const ten_arguments *arguments = search->arguments;
    tenure_context *context = NULL;
    tenure_options options = ten_arguments_options(arguments);
    options.namespace_name = namespace_name;
    if (!search->wanted)
        return true;
    bool there = tenure_open(arguments->store, &options, &context) == TENURE_OK && has(context, search->wanted) > 0;
    (void)tenure_close(context);
    return there;
}

static int look_in(const char *name, void *userdata) {
    struct search *search = userdata;
    if (strcmp(name, search->arguments->namespace_name) == 0 || !is_there(search, name))
        return 0;
    ten_buf_format(&search->names, "%s%s", search->count++ ? ", " : "", name);
    snprintf(search->last, sizeof search->last, "%s", name);
    return 0;
}

bool ten_find_namespace(ten_arguments *arguments, enum ten_wanted_kind kind, const char *name, uint64_t token,
                        int *ret_exit) {
    struct wanted wanted = {.kind = kind, .name = name, .token = token};
    struct search search = {.arguments = arguments, .wanted = &wanted};
    if (!arguments->namespace_is_default || has(arguments->context, &wanted) != 0)
        return true; /* the next call of the command reports an error */
    /* A store that does not list its namespaces has only the one. */
    (void)tenure_namespace_list(arguments->context, look_in, &search);
    bool clear = search.count <= 1;
    if (search.count == 1 && !token) {
        (void)ten_arguments_close(arguments, TEN_EXIT_DONE);
        snprintf(arguments->found_namespace, sizeof arguments->found_namespace, "%s", search.last);
        arguments->namespace_name = arguments->found_namespace;
        clear = ten_arguments_open(arguments, ret_exit);
        if (clear)
            ten_arguments_note(arguments, "%s is in the namespace %s", name, arguments->namespace_name);
    } else if (search.count > 0) {
        ten_say_format("%.255s is in the namespace%s %.400s; use --namespace", name, search.count > 1 ? "s" : "",
                       ten_buf_string(&search.names));
        *ret_exit = TEN_EXIT_FAILED;
        clear = false;
    }
    ten_buf_free(&search.names);
    return clear;
}

void ten_find_nothing(const ten_arguments *arguments, const char *what) {
    struct search search = {.arguments = arguments};
    if (arguments->json || !isatty(STDOUT_FILENO))
        return;
    (void)tenure_namespace_list(arguments->context, look_in, &search);
    ten_arguments_note(arguments, "no %s in the namespace %s%s%.500s", what, arguments->namespace_name,
                       search.count ? "; other namespaces: " : "", ten_buf_string(&search.names));
    ten_buf_free(&search.names);
}

int ten_find_end(const ten_arguments *arguments, ten_table *table, int r, const char *what) {
    int exit_code = ten_table_end(table, r < 0 ? ten_arguments_error(arguments, r) : TEN_EXIT_DONE);
    if (r == TENURE_OK && table->rows == 0)
        ten_find_nothing(arguments, what);
    return exit_code;
}
