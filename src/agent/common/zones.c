/*
 * Time zones by name. See zones.h.
 */
#include "agent/common/zones.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/util.h"

#define DIRECTORY      "/usr/share/zoneinfo"
#define SIZE_MAX_BYTES ((size_t)1024 * 1024)

static int read_zone(const char *name, ten_zone *ret_zone, ten_error *error) {
    char path[256];
    struct stat file;
    snprintf(path, sizeof path, DIRECTORY "/%s", name);
    TEN_CLEANUP(ten_close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR) && access(DIRECTORY, F_OK) != 0)
        return ten_fail(error, TENURE_E_INVALID,
                        "the time zone '%s' cannot be read: " DIRECTORY " is missing; install tzdata", name);
    if (fd < 0 || fstat(fd, &file) != 0 || !S_ISREG(file.st_mode) || (size_t)file.st_size > SIZE_MAX_BYTES)
        return ten_fail(error, TENURE_E_INVALID, "there is no time zone '%s' in " DIRECTORY, name);
    char *data = ten_malloc((size_t)file.st_size + 1);
    size_t size = 0;
    ssize_t count = 0;
    while (data && size < (size_t)file.st_size &&
           (count = ten_read_some(fd, data + size, (size_t)file.st_size - size)) > 0)
        size += (size_t)count;
    bool good = data && count >= 0 && ten_zone_parse(data, size, ret_zone);
    ten_free(data);
    return good ? TENURE_OK : ten_fail(error, TENURE_E_INVALID, "the file of the time zone '%s' cannot be read", name);
}

const ten_zone *ten_zones_get(ten_zones *zones, const char *name, ten_error *error) {
    if (name[0] == '\0')
        return &ten_zone_utc;
    ten_zone *zone = ten_map_get(&zones->by_name, name);
    if (zone)
        return zone;
    zone = ten_calloc(1, sizeof *zone);
    if (!zone) {
        (void)ten_fail_memory(error, "a time zone");
        return NULL;
    }
    if (read_zone(name, zone, error) == TENURE_OK) {
        if (ten_map_put(&zones->by_name, name, zone))
            return zone;
        (void)ten_fail_memory(error, "a time zone");
    }
    ten_zone_free(zone);
    ten_free(zone);
    return NULL;
}

void ten_zones_free(ten_zones *zones) {
    const ten_map_entry *found;
    for (size_t at = 0; (found = ten_map_next(&zones->by_name, &at));) {
        ten_zone_free(found->value);
        ten_free(found->value);
    }
    ten_map_free(&zones->by_name);
}
