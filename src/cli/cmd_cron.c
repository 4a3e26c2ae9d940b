/*
 * tenure cron: a crontab across a fleet. `cron FILE` is an agent whose targets are its jobs; `cron ls` shows them as
 * the store knows them, `cron check` reads a file, and `cron import` makes one from a user's crontab.
 */
#include <errno.h>
#include <stdlib.h>

#include "agent/common/zones.h"
#include "base/clock.h"
#include "cli/commands.h"
#include "cli/fleet_work.h"
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

/* Where a line of a file is wrong; column from 0 on. */
static bool blame(const char *path, unsigned number, size_t column, const char *reason) {
    fprintf(stderr, "%s:%u:%zu: %s\n", path, number, column + 1, reason);
    return false;
}

/* Calls take() for each line that counts. An exit code: whether each was taken. */
static int each_job(const char *path, FILE *file,
                    bool (*take)(const char *path, unsigned number, const char *job, void *userdata), void *userdata) {
    char *line = NULL;
    size_t room = 0;
    int exit_code = TEN_EXIT_DONE;
    for (unsigned number = 1; getline(&line, &room, file) >= 0; number++) {
        const char *job = job_of(line);
        if (job && !take(path, number, job, userdata))
            exit_code = TEN_EXIT_FAILED;
    }
    free(line); // NOLINT: getline's memory
    return exit_code;
}

struct checked {
    ten_zones zones;
    ten_map names;
};

static bool check_line(const char *path, unsigned number, const char *line, void *userdata) {
    struct checked *checked = userdata;
    ten_crontab_line job;
    ten_cron_mistake mistake = {0};
    ten_error error;
    if (!ten_crontab_parse(line, &job, &mistake))
        return blame(path, number, mistake.at, mistake.reason);
    const ten_zone *zone = ten_zones_get(&checked->zones, job.zone, &error);
    if (!zone)
        return blame(path, number, job.zone_at, error.message);
    if (ten_map_get(&checked->names, job.name)) {
        fprintf(stderr, "%s:%u:1: another job has the name '%s'\n", path, number, job.name);
        return false;
    }
    (void)ten_map_put(&checked->names, job.name, checked);
    print_job(&job, zone);
    return true;
}

