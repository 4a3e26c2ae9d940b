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
    TEN_OPTION_EITHER,   /* bool: it is the second of two words */
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
    const char *argument;       /* as shown in the help */
    const char *help;           /* NULL: it works, and is not shown */
    const char *environment;    /* NULL: none */
    const char *const *choices; /* NULL-terminated */
} ten_option;

/* The rows of an option array. `value` is what the option is written to, of the type that its kind names. Arrays
 * that use TEN_OPT_CHOICE stand outside of functions. */
#define TEN_OPT_ENV(kind, name, argument, value, environment, help)                                                    \
    { name, kind, value, argument, help, environment, NULL }
#define TEN_OPT(kind, name, argument, value, help)                                                                     \
    { name, kind, value, argument, help, NULL, NULL }
#define TEN_OPT_FLAG(name, value, help)               TEN_OPT(TEN_OPTION_FLAG, name, NULL, value, help)
#define TEN_OPT_TEXT(name, argument, value, help)     TEN_OPT(TEN_OPTION_TEXT, name, argument, value, help)
#define TEN_OPT_DURATION(name, argument, value, help) TEN_OPT(TEN_OPTION_DURATION, name, argument, value, help)
#define TEN_OPT_PERIOD(name, argument, value, help)   TEN_OPT(TEN_OPTION_PERIOD, name, argument, value, help)
#define TEN_OPT_TOKEN(name, argument, value, help)    TEN_OPT(TEN_OPTION_TOKEN, name, argument, value, help)
#define TEN_OPT_NUMBER(name, argument, value, help)   TEN_OPT(TEN_OPTION_NUMBER, name, argument, value, help)
#define TEN_OPT_LIST(name, argument, value, help)     TEN_OPT(TEN_OPTION_LIST, name, argument, value, help)
#define TEN_OPT_WORDS(kind, name, value, help, ...)                                                                    \
    {                                                                                                                  \
        name, kind, value, "W", help, NULL, (const char *const[]) {                                                    \
            __VA_ARGS__, NULL                                                                                          \
        }                                                                                                              \
    }
/* One of the words. The value is an enum or an int: the word's index. */
#define TEN_OPT_CHOICE(name, value, help, ...) TEN_OPT_WORDS(TEN_OPTION_CHOICE, name, value, help, __VA_ARGS__)
/* One of two words. The value is a bool: the second. */
#define TEN_OPT_EITHER(name, value, help, ...) TEN_OPT_WORDS(TEN_OPTION_EITHER, name, value, help, __VA_ARGS__)
#define TEN_OPT_END                                                                                                    \
    { .name = NULL }

/* Options that several commands have. */
#define TEN_OPT_STORE_WAIT(value)                                                                                      \
    TEN_OPT_ENV(TEN_OPTION_DURATION, "store-wait", "D", value, "TENURE_STORE_WAIT",                                    \
                "wait this long for a store that is down at the start; default: for ever")
#define TEN_OPT_METRICS(value)                                                                                         \
    TEN_OPT_TEXT("metrics", "ADDR", value,                                                                             \
                 "serve metrics for Prometheus at http://ADDR/metrics; a port alone is one of 127.0.0.1")
#define TEN_OPT_ON_UNCERTAIN(value, what)                                                                              \
    TEN_OPT_EITHER("on-uncertain", value, "wait (default) or stop: " what " when a renewal fails", "wait", "stop")
#define TEN_OPT_PID_NAMESPACE(value, what)                                                                             \
    TEN_OPT_CHOICE("pid-namespace", value,                                                                             \
                   "auto (default), on or off: run " what                                                              \
                   " in a PID namespace of its own; auto: or in a control group",                                      \
                   "auto", "off", "on")
#define TEN_OPT_WEIGHT(value, help) TEN_OPT_NUMBER("weight", "N", value, help)
#define TEN_OPT_SETTLE(value, what)                                                                                    \
    TEN_OPT_PERIOD("settle", "D", value, "how long an instance must be there before it is handed " what "; default 2s")
#define TEN_OPT_GRACE(value, what) TEN_OPT_PERIOD("grace", "D", value, "end " what " deadline; default TTL / 10")
#define TEN_OPT_HEALTHY(value, what)                                                                                   \
    TEN_OPT_TEXT("healthy", "CMD", value, "run by /bin/sh -c now and then; while it does not exit with 0, " what)
#define TEN_OPT_HEALTHY_EVERY(value)                                                                                   \
    TEN_OPT_PERIOD("healthy-every", "D", value, "how often, and how long it may take; default 10s")

/* Parses argv[1..]: options into their values, the rest into argv[0..*ret_count) in order; what follows `--` is not
 * looked at.
 * *ret_before: how many of them stand before `--`; -1: there is no `--`.
 * `--help` and `-h` set *ret_help. The arrays are looked at one after the other; a NULL ends them. */
int ten_options_parse(const ten_option *const *arrays, int argc, char **argv, int *ret_count, int *ret_before,
                      bool *ret_help, ten_error *error);

/* One line an option, for the help. */
void ten_options_print(const ten_option *options);

#endif
