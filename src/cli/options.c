/*
 * Parsing and showing options. Called by arguments.c for every command.
 */
#include "cli/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/id.h"
#include "base/suggest.h"

#define OPTIONS_MAX 40

static int set_choice(const ten_option *option, const char *text, ten_error *error) {
    char words[160] = "";
    for (int i = 0; option->choices[i]; i++) {
        if (strcmp(option->choices[i], text) == 0) {
            if (option->kind == TEN_OPTION_EITHER)
                *(bool *)option->value = i == 1;
            else
                *(int *)option->value = i;
            return TENURE_OK;
        }
        size_t used = strlen(words);
        snprintf(words + used, sizeof words - used, "%s%s", i ? ", " : "", option->choices[i]);
    }
    return ten_fail(error, TENURE_E_INVALID, "'%.60s' is not one of %s", text, words);
}

/* A zero that was typed must not pass for the default. */
static int set_period(const ten_option *option, const char *text, ten_error *error) {
    uint64_t ms;
    int r = ten_duration_parse(text, &ms, error);
    if (r < 0)
        return r;
    if (ms == 0)
        return ten_fail(error, TENURE_E_INVALID, "'%.40s' is too short: write more than 0", text);
    *(uint64_t *)option->value = ms;
    return TENURE_OK;
}

static int set_number(const ten_option *option, const char *text, ten_error *error) {
    size_t size = strlen(text);
    if (size == 0 || size > 9 || strspn(text, "0123456789") != size)
        return ten_fail(error, TENURE_E_INVALID, "'%.40s' is not a whole number below 1,000,000,000", text);
    *(uint32_t *)option->value = (uint32_t)strtoul(text, NULL, 10);
    return TENURE_OK;
}

static int add_to_list(const ten_option *option, const char *text, ten_error *error) {
    ten_option_list *list = option->value;
    if (list->count == TEN_OPTION_LIST_MAX)
        return ten_fail(error, TENURE_E_INVALID, "it can be given %u times at the most", TEN_OPTION_LIST_MAX);
    list->items[list->count++] = text;
    return TENURE_OK;
}

static int set_value(const ten_option *option, const char *text, ten_error *error) {
    switch (option->kind) {
    case TEN_OPTION_FLAG:
        *(bool *)option->value = true;
        return TENURE_OK;
    case TEN_OPTION_TEXT:
        *(const char **)option->value = text;
        return TENURE_OK;
    case TEN_OPTION_DURATION:
        return ten_duration_parse(text, option->value, error);
    case TEN_OPTION_PERIOD:
        return set_period(option, text, error);
    case TEN_OPTION_TOKEN:
        return ten_id_parse_token(text, option->value, error);
    case TEN_OPTION_CHOICE:
    case TEN_OPTION_EITHER:
        return set_choice(option, text, error);
    case TEN_OPTION_NUMBER:
        return set_number(option, text, error);
    case TEN_OPTION_LIST:
        return add_to_list(option, text, error);
    }
    return TENURE_E_INVALID;
}

/* Puts where a bad value came from in front of what is wrong with it. */
static int blame(ten_error *error, const char *where) {
    ten_error said = *error;
    return ten_fail(error, said.code, "%s: %s", where, said.message);
}

static int read_environment(const ten_option *const *arrays, ten_error *error) {
    for (; *arrays; arrays++) {
        for (const ten_option *option = *arrays; option->name; option++) {
            const char *text = option->environment ? getenv(option->environment) : NULL;
            if (text && text[0] != '\0' && set_value(option, text, error) < 0)
                return blame(error, option->environment);
        }
    }
    return TENURE_OK;
}

static const ten_option *find(const ten_option *const *arrays, const char *name, size_t size) {
    for (; *arrays; arrays++)
        for (const ten_option *option = *arrays; option->name; option++)
            if (strlen(option->name) == size && strncmp(option->name, name, size) == 0)
                return option;
    return NULL;
}

static int unknown(const ten_option *const *arrays, const char *typed, ten_error *error) {
    const char *words[OPTIONS_MAX];
    size_t count = 0;
    char name[41];
    for (; *arrays; arrays++)
        for (const ten_option *option = *arrays; option->name && count < OPTIONS_MAX; option++)
            words[count++] = option->name;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(typed + strspn(typed, "-"), "="), typed + strspn(typed, "-"));
    const char *meant = ten_suggest(name, words, count);
    return ten_fail(error, TENURE_E_INVALID, "there is no option '%.60s'%s%s%s", typed,
                    meant ? "; did you mean '--" : "", meant ? meant : "", meant ? "'?" : "");
}

/* One `--name`, `--name value` or `--name=value`; moves *at over a value of its own. */
static int parse_one(const ten_option *const *arrays, int argc, char **argv, int *at, ten_error *error) {
    const char *typed = argv[*at];
    if (strcmp(typed, "-q") == 0)
        typed = "--quiet";
    else if (strcmp(typed, "-v") == 0)
        typed = "--verbose";
    size_t size = strcspn(typed + 2, "=");
    const ten_option *option = strncmp(typed, "--", 2) == 0 ? find(arrays, typed + 2, size) : NULL;
    if (!option)
        return unknown(arrays, typed, error);
    const char *text = typed[2 + size] == '=' ? typed + 3 + size : NULL;
    if (option->kind == TEN_OPTION_FLAG && text)
        return ten_fail(error, TENURE_E_INVALID, "--%s takes no value", option->name);
    if (option->kind != TEN_OPTION_FLAG && !text) {
        if (*at + 1 >= argc)
            return ten_fail(error, TENURE_E_INVALID, "--%s needs a value: --%s %s", option->name, option->name,
                            option->argument);
        text = argv[++*at];
    }
    if (set_value(option, text, error) < 0) {
        char where[64];
        snprintf(where, sizeof where, "--%s", option->name);
        return blame(error, where);
    }
    return TENURE_OK;
}

int ten_options_parse(const ten_option *const *arrays, int argc, char **argv, int *ret_count, int *ret_before,
                      bool *ret_help, ten_error *error) {
    int count = 0;
    int before = -1;
    int r = TENURE_OK;
    *ret_help = false;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--") == 0)
            break;
        else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            *ret_help = true;
    if (*ret_help)
        return TENURE_OK;
    r = read_environment(arrays, error);
    for (int i = 1; r == TENURE_OK && i < argc; i++) {
        if (before < 0 && strcmp(argv[i], "--") == 0)
            before = count;
        else if (before >= 0 || argv[i][0] != '-' || argv[i][1] == '\0')
            argv[count++] = argv[i];
        else
            r = parse_one(arrays, argc, argv, &i, error);
    }
    *ret_count = count;
    *ret_before = before;
    return r;
}

void ten_options_print(const ten_option *options) {
    for (; options->name; options++) {
        char left[64];
        if (!options->help)
            continue;
        snprintf(left, sizeof left, "--%s%s%s", options->name, options->argument ? " " : "",
                 options->argument ? options->argument : "");
        printf("  %-24s %s", left, options->help);
        if (options->environment)
            printf(" [%s]", options->environment);
        printf("\n");
    }
}
