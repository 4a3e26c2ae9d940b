/*
 * The arguments of a command: its options and operands as they were parsed, and what every command opens by them, the
 * log and the context. Beside that signals, and how an error becomes a message and an exit code.
 */
#ifndef TEN_CLI_ARGUMENTS_H
#define TEN_CLI_ARGUMENTS_H

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

typedef struct ten_arguments ten_arguments;

/* A command: what the help says of it, and the steps before it runs, in this order. What is left out of a command's
 * struct is not done. */
/* A command: what the help says of it (TEN_HELP_NAME, from help.txt), and the steps before it runs, in this order. What
 * is left out of a command's struct is not done. */
typedef struct ten_command {
    const char *name;
    const char *usage;             /* what follows `tenure NAME` */
    const char *summary;           /* one line */
    const char *details;           /* for --help; NULL: none */
    const char *default_namespace; /* NULL: poll */
    bool quiet;                    /* logs warnings and errors only, by default */
    bool reloads;                  /* at SIGHUP: one that comes during the start waits until it can be taken */
    const ten_option *options;     /* beside the common ones; ends with TEN_OPT_END */
    enum ten_takes {
        TEN_TAKES_WHAT_IT_CHECKS, /* check() looks at the operands */
        TEN_TAKES_NOTHING,
        TEN_TAKES_TARGET, /* one */
        TEN_TAKES_TARGETS,
        TEN_TAKES_ROLE, /* one */
    } takes;            /* so many operands, and valid ids */
    int (*check)(
        ten_arguments *arguments); /* before anything is opened, so that bad input writes nothing: an exit code */
    enum ten_store_step {
        TEN_STORE_NONE,     /* the command opens it, or needs none */
        TEN_STORE_ANY,      /* log and context are opened, and closed after the command */
        TEN_STORE_EXISTING, /* it works on what is there: a SQLite file that does not exist is an error, and not made */
    } store;
    enum ten_wanted_kind {
        TEN_WANTED_NOTHING,
        TEN_WANTED_KNOWN, /* a target that was registered or leased */
        TEN_WANTED_HELD,
        TEN_WANTED_ROLE, /* that somebody leads or waits for */
        TEN_WANTED_INSTANCE,
    } wants;                                    /* what the first operand names; see ten_find_namespace() */
    int (*run)(ten_arguments *arguments);       /* the exit code */
    int (*run_unparsed)(int argc, char **argv); /* instead of all these steps; NULL: not */
} ten_command;

struct ten_arguments {
    const ten_command *command;
    const char *store;
    const char *namespace_name;
    bool namespace_is_default;                      /* --namespace was not given */
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
    bool needs_store; /* as that of the command, which may change it before it opens the store */
    char **operands;  /* what is left after the options */
    int count;
    int before; /* of them, those before `--`; -1: there is no `--` */
    tenure_context *context;
    ten_log *log;
    ten_error failure; /* why ten_arguments_open() failed */
};

/* How an instance describes itself, for commands that have these options. */
extern struct ten_identity {
    const char *address;
    ten_option_list labels;
} ten_identity;
#define TEN_OPT_IDENTITY                                                                                               \
    TEN_OPT_ENV(TEN_OPTION_TEXT, "address", "HOST:PORT", &ten_identity.address, "TENURE_ADDRESS",                      \
                "where this instance can be reached, for 'tenure owner'"),                                             \
        TEN_OPT_LIST("label", "K=V", &ten_identity.labels, "anything else to know about this instance; repeatable")

/* Runs a command with all its steps. The exit code of the program. */
int ten_command_run(const ten_command *command, int argc, char **argv);
/* Checks the ids among the operands from `first` to before `end`, before the store is opened, so that bad input writes
 * nothing. The exit code; 0: all valid. */
int ten_arguments_check_targets(const ten_arguments *arguments, int first, int end);
int ten_arguments_check_roles(const ten_arguments *arguments);
/* An instance as it is shown, "host-b 8758", is two words to a shell. If there is one operand too many, joins the two
 * from `at` on in `room`. */
void ten_arguments_join(ten_arguments *arguments, int at, char room[TENURE_HOLDER_MAX + 1]);
/* What can be checked without the store: times, namespace, name. The exit code. For commands that open no context;
 * ten_arguments_open() does it, too. */
int ten_arguments_check(const ten_arguments *arguments);
/* The command waits up to wait_ms for what it wants: no longer for a store that is down, or that hangs. */
void ten_arguments_set_wait(ten_arguments *arguments, uint64_t wait_ms);
/* The options of a context that the command line gives. */
tenure_options ten_arguments_options(const ten_arguments *arguments);
/* Opens the log and the context. False: it has been said why; end with *ret_exit. */
bool ten_arguments_open(ten_arguments *arguments, int *ret_exit);
/* The same, but says nothing: arguments->failure has the message. */
bool ten_arguments_try_open(ten_arguments *arguments, int *ret_exit);
/* The history names the person who forced something, user@host: the process will have ended long before somebody asks.
 * False: that is no valid name. */
bool ten_arguments_actor(char actor[TENURE_HOLDER_MAX + 1]);
/* Whether to go on after an error of what runs for weeks: the store is out of reach. Waits a moment, and logs the first
 * time (*down). */
bool ten_arguments_retry(const ten_arguments *arguments, int error, bool *down);
/* Opens the log alone, for commands that open no context. Going without one is no error. */
void ten_arguments_open_log(ten_arguments *arguments, const char *instance);
/* Closes both. Returns the exit code, changed when standard output could not be written. */
int ten_arguments_close(ten_arguments *arguments, int exit_code);

/* Says what the context's last failed call said, prefixed with `tenure: `, and returns the exit code for that error. */
int ten_arguments_error(const ten_arguments *arguments, int error);
/* Says that the command was not used as it should be; returns TEN_EXIT_USAGE. */
int ten_arguments_usage(const ten_arguments *arguments, const char *format, ...) TEN_PRINTF(2, 3);

/* What the options of a command must not say together. The exit code: the first rule that is broken is said. */
typedef struct ten_rule {
    bool is_broken;
    const char *says;
} ten_rule;
int ten_arguments_check_rules(const ten_arguments *arguments, const ten_rule *rules, size_t count);
#define TEN_CHECK_RULES(arguments, rules) ten_arguments_check_rules(arguments, rules, TEN_COUNT(rules))

/* Says what a command has done, unless --quiet. */
void ten_arguments_note(const ten_arguments *arguments, const char *format, ...) TEN_PRINTF(2, 3);

/* The signal that has asked the command to end, or 0. It also cancelled the context's waiting. */
int ten_command_signal(void);
int ten_exit_code(int error);

#endif
