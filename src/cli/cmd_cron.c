/*
 * tenure cron: a crontab across a fleet. `cron FILE` is an agent whose targets are its jobs; `cron ls` shows them as the
 * store knows them, `cron check` reads a file, and `cron import` makes one from a user's crontab.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/store_wait.h"
#include "agent/common/zones.h"
#include "agent/runner/agent.h"
#include "agent/warden/warden.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/find.h"
#include "cli/host_check.h"
#include "cli/table.h"
#include "core/crontab.h"

/* ---- check and import */

/* A line without its end; NULL: there is none that counts. */
static const char *job_of(char *line) {
    size_t size = strlen(line);
    while (size > 0 && strchr("\r\n \t", line[size - 1]))
        line[--size] = '\0';
    const char *start = line + strspn(line, " \t");
    return *start == '\0' || *start == '#' ? NULL : line;
}

static FILE *open_file(const char *path) {
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    if (!file)
        fprintf(stderr, "tenure: cannot read %s: %s\n", path, strerror(errno));
    return file;
}

static void show_time(int64_t at_ms, const ten_zone *zone, char text[40]) {
    int32_t offset_s = ten_zone_offset(zone, at_ms / 1000);
    char utc[TEN_RFC3339_SIZE];
    ten_rfc3339((uint64_t)(at_ms + (int64_t)offset_s * 1000), utc);
    if (offset_s == 0)
        snprintf(text, 40, "%.19sZ", utc);
    else
        snprintf(text, 40, "%.19s%c%02d:%02d", utc, offset_s < 0 ? '-' : '+', abs(offset_s) / 3600,
                 abs(offset_s) / 60 % 60);
}

/* The next three instants of a job. */
static void print_job(const ten_crontab_line *job, const ten_zone *zone) {
    int64_t at_ms = (int64_t)ten_wall_ms(&ten_system_clock);
    printf("%-20s", job->name);
    for (unsigned i = 0; i < 3 && (at_ms = ten_cron_next(&job->schedule, zone, at_ms)) != TEN_CRON_NEVER; i++) {
        char text[40];
        show_time(at_ms, zone, text);
        printf("  %s", text);
    }
    putchar('\n');
}

static bool check_line(const char *path, unsigned number, const char *line, ten_zones *zones, ten_map *names) {
    ten_crontab_line job;
    ten_cron_mistake mistake = {0};
    ten_error error;
    if (!ten_crontab_parse(line, &job, &mistake)) {
        fprintf(stderr, "%s:%u:%zu: %s\n", path, number, mistake.at + 1, mistake.reason);
        return false;
    }
    const ten_zone *zone = ten_zones_get(zones, job.zone, &error);
    if (!zone) {
        fprintf(stderr, "%s:%u:%zu: %s\n", path, number, job.zone_at + 1, error.message);
        return false;
    }
    if (ten_map_get(names, job.name)) {
        fprintf(stderr, "%s:%u:1: another job has the name '%s'\n", path, number, job.name);
        return false;
    }
    (void)ten_map_put(names, job.name, names);
    print_job(&job, zone);
    return true;
}

static int check_file(const char *path) {
    FILE *file = open_file(path);
    char *line = NULL;
    size_t room = 0;
    unsigned number = 0;
    unsigned bad = 0;
    ten_zones zones = {0};
    ten_map names = {0};
    if (!file)
        return TEN_EXIT_FAILED;
    while (getline(&line, &room, file) >= 0) {
        number++;
        const char *job = job_of(line);
        bad += job && !check_line(path, number, job, &zones, &names);
    }
    free(line); // NOLINT: getline's memory
    ten_map_free(&names);
    ten_zones_free(&zones);
    if (file != stdin)
        fclose(file);
    return bad ? TEN_EXIT_FAILED : TEN_EXIT_DONE;
}

