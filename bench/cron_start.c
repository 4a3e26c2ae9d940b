/*
 * The command of the jobs in cron.c: writes how many ms after TENURE_INSTANT it started to the end of the file that it
 * is given.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv) {
    struct timespec now;
    struct tm at = {0};
    int ms = 0;
    char line[32];
    clock_gettime(CLOCK_REALTIME, &now);
    const char *instant = getenv("TENURE_INSTANT");
    if (argc != 2 || !instant ||
        sscanf(instant, "%d-%d-%dT%d:%d:%d.%dZ", &at.tm_year, &at.tm_mon, &at.tm_mday, &at.tm_hour, &at.tm_min,
               &at.tm_sec, &ms) != 7)
        return 1;
    at.tm_year -= 1900;
    at.tm_mon -= 1;
    long late_ms = (long)(now.tv_sec - timegm(&at)) * 1000 + now.tv_nsec / 1000000 - ms;
    int size = snprintf(line, sizeof line, "%ld\n", late_ms);
    int fd = open(argv[1], O_WRONLY | O_APPEND | O_CREAT, 0644);
    return fd < 0 || write(fd, line, (size_t)size) != size;
}