static int check_file(const char *path) {
    struct checked checked = {0};
    FILE *file = open_file(path);
    if (!file)
        return TEN_EXIT_FAILED;
    int exit_code = each_job(path, file, check_line, &checked);
    ten_map_free(&checked.names);
    ten_zones_free(&checked.zones);
    if (file != stdin)
        fclose(file);
    return exit_code;
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
    const char *slash = memrchr(command, '/', length);
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

static bool import_line(const char *path, unsigned number, const char *line, void *userdata) {
    static char text[TEN_CRON_COMMAND_MAX + 512];
    ten_cron_mistake mistake = {0};
    char name[64];
    (void)userdata;
    make_name(line + strspn(line, " \t"), number, name);
    if (ten_crontab_import(line, name, text, sizeof text, &mistake)) {
        puts(text);
        return true;
    }
    printf("# line %u, column %zu: %s\n# %s\n", number, mistake.at + 1, mistake.reason, line);
    return blame(path, number, mistake.at, mistake.reason);
}

static int import_file(const char *path) {
    FILE *file = path ? open_file(path) : popen("crontab -l", "re");
    if (!file)
        return TEN_EXIT_FAILED;
    puts("# NAME [key=value...] SCHEDULE COMMAND; see tenure-cron(1). Times of a user's crontab are local: add tz= "
         "where they\n"
         "# are not to be UTC.");
    int exit_code = each_job(path ? path : "crontab -l", file, import_line, NULL);
    int ended = path ? (file != stdin ? fclose(file) : 0) : pclose(file);
    return ended != 0 ? TEN_EXIT_FAILED : exit_code;
}

/* ---- ls */

static int take_newest(const ten_cron_run *run, void *userdata) {
    if (run->end > TEN_CRON_LOST) /* it did not run */
        return 0;
    *(ten_cron_run *)userdata = *run;
    return 1;
}

/* A claim without a result: its runner is at work, or the run was lost. */
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

struct listing {
    tenure_context *context;
    ten_table table;
};

static int list_one(const tenure_info *info, void *userdata) {
    struct listing *listing = userdata;
    char text[TENURE_CHECKPOINT_MAX + 1];
    size_t size = 0;
    char result[24];
    ten_cron_memory memory = {0};
    int r = tenure_target_checkpoint(listing->context, info->target, text, &size, NULL);
    if (r < 0 && r != TENURE_E_UNKNOWN_TARGET)
        return r;
    (void)ten_cron_memory_read(size ? text : NULL, &memory);
    name_result(&memory, size ? text : NULL, info->holder, result);
    return TEN_TABLE_ADD(
        &listing->table, {"JOB", "job", .text = info->target}, {NULL, "instance", .text = ten_or_null(info->holder)},
        {NULL, "token", TEN_COLUMN_NUMBER, .number = info->token},
        {"LAST", "last", TEN_COLUMN_TIME, .number = (uint64_t)memory.ran_ms},
        {NULL, "started_at", TEN_COLUMN_TIME, .number = (uint64_t)memory.started_ms},
        {"RESULT", "result", .text = result},
        {"TOOK", NULL, TEN_COLUMN_PERIOD, .number = memory.runs > 0 && !memory.open ? memory.duration_ms : TEN_NONE},
        {NULL, "by", .text = memory.holder}, {NULL, "duration_ms", TEN_COLUMN_NUMBER, .number = memory.duration_ms},
        {NULL, "runs", TEN_COLUMN_NUMBER, .number = memory.runs},
        {NULL, "skipped", TEN_COLUMN_NUMBER, .number = memory.skipped},
        {"NEXT", "next", TEN_COLUMN_TIME,
         .number = memory.known && memory.next_ms != TEN_CRON_NEVER ? (uint64_t)memory.next_ms : 0},
        {"HOLDER", NULL, .text = ten_or_null(info->holder)});
}

static int list_jobs(ten_arguments *arguments) {
    struct listing listing;
    int exit_code;
    arguments->needs_store = true;
    if (!ten_arguments_open(arguments, &exit_code))
        return exit_code;
    listing.context = arguments->context;
    ten_table_start(&listing.table, arguments);
    int r = tenure_target_list(arguments->context, TENURE_ALL, list_one, &listing);
    return ten_arguments_close(arguments, ten_find_end(arguments, &listing.table, r, "jobs"));
}

/* ---- cron FILE */

static ten_agent_config config = {.cron = true,
                                  .how = TEN_POLL_SPEC,
                                  .trust_targets = true, /* they are the file's, not the store's */
                                  .runner.store_wait_ms = TEN_STORE_WAIT_FOR_EVER,
                                  .every_ms = 1000,
                                  .timeout_ms = 1000,
                                  .weight = 1,
                                  .settle_ms = 2000,
                                  .max_targets = 100000};
static const ten_option options[] = {
    TEN_OPT_STORE_WAIT(&config.runner.store_wait_ms),
    TEN_OPT_WEIGHT(&config.weight, "this instance's share of the jobs; default 1"),
    TEN_OPT_SETTLE(&config.settle_ms, "jobs"),
    TEN_OPT_GRACE(&config.runner.grace_ms, "a command this long before its"),
    TEN_OPT_ON_UNCERTAIN(&config.runner.stop_when_uncertain, "commands under way"),
    TEN_OPT_PID_NAMESPACE(&config.runner.isolation, "each command"),
    TEN_OPT_METRICS(&config.runner.metrics),
    TEN_OPT_END,
};

static int run_file(ten_arguments *arguments) {
    static char targets[4096];
    if (config.weight == 0)
        return ten_arguments_usage(arguments, "--weight is at least 1; 'tenure drain INSTANCE' empties an instance");
    int exit_code = ten_arguments_check(arguments);
    if (exit_code)
        return exit_code;
    if (snprintf(targets, sizeof targets, "crontab:%s", arguments->operands[0]) >= (int)sizeof targets)
        return ten_arguments_usage(arguments, "the path of the crontab is too long");
    config.targets = targets;
    return ten_fleet_work_run(arguments, &config, NULL);
}

static int run(ten_arguments *arguments) {
    const char *verb = arguments->count > 0 ? arguments->operands[0] : "";
    if (arguments->count == 2 && strcmp(verb, "check") == 0)
        return check_file(arguments->operands[1]);
    if (arguments->count >= 1 && arguments->count <= 2 && strcmp(verb, "import") == 0)
        return import_file(arguments->count == 2 ? arguments->operands[1] : NULL);
    if (arguments->count == 1 && strcmp(verb, "ls") == 0)
        return list_jobs(arguments);
    if (arguments->count != 1)
        return ten_arguments_usage(arguments, "cron takes a file, or ls, check FILE or import [FILE]");
    return run_file(arguments);
}

const ten_command ten_cmd_cron = {TEN_HELP_cron, .default_namespace = "cron", .reloads = true, .options = options,
                                  .run = run};