/* The name of a job that had none: the last part of its first word, and a number. */
static void make_name(const char *line, unsigned number, char name[64]) {
    ten_cron_schedule schedule;
    ten_cron_mistake mistake = {0};
    size_t size = 0;
    char word[40];
    const char *command = ten_cron_parse(line, &schedule, &size, &mistake) ? line + size : "job";
    command += strspn(command, " \t");
    size_t length = strcspn(command, " \t;|&<>");
    const char *slash = NULL;
    for (size_t i = 0; i < length; i++)
        if (command[i] == '/')
            slash = command + i;
    if (slash && (size_t)(slash - command) + 1 < length) {
        length -= (size_t)(slash - command) + 1;
        command = slash + 1;
    }
    size_t made = 0;
    for (size_t i = 0; i < length && made + 1 < sizeof word; i++)
        if (strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", command[i]))
            word[made++] = command[i];
    word[made] = '\0';
    snprintf(name, 64, "%s-%u", made ? word : "job", number);
}

static int import_file(const char *path) {
    FILE *file = path ? open_file(path) : popen("crontab -l", "re");
    char *line = NULL;
    size_t room = 0;
    unsigned number = 0;
    unsigned bad = 0;
    if (!file)
        return TEN_EXIT_FAILED;
    puts("# NAME [key=value...] SCHEDULE COMMAND; see tenure-cron(1). Times of a user's crontab are local: add tz= "
         "where they\n"
         "# are not to be UTC.");
    while (getline(&line, &room, file) >= 0) {
        static char text[TEN_CRON_COMMAND_MAX + 512];
        ten_cron_mistake mistake = {0};
        char name[64];
        number++;
        const char *job = job_of(line);
        if (!job)
            continue;
        make_name(job + strspn(job, " \t"), number, name);
        if (ten_crontab_import(job, name, text, sizeof text, &mistake)) {
            puts(text);
            continue;
        }
        bad++;
        printf("# line %u, column %zu: %s\n# %s\n", number, mistake.at + 1, mistake.reason, job);
        fprintf(stderr, "%s:%u:%zu: %s\n", path ? path : "crontab -l", number, mistake.at + 1, mistake.reason);
    }
    free(line); // NOLINT: getline's memory
    int ended = path ? (file != stdin ? fclose(file) : 0) : pclose(file);
    return bad || ended != 0 ? TEN_EXIT_FAILED : TEN_EXIT_DONE;
}

/* ---- ls */

struct listing {
    const ten_arguments *arguments;
    ten_table table;
    size_t count;
};

static int take_newest(const ten_cron_run *run, void *userdata) {
    if (run->end > TEN_CRON_LOST) /* it did not run */
        return 0;
    *(ten_cron_run *)userdata = *run;
    return 1;
}

/* A claim without a result: its runner is at work, or nobody knows what has become of it. */
static void name_result(const ten_cron_memory *memory, const char *checkpoint, const char *holder, char text[24]) {
    bool runs = memory->open && holder[0] != '\0' && strcmp(holder, memory->holder) == 0;
    ten_cron_run last = {.end = TEN_CRON_EXITED, .code = (uint64_t)memory->exit_code}; /* if the log lacks it */
    (void)ten_cron_log_each(checkpoint, take_newest, &last);
    if (memory->open)
        snprintf(text, 24, "%s", runs ? "running" : "lost");
    else if (last.end == TEN_CRON_LOST)
        snprintf(text, 24, "lost");
    else if (memory->runs == 0)
        snprintf(text, 24, "-");
    else if (last.end == TEN_CRON_EXITED || last.end == TEN_CRON_KILLED)
        snprintf(text, 24, "%s %u", last.end == TEN_CRON_EXITED ? "exit" : "signal", (unsigned)last.code);
    else
        snprintf(text, 24, "%s", last.end == TEN_CRON_TIMED_OUT ? "timed out" : "not started");
}

static void print_json(const tenure_info *info, const ten_cron_memory *memory, const char *result) {
    ten_buf line = {0};
    ten_json_open(&line);
    ten_json_text(&line, "job", info->target);
    ten_json_text(&line, "instance", info->holder[0] ? info->holder : NULL);
    ten_json_number(&line, "token", info->token);
    ten_json_time(&line, "last", (uint64_t)memory->ran_ms);
    ten_json_time(&line, "started_at", (uint64_t)memory->started_ms);
    ten_json_text(&line, "result", result);
    ten_json_text(&line, "by", memory->holder);
    ten_json_number(&line, "duration_ms", memory->duration_ms);
    ten_json_number(&line, "runs", memory->runs);
    ten_json_number(&line, "skipped", memory->skipped);
    ten_json_time(&line, "next", memory->known && memory->next_ms != TEN_CRON_NEVER ? (uint64_t)memory->next_ms : 0);
    ten_json_close(&line);
    puts(ten_buf_string(&line));
    ten_buf_free(&line);
}

static int list_one(const tenure_info *info, void *userdata) {
    struct listing *listing = userdata;
    listing->count++;
    char text[TENURE_CHECKPOINT_MAX + 1];
    size_t size = 0;
    ten_cron_memory memory = {0};
    int r = tenure_target_checkpoint(listing->arguments->context, info->target, text, &size, NULL);
    if (r < 0 && r != TENURE_E_UNKNOWN_TARGET)
        return r;
    (void)ten_cron_memory_read(size ? text : NULL, &memory);
    char result[24];
    char last[TEN_RFC3339_SIZE] = "-";
    char next[TEN_RFC3339_SIZE] = "-";
    char took[TEN_DURATION_SIZE] = "-";
    name_result(&memory, size ? text : NULL, info->holder, result);
    if (listing->arguments->json) {
        print_json(info, &memory, result);
        return ferror(stdout) ? 1 : 0;
    }
    if (memory.ran_ms > 0)
        ten_rfc3339((uint64_t)memory.ran_ms, last);
    if (memory.known && memory.next_ms != TEN_CRON_NEVER)
        ten_rfc3339((uint64_t)memory.next_ms, next);
    if (memory.runs > 0 && !memory.open)
        ten_duration_show(memory.duration_ms, took);
    ten_table_row(&listing->table,
                  (const char *const[]){info->target, last, result, took, next, info->holder[0] ? info->holder : "-"});
    return ferror(stdout) ? 1 : 0;
}

static int list_jobs(ten_arguments *arguments) {
    static const char *const headings[] = {"JOB", "LAST", "RESULT", "TOOK", "NEXT", "HOLDER"};
    struct listing listing = {.arguments = arguments};
    int exit_code;
    arguments->needs_store = true;
    if (!ten_arguments_open(arguments, &exit_code))
        return exit_code;
    ten_table_start(&listing.table, headings, TEN_COUNT(headings));
    int r = tenure_target_list(arguments->context, TENURE_ALL, list_one, &listing);
    exit_code = r < 0 ? ten_arguments_error(arguments, r) : TEN_EXIT_DONE;
    if (!ten_table_end(&listing.table))
        exit_code = TEN_EXIT_FAILED;
    if (r == TENURE_OK && listing.count == 0)
        ten_find_nothing(arguments, "jobs");
    return ten_arguments_close(arguments, exit_code);
}

/* ---- cron FILE */

static int work(ten_shared *shared, void *userdata) {
    ten_error error = {0};
    int r = ten_agent_run(userdata, shared, &error);
    if (r < 0)
        fprintf(stderr, "tenure: %s\n", error.message);
    return ten_exit_code(r);
}

static int run_file(ten_arguments *arguments, ten_agent_config *config, uint64_t grace_ms) {
    static char targets[4096];
    ten_error error;
    int exit_code;
    if (!ten_arguments_check(arguments, &exit_code))
        return exit_code;
    if (snprintf(targets, sizeof targets, "crontab:%s", arguments->operands[0]) >= (int)sizeof targets)
        return ten_arguments_usage(arguments, "the path of the crontab is too long");
    ten_timing_defaults(&arguments->timing);
    config->store = arguments->store;
    config->context = ten_arguments_options(arguments);
    config->targets = targets;
    config->grace_ms = grace_ms;
    config->log_format = (enum ten_log_format)arguments->log_format;
    config->log_level = (enum ten_log_level)arguments->log_level;
    if (ten_timing_grace(&arguments->timing, &config->grace_ms, &error) < 0 || ten_agent_check(config, &error) < 0)
        return ten_arguments_usage(arguments, "%s", error.message);
    exit_code = ten_host_check_isolation(config->isolation);
    if (exit_code)
        return exit_code;
    ten_warden_config warden = {.work = work,
                                .userdata = config,
                                .store = arguments->store,
                                .namespace_name = arguments->namespace_name,
                                .ttl_ms = arguments->timing.ttl_ms,
                                .grace_ms = config->grace_ms,
                                .retry_exit = TEN_EXIT_STORE,
                                .log_format = config->log_format,
                                .log_level = config->log_level};
    return ten_warden_run(&warden);
}

int ten_cmd_cron(const ten_command *command, int argc, char **argv) {
    static const char *const uncertain_words[] = {"wait", "stop", NULL};
    static const char *const namespace_words[] = {"auto", "off", "on", NULL};
    ten_arguments arguments;
    ten_agent_config config = {.cron = true,
                               .how = TEN_POLL_SPEC,
                               .trust_targets = true, /* they are the file's, not the store's */
                               .every_ms = 1000,
                               .timeout_ms = 1000,
                               .max_targets = 100000};
    uint64_t settle_ms = 2000;
    uint64_t grace_ms = 0;
    uint32_t weight = 1;
    int on_uncertain = 0;
    int namespaces = 0;
    config.store_wait_ms = TEN_STORE_WAIT_FOR_EVER;
    const ten_option options[] = {
        {"store-wait", TEN_OPTION_DURATION, &config.store_wait_ms, "D", TEN_STORE_WAIT_HELP, "TENURE_STORE_WAIT", NULL},
        {"weight", TEN_OPTION_NUMBER, &weight, "N", "this instance's share of the jobs; default 1", NULL, NULL},
        {"settle", TEN_OPTION_PERIOD, &settle_ms, "D",
         "how long an instance must be there before it is handed jobs; default 2s", NULL, NULL},
        {"grace", TEN_OPTION_PERIOD, &grace_ms, "D", "end a command this long before its deadline; default TTL / 10",
         NULL, NULL},
        {"on-uncertain", TEN_OPTION_CHOICE, &on_uncertain, "W",
         "wait (default) or stop: commands under way when a renewal fails", NULL, uncertain_words},
        {"pid-namespace", TEN_OPTION_CHOICE, &namespaces, "W",
         "auto (default), on or off: run each command in a PID namespace of its own; auto: or in a control group", NULL,
         namespace_words},
        {"metrics", TEN_OPTION_TEXT, &config.metrics, "ADDR",
         "serve metrics for Prometheus at http://ADDR/metrics; a port alone is one of 127.0.0.1", NULL, NULL},
        {.name = NULL},
    };
    int exit_code;
    ten_command_hold_hangup();
    if (!ten_arguments_parse(&arguments, command, options, argc, argv, &exit_code))
        return exit_code;
    const char *verb = arguments.count > 0 ? arguments.operands[0] : "";
    if (arguments.count == 2 && strcmp(verb, "check") == 0)
        return check_file(arguments.operands[1]);
    if (arguments.count >= 1 && arguments.count <= 2 && strcmp(verb, "import") == 0)
        return import_file(arguments.count == 2 ? arguments.operands[1] : NULL);
    if (arguments.count == 1 && strcmp(verb, "ls") == 0)
        return list_jobs(&arguments);
    if (arguments.count != 1)
        return ten_arguments_usage(&arguments, "cron takes a file, or ls, check FILE or import [FILE]");
    if (weight == 0)
        return ten_arguments_usage(&arguments, "--weight is at least 1; 'tenure drain INSTANCE' empties an instance");
    config.weight = weight;
    config.settle_ms = settle_ms;
    config.stop_when_uncertain = on_uncertain == 1;
    config.isolation = (enum ten_isolation_wish)namespaces;
    return run_file(&arguments, &config, grace_ms);
}
