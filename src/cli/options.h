/*
 * Options of commands: an array a command, from which parsing, `--help` and "did you mean" all come. A flag beats its
 * environment variable, which beats the default.
 */
#ifndef TEN_CLI_OPTIONS_H
#define TEN_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum ten_option_kind {
    TEN_OPTION_FLAG,     /* bool */
    TEN_OPTION_TEXT,     /* const char * */
    TEN_OPTION_DURATION, /* uint64_t ms */
    TEN_OPTION_PERIOD,   /* uint64_t ms, never 0, which stands for "not given" */
    TEN_OPTION_TOKEN,    /* uint64_t */
    TEN_OPTION_CHOICE,   /* int: the index of the word */
    TEN_OPTION_NUMBER,   /* uint32_t */
    TEN_OPTION_LIST,     /* ten_option_list: may be given several times */
};

#define TEN_OPTION_LIST_MAX 16u
typedef struct ten_option_list {
    const char *items[TEN_OPTION_LIST_MAX];
    size_t count;
} ten_option_list;

typedef struct ten_option {
    const char *name; /* NULL ends the array */
    enum ten_option_kind kind;
    void *value;
    const char *argument; /* as shown in the help */
    const char *help;
    const char *environment;    /* NULL: none */
    const char *const *choices; /* NULL-terminated */
} ten_option;

/* Parses argv[1..]: options into their values, the rest into argv[0..*ret_count) in order; what follows `--` is not
 * looked at.
 * *ret_before: how many of them stand before `--`; -1: there is no `--`.
 * `--help` and `-h` set *ret_help. The arrays are looked at one after the other; a NULL ends them. */
int ten_options_parse(const ten_option *const *arrays, int argc, char **argv, int *ret_count, int *ret_before,
                      bool *ret_help, ten_error *error);

/* One line an option, for the help. */
void ten_options_print(const ten_option *options);

#endif
