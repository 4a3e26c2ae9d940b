/*
 * The environment of a command: see environment.h.
 */
#include "agent/warden/environment.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

extern char **environ;

static char *make_variable(const char *name, const char *value) {
    size_t size = strlen(name) + strlen(value) + 2;
    char *text = ten_malloc(size);
    if (text)
        snprintf(text, size, "%s=%s", name, value);
    return text;
}

void ten_environment_free(char **variables) {
    for (size_t i = 0; variables && variables[i]; i++)
        ten_free(variables[i]);
    ten_free(variables);
}

static bool is_replaced(const char *variable, const char *const (*ours)[2], size_t count) {
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(ours[i][0]);
        if (strncmp(variable, ours[i][0], length) == 0 && variable[length] == '=')
            return true;
    }
    return false;
}

char **ten_environment_make(const char *const (*ours)[2], size_t count, bool keep_ours) {
    size_t inherited = 0;
    while (environ[inherited])
        inherited++;
    char **variables = ten_calloc(inherited + count + 1, sizeof *variables);
    size_t made = 0;
    bool complete = variables != NULL;
    for (size_t i = 0; complete && i < count; i++)
        if (ours[i][1])
            complete = (variables[made++] = make_variable(ours[i][0], ours[i][1])) != NULL;
    for (size_t i = 0; complete && i < inherited; i++) {
        /* libpq's password is the store's, as TENURE_STORE is. */
        bool is_ours = strncmp(environ[i], "TENURE_", 7) == 0 || strncmp(environ[i], "PGPASSWORD=", 11) == 0;
        if (is_ours && (!keep_ours || is_replaced(environ[i], ours, count)))
            continue;
        complete = (variables[made++] = ten_strdup(environ[i])) != NULL;
    }
    if (complete)
        return variables;
    ten_environment_free(variables);
    return NULL;
}
