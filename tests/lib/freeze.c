/* Stops a process, and waits until it stands still. */
#include "lib/freeze.h"

#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { FREEZE_LOOKS = 12000, FREEZE_LOOK_MS = 5 };

/* A thread that is gone does not run either. */
static bool thread_runs(pid_t pid, const char *thread) {
    char path[300];
    char line[512];
    (void)snprintf(path, sizeof path, "/proc/%d/task/%.200s/stat", (int)pid, thread);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    const char *name_end = fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
    (void)fclose(file);
    return name_end && name_end[1] == ' ' && !strchr("TtZX", name_end[2]);
}

static bool process_runs(pid_t pid) {
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *threads = opendir(path);
    bool runs = false;
    for (const struct dirent *entry; threads && !runs && (entry = readdir(threads));)
        runs = entry->d_name[0] != '.' && thread_runs(pid, entry->d_name);
    if (threads)
        (void)closedir(threads);
    return runs;
}

int freeze_process(pid_t pid) {
    if (kill(pid, SIGSTOP) < 0)
        return -1;
    for (int look = 0; look < FREEZE_LOOKS; look++) {
        if (!process_runs(pid))
            return 0;
        (void)nanosleep(&(struct timespec){.tv_nsec = FREEZE_LOOK_MS * 1000000L}, NULL);
    }
    return -1;
}

int thaw_process(pid_t pid) {
    return kill(pid, SIGCONT);
}
