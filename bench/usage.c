/*
 * Processor time and memory. See usage.h.
 */
#include "usage.h"

#include <dirent.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/io.h"
#include "base/util.h"

static double used_us(int who) {
    struct rusage used = {0};
    (void)getrusage(who, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e6 +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

double usage_self_us(void) {
    return used_us(RUSAGE_SELF);
}

double usage_children_us(void) {
    return used_us(RUSAGE_CHILDREN);
}

static double read_schedstat(const char *path) {
    char text[64];
    return ten_read_line(path, text, sizeof text) > 0 ? strtod(text, NULL) / 1e3 : 0;
}

double usage_first_thread_us(pid_t pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/schedstat", (int)pid);
    return read_schedstat(path);
}

double usage_threads_us(pid_t pid) {
    char path[96];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *threads = opendir(path);
    double sum = 0;
    for (struct dirent *entry; threads && (entry = readdir(threads));) {
        snprintf(path, sizeof path, "/proc/%d/task/%.20s/schedstat", (int)pid, entry->d_name);
        sum += entry->d_name[0] != '.' ? read_schedstat(path) : 0;
    }
    if (threads)
        closedir(threads);
    return sum;
}

/* Of the children for which one process has waited, in ticks; its parent's number as well. */
static bool read_stat(pid_t pid, long *ret_parent, double *ret_ticks) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (ten_read_line(path, text, sizeof text) <= 0)
        return false;
    const char *rest = strrchr(text, ')');
    unsigned long user = 0, system = 0;
    if (!rest || sscanf(rest + 2, "%*c %ld %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %lu %lu", ret_parent, &user,
                        &system) != 3)
        return false;
    *ret_ticks = (double)(user + system);
    return true;
}

double usage_server_ms(pid_t server) {
    double sum = 0;
    DIR *processes = opendir("/proc");
    for (struct dirent *entry; processes && (entry = readdir(processes));) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        long parent = 0;
        double ticks = 0;
        if (pid > 0 && read_stat(pid, &parent, &ticks) && (pid == server || parent == server))
            sum += usage_threads_us(pid) / 1e3 + ticks * 1e3 / (double)sysconf(_SC_CLK_TCK);
    }
    if (processes)
        closedir(processes);
    return sum;
}

double usage_resident_bytes(void) {
    char text[256] = "";
    size_t pages = 0, resident = 0;
    if (ten_read_line("/proc/self/statm", text, sizeof text) <= 0 || sscanf(text, "%zu %zu", &pages, &resident) != 2)
        return 0;
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}
