/*
 * See secrets.h.
 */
#include "cli/secrets.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

extern char **environ;

static bool may_be_secret(const char *variable) {
    return strncmp(variable, "TENURE_", 7) == 0 || strncmp(variable, "PGPASSWORD=", 11) == 0;
}

/* The first of them: setenv() moves those that it has set. NULL: none is left. */
static char *find_secret(const char *from, const char *to) {
    for (char **at = environ; at && *at; at++)
        if (*at >= from && *at < to && may_be_secret(*at) && strchr(*at, '='))
            return *at;
    return NULL;
}

static bool hide_variable(char *variable) {
    char *copy = ten_strdup(variable);
    if (!copy)
        return false;
    char *value = strchr(copy, '=');
    *value++ = '\0';
    bool moved = setenv(copy, value, 1) == 0;
    if (moved)
        explicit_bzero(variable, strlen(variable));
    explicit_bzero(value, strlen(value));
    ten_free(copy);
    return moved;
}

/* Its password, where a word is or ends with a URL that has one. */
static void hide_password(char *word) {
    char *host = strstr(word, "://");
    if (!host)
        return;
    char *authority = host + 3;
    size_t length = strcspn(authority, "/?#");
    char *at = memrchr(authority, '@', length);
    char *colon = at ? memchr(authority, ':', (size_t)(at - authority)) : NULL;
    if (colon)
        memset(colon + 1, 'x', (size_t)(at - colon - 1));
}

/* A copy of the words, in one piece that is there as long as the process: argv is not freed either. NULL: out of
 * memory. */
static char **copy_words(int argc, char **argv) {
    static char **words;
    size_t size = ((size_t)argc + 1) * sizeof *words;
    for (int i = 0; i < argc; i++)
        size += strlen(argv[i]) + 1;
    words = ten_calloc(1, size);
    char *end = words ? (char *)(words + argc + 1) : NULL;
    for (int i = 0; words && i < argc; i++) {
        words[i] = end;
        end = stpcpy(end, argv[i]) + 1;
    }
    return words;
}

char **ten_secrets_hide(int argc, char **argv) {
    char **words = copy_words(argc, argv);
    if (!words)
        return NULL;
    for (int i = 0; i < argc; i++)
        hide_password(argv[i]);
    /* The strings that the kernel put behind those of argv. */
    const char *first = argc > 0 ? argv[argc - 1] : NULL;
    const char *last = first;
    for (char **at = environ; first && at && *at; at++)
        last = *at > last ? *at : last;
    for (char *variable; first && (variable = find_secret(first, last + 1));)
        if (!hide_variable(variable))
            break;
    return words;
}
