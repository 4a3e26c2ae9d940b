/*
 * Thousands of polls whose worker is stopped: the warden ends them. The time runs from the start of the grace to the
 * last process gone, and the reference is the grace itself: what takes longer has not ended by its deadline. Each form
 * of isolation that this machine allows is measured; tests/lib/polls_watch.py looks at the processes.
 */
#include "measures.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/util.h"
#include "child.h"
#include "ground.h"

#define WORDS_MAX  40
#define NOBODY     "65534"
#define START_MS   10000u
#define ANSWER_MAX 512

/* How an agent is started, so that it takes this form. */
static const struct form {
    const char *name; /* as its log has it */
    const char *prefix[5];
    const char *wish;
} forms[] = {
    {"none", {NULL}, "off"},
    {"pid-namespace", {NULL}, "auto"},
    {"cgroup", {"setpriv", "--bounding-set=-sys_admin", NULL}, "auto"},
    {"user-namespace", {"setpriv", "--reuid=" NOBODY, "--regid=" NOBODY, "--clear-groups", NULL}, "auto"},
};

static const struct size {
    unsigned polls;
    unsigned ttl_ms;
} sizes[] = {{1000, 3000}, {4096, 30000}};

struct run {
    const struct form *form;
    const struct size *size;
    char directory[GROUND_PATH_SIZE + 64];
    char tenure[GROUND_PATH_SIZE + 16];
    pid_t agent;
};

/* ---- the agent */

static bool write_targets(const struct run *run) {
    char path[GROUND_PATH_SIZE + 80];
    snprintf(path, sizeof path, "%s/targets", run->directory);
    FILE *file = fopen(path, "we");
    for (unsigned i = 0; file && i < run->size->polls; i++)
        fprintf(file, "target-%u\n", i);
    return file && fclose(file) == 0;
}

static _Noreturn void be_agent(const struct run *run) {
    char store[GROUND_PATH_SIZE + 96], targets[GROUND_PATH_SIZE + 96], log[GROUND_PATH_SIZE + 80], ttl[16];
    const char *words[WORDS_MAX] = {0};
    size_t count = 0;
    snprintf(store, sizeof store, "sqlite:%s/store.db", run->directory);
    snprintf(targets, sizeof targets, "file:%s/targets", run->directory);
    snprintf(log, sizeof log, "%s/log", run->directory);
    snprintf(ttl, sizeof ttl, "%ums", run->size->ttl_ms);
    while (run->form->prefix[count]) {
        words[count] = run->form->prefix[count];
        count++;
    }
    const char *const rest[] = {
        run->tenure,       "agent",        "--store", store,       "--ttl", ttl,      "--targets",
        targets,           "--every",      "1000s",   "--timeout", "1000s", "--poll", "exec:exec sleep 1000",
        "--pid-namespace", run->form->wish};
    memcpy(words + count, rest, sizeof rest);
    int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || dup2(fd, STDERR_FILENO) < 0)
        _exit(1);
    execvp(words[0], (char *const *)words);
    _exit(1);
}

static bool log_has(const struct run *run, const char *text) {
    char path[GROUND_PATH_SIZE + 80];
    char line[512];
    bool found = false;
    snprintf(path, sizeof path, "%s/log", run->directory);
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file))
        found = strstr(line, text) != NULL;
    if (file)
        (void)fclose(file);
    return found;
}

/* False: this form cannot be had here. */
static bool start_agent(struct run *run) {
    char wanted[64];
    snprintf(wanted, sizeof wanted, "isolation=%s", run->form->name);
    fflush(NULL);
    run->agent = fork();
    if (run->agent == 0)
        be_agent(run);
    for (unsigned waited = 0; run->agent > 0 && waited < START_MS; waited += 50) {
        ten_sleep_us(50000);
        if (log_has(run, "event=isolation "))
            return log_has(run, wanted);
    }
    return false;
}

static void end_agent(struct run *run) {
    if (run->agent <= 0)
        return;
    (void)kill(run->agent, SIGKILL);
    (void)waitpid(run->agent, NULL, 0);
}

