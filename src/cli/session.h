/*
 * What every command starts and ends with: its options, the context, the log, signals, and how an error becomes a
 * message and an exit code.
 */
#ifndef TEN_CLI_SESSION_H
#define TEN_CLI_SESSION_H

#include "base/log.h"
#include "cli/options.h"
#include "core/timing.h"

enum ten_exit {
    TEN_EXIT_DONE = 0,
    TEN_EXIT_FAILED = 1,
    TEN_EXIT_USAGE = 2,
    TEN_EXIT_STORE = 3,
    TEN_EXIT_HELD = 4,
    TEN_EXIT_LOST = 5,
};

typedef struct ten_command {
    const char *name;
    const char *usage;   /* what follows `tenure NAME` */
    const char *summary; /* one line */
    const char *details; /* for --help; NULL: none */
    int (*run)(const struct ten_command *command, int argc, char **argv);
    const char *default_namespace;
    bool needs_store; /* it works on what is there: a SQLite file that does not exist is a mistake, and is not made */
    bool quiet;       /* it logs warnings and errors only, unless told otherwise */
} ten_command;

typedef struct ten_session {
    const ten_command *command;
    const char *store;
    const char *namespace_name;
    bool namespace_is_default;                      /* nobody named one */
    char found_namespace[TENURE_NAMESPACE_MAX + 1]; /* see ten_find_namespace() */
    const char *name;
    ten_timing timing;      /* 0: not given */
    uint64_t answer_ms;     /* how long the store may take for an answer; 0: the default */
    uint64_t store_wait_ms; /* how long opening waits for a store that is down; 0: not at all */
    int log_format;
    int log_level;
    bool quiet;
    bool verbose;
    bool json;
    bool needs_store;    /* as that of the command, which may change it before it opens the store */
    const char *address; /* these two of commands with ten_session_identity_options() */
    ten_option_list labels;
    char **arguments; /* what is left after the options */
    int count;
    int before; /* of them, those before `--`; -1: there is no `--` */
    tenure_context *context;
    ten_log *log;
    ten_error failure; /* why ten_session_open() failed */
} ten_session;

/* Parses the command's options (`own` may be NULL) and the common ones. True: go on. False: end with *ret_exit (help
 * was asked for, or the usage is wrong and has been said). */
bool ten_session_parse(ten_session *session, const ten_command *command, const ten_option *own, int argc, char **argv,
                       int *ret_exit);
/* The options by which an instance says who it is. */
#define TEN_IDENTITY_OPTIONS 2u
void ten_session_identity_options(ten_session *session, ten_option options[TEN_IDENTITY_OPTIONS]);
/* Checks the ids among the arguments from `first` on, before the store is opened, so that bad input writes nothing. The
 * exit code; 0: all valid. */
int ten_session_check_targets(const ten_session *session, int first);
int ten_session_check_roles(const ten_session *session);
/* What can be checked without the store: times, namespace, name. False: it has been said; end with *ret_exit. For
 * commands that open no context; ten_session_open() does it, too. */
bool ten_session_check(const ten_session *session, int *ret_exit);
/* The command waits up to wait_ms for what it wants: no longer for a store that is down, or that hangs. */
void ten_session_set_wait(ten_session *session, uint64_t wait_ms);
/* The options of a context that the command line gives. */
tenure_options ten_session_options(const ten_session *session);
/* Opens the log and the context. False: it has been said why; end with *ret_exit. */
bool ten_session_open(ten_session *session, int *ret_exit);
/* The same, but says nothing: session->failure has the message. */
bool ten_session_try_open(ten_session *session, int *ret_exit);
/* Opens the log alone, for commands that open no context. Going without one is no error. */
void ten_session_open_log(ten_session *session, const char *instance);
/* Closes both. Returns the exit code, changed when standard output could not be written. */
int ten_session_close(ten_session *session, int exit_code);

/* Says what the context's last failed call said, prefixed with `tenure: `, and returns the exit code for that error. */
int ten_session_error(const ten_session *session, int error);
/* Says that the command was not used as it should be; returns TEN_EXIT_USAGE. */
int ten_session_usage(const ten_session *session, const char *format, ...) TEN_PRINTF(2, 3);

/* Says what a command has done, unless --quiet. */
void ten_session_note(const ten_session *session, const char *format, ...) TEN_PRINTF(2, 3);

/* The signal that has asked the command to end, or 0. It also cancelled the context's waiting. */
int ten_session_signal(void);
/* For commands that reload at SIGHUP, first of all: one that comes during the start waits until it can be taken. */
void ten_session_hold_hangup(void);

/* The help of one command, on standard output. */
void ten_session_help(const ten_command *command, const ten_option *own);

int ten_exit_code(int error);

#endif
