/*
 * Finding what a person means. See find.h.
 */
#include "cli/find.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/id.h"

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

bool ten_find_instance(const ten_session *session, const char **text, char id[TENURE_HOLDER_MAX + 1]) {
    struct match match = {.text = *text};
    bool clear = true;
    if (tenure_instance_list(session->context, look_at, &match) == TENURE_OK && !match.exact) {
        clear = match.count <= 1;
        if (match.count == 1) {
            memcpy(id, match.id, sizeof match.id);
            *text = id;
        }
    }
    if (!clear) {
        ten_session session_of_all = *session;
        session_of_all.quiet = false; /* it is an error */
        ten_session_note(&session_of_all, "'%.100s' names %zu instances: %.500s", *text, match.count,
                         ten_buf_string(&match.names));
    }
    ten_buf_free(&match.names);
    return clear;
}

/* ---- namespaces */

struct search {
    const ten_session *session;
    const char *target; /* NULL: every namespace counts */
    size_t count;
    ten_buf names;
};

static bool has_target(const ten_session *session, const char *namespace_name, const char *target) {
    tenure_context *context = NULL;
    tenure_options options = ten_session_options(session);
    tenure_info info = {.size = sizeof info};
    options.namespace_name = namespace_name;
    int r = tenure_open(session->store, &options, &context);
    if (r == TENURE_OK)
        r = tenure_target_read(context, target, &info);
    (void)tenure_close(context);
    return r == TENURE_OK;
}

static int look_in(const char *name, void *userdata) {
    struct search *search = userdata;
    bool here = strcmp(name, search->session->namespace_name) == 0;
    if (!here && (!search->target || has_target(search->session, name, search->target)))
        ten_buf_format(&search->names, "%s%s", search->count++ ? ", " : "", name);
    return 0;
}

void ten_find_elsewhere(const ten_session *session, const char *target) {
    struct search search = {.session = session, .target = target};
    (void)tenure_namespace_list(session->context, look_in, &search);
    if (search.count > 0)
        ten_session_note(session, "%s exists in the namespace%s %.500s; use --namespace", target,
                         search.count > 1 ? "s" : "", ten_buf_string(&search.names));
    ten_buf_free(&search.names);
}

void ten_find_nothing(const ten_session *session, const char *what) {
    struct search search = {.session = session};
    if (session->json || !isatty(STDOUT_FILENO))
        return;
    (void)tenure_namespace_list(session->context, look_in, &search);
    ten_session_note(session, "no %s in the namespace %s%s%.500s", what, session->namespace_name,
                     search.count ? "; other namespaces: " : "", ten_buf_string(&search.names));
    ten_buf_free(&search.names);
}