/* ---- the watch */

/* From the start of the grace to the last process gone, against the deadline of each poll. */
static bool watch(const struct run *run, double *ret_ms, double *ret_cpu_ms) {
    char command[2 * GROUND_PATH_SIZE + 256];
    char answer[ANSWER_MAX] = "";
    snprintf(command, sizeof command,
             BENCH_PYTHON " " BENCH_WATCH " \"$(cat /proc/%d/task/%d/children)\" %u %s/store.db stop alone",
             (int)run->agent, (int)run->agent, run->size->polls, run->directory);
    FILE *watcher = popen(command, "re");
    if (watcher && !fgets(answer, sizeof answer, watcher))
        answer[0] = '\0';
    if (watcher)
        (void)pclose(watcher);
    const char *before = strstr(answer, "\"before_end_ms\": ");
    const char *cpu = strstr(answer, "\"cpu_ms\": ");
    double margin_and_grace_ms = run->size->ttl_ms / 8.0 + run->size->ttl_ms / 10.0;
    if (!before || !cpu || !strstr(answer, "\"left\": 0"))
        return bench_could_not("end the polls");
    *ret_ms = margin_and_grace_ms - strtod(before + strlen("\"before_end_ms\": "), NULL);
    *ret_cpu_ms = strtod(cpu + strlen("\"cpu_ms\": "), NULL);
    return true;
}

/* ---- a row */

static bool add_row(bench_report *report, const struct run *run, double ms, double cpu_ms) {
    static char names[TEN_COUNT(sizes) * TEN_COUNT(forms)][48];
    char *name = names[(size_t)(run->size - sizes) * TEN_COUNT(forms) + (size_t)(run->form - forms)];
    double grace_ms = run->size->ttl_ms / 10.0;
    snprintf(name, sizeof names[0], "endings/%s-%u", run->form->name, run->size->polls);
    bench_row head = {.name = name, .against = "the grace", .kind = BENCH_WAIT, .goal = grace_ms};
    bench_row *row = bench_add(report, head, &ms, &grace_ms, 1);
    if (!row)
        return false;
    printf("    processor time of the warden: %.0f ms\n", cpu_ms);
    ten_buf_format(&row->more, ",\"polls\":%u,\"ttl_ms\":%u,\"warden_cpu_ms\":%.0f", run->size->polls,
                   run->size->ttl_ms, cpu_ms);
    return true;
}

/* It lies beside the directory of this program. */
static bool find_tenure(struct run *run) {
    char own[GROUND_PATH_SIZE];
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    if (length <= 0)
        return false;
    own[length] = '\0';
    *strrchr(own, '/') = '\0';
    snprintf(run->tenure, sizeof run->tenure, "%s/../tenure", own);
    return access(run->tenure, X_OK) == 0;
}

static bool measure(bench_report *report, const char *directory, const struct form *form, const struct size *size) {
    struct run run = {.form = form, .size = size};
    double ms = 0, cpu_ms = 0;
    if (!find_tenure(&run))
        return bench_could_not("find the program");
    snprintf(run.directory, sizeof run.directory, "%s/%s-%u", directory, form->name, size->polls);
    if (mkdir(run.directory, 0777) != 0 || chmod(run.directory, 0777) != 0 || chmod(directory, 0755) != 0 ||
        !write_targets(&run))
        return bench_could_not("make a directory");
    bool done = true;
    if (!start_agent(&run))
        printf("endings/%s-%u: NOT MEASURED: this form of isolation cannot be had here\n", form->name, size->polls);
    else
        done = watch(&run, &ms, &cpu_ms) && add_row(report, &run, ms, cpu_ms);
    end_agent(&run);
    return done;
}

bool endings_measure(bench_report *report, const char *directory) {
    for (size_t i = 0; i < TEN_COUNT(sizes); i++)
        for (size_t j = 0; j < TEN_COUNT(forms); j++)
            if (!measure(report, directory, &forms[j], &sizes[i]))
                return false;
    return true;
}
