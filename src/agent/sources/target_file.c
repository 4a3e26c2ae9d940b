/*
 * Targets from a file, and targets as text: a line, or the JSON that a program keeps of its sessions. Called by the
 * agent's sources.
 */
#include "agent/sources/target_file.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/duration.h"
#include "base/hash.h"
#include "base/id.h"
#include "base/io.h"
#include "base/utf8.h"

#define REPORTED_MAX 64u
#define SESSION_MAX  65536u /* it becomes an environment variable, whose size has a limit */

struct ten_target_file {
    char *path;
    int watch_fd;
    uint64_t reported[REPORTED_MAX]; /* hashes of bad lines that have been told */
    unsigned reported_count;
};

/* ---- one line */

struct ten_target_line {
    json_t *json; /* NULL: a plain id */
    char *spec;   /* malloc's memory, as jansson has it */
    char id[TENURE_TARGET_MAX + 1];
};

void ten_target_file_line_free(ten_target_line *storage) {
    if (!storage)
        return;
    json_decref(storage->json);
    free(storage->spec);
    ten_free(storage);
}

static int text_member(const json_t *object, const char *key, const char **ret_text, ten_error *error) {
    const json_t *value = json_object_get(object, key);
    if (!value || json_is_null(value))
        return TENURE_OK;
    if (!json_is_string(value) || strlen(json_string_value(value)) != json_string_length(value))
        return ten_fail(error, TENURE_E_INVALID, "\"%s\" is not a text", key);
    *ret_text = json_string_value(value);
    return TENURE_OK;
}

static int read_object(ten_target_line *storage, tenure_target *target, ten_error *error) {
    static const char *const known[] = {"id", "url", "exec", "every", "paused", "spec"};
    const char *every = NULL;
    const char *key;
    json_t *value;
    json_object_foreach(storage->json, key, value) {
        size_t i = 0;
        while (i < TEN_COUNT(known) && strcmp(known[i], key) != 0)
            i++;
        if (i == TEN_COUNT(known))
            return ten_fail(error, TENURE_E_INVALID, "there is no member \"%.40s\" in a target", key);
    }
    int r = text_member(storage->json, "id", &target->id, error);
    if (r == TENURE_OK)
        r = text_member(storage->json, "url", &target->url, error);
    if (r == TENURE_OK)
        r = text_member(storage->json, "exec", &target->exec, error);
    if (r == TENURE_OK)
        r = text_member(storage->json, "every", &every, error);
    if (r == TENURE_OK && every)
        r = ten_duration_parse(every, &target->every_ms, error);
    const json_t *paused = json_object_get(storage->json, "paused");
    if (r == TENURE_OK && paused && !json_is_boolean(paused))
        r = ten_fail(error, TENURE_E_INVALID, "\"paused\" is not true or false");
    target->paused = json_is_true(paused);
    const json_t *spec = json_object_get(storage->json, "spec");
    if (r == TENURE_OK && spec && !(storage->spec = json_dumps(spec, JSON_COMPACT | JSON_ENCODE_ANY)))
        r = ten_fail_memory(error, "a target");
    target->spec = storage->spec;
    return r;
}

int ten_target_file_line_parse(const char *line, tenure_target *ret_target, ten_target_line **ret_storage,
                               ten_error *error) {
    ten_target_line *storage = ten_calloc(1, sizeof *storage);
    if (!storage)
        return ten_fail_memory(error, "a target");
    tenure_target target = {.size = sizeof target};
    int r = TENURE_OK;
    if (line[0] == '{') {
        json_error_t problem;
        storage->json = json_loads(line, JSON_REJECT_DUPLICATES, &problem);
        r = storage->json ? read_object(storage, &target, error)
                          : ten_fail(error, TENURE_E_INVALID, "not JSON: %s (column %d)", problem.text, problem.column);
    } else {
        snprintf(storage->id, sizeof storage->id, "%s", line);
        target.id = strlen(line) > TENURE_TARGET_MAX ? line : storage->id;
    }
    if (r == TENURE_OK && !target.id)
        r = ten_fail(error, TENURE_E_INVALID, "\"id\" is missing");
    if (r == TENURE_OK)
        r = ten_id_check_target(target.id, error);
    if (r == TENURE_OK && target.every_ms > TENURE_TTL_MAX_MS)
        r = ten_fail(error, TENURE_E_INVALID, "an interval is at most 366 days");
    if (r < 0) {
        ten_target_file_line_free(storage);
        return r;
    }
    *ret_target = target;
    *ret_storage = storage;
    return TENURE_OK;
}

/* ---- a session */

static int flag_member(const json_t *object, const char *key, bool *flag, ten_error *error) {
    const json_t *value = json_object_get(object, key);
    if (value && !json_is_null(value) && !json_is_boolean(value))
        return ten_fail(error, TENURE_E_INVALID, "\"%s\" is not true or false", key);
    *flag |= json_is_true(value);
    return TENURE_OK;
}

static int read_session(ten_target_line *storage, tenure_target *target, ten_error *error) {
    const char *every = NULL;
    int r = flag_member(storage->json, "isPaused", &target->paused, error);
    if (r == TENURE_OK)
        r = flag_member(storage->json, "is_paused", &target->paused, error);
    if (r == TENURE_OK)
        r = text_member(storage->json, "address", &target->url, error);
    if (r == TENURE_OK)
        r = text_member(storage->json, "url", &target->url, error);
    if (r == TENURE_OK)
        r = text_member(storage->json, "every", &every, error);
    if (r == TENURE_OK && every)
        r = ten_duration_parse(every, &target->every_ms, error);
    if (r == TENURE_OK && target->every_ms > TENURE_TTL_MAX_MS)
        r = ten_fail(error, TENURE_E_INVALID, "an interval is at most 366 days");
    return r;
}

/* Somebody else's JSON: numbers may be larger than a machine's, and are not looked at. */
int ten_target_file_session_parse(const char *id, const char *text, size_t size, tenure_target *ret_target,
                                  ten_target_line **ret_storage, ten_error *error) {
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL;
    if (size > SESSION_MAX)
        return ten_fail(error, TENURE_E_INVALID, "the value has %zu bytes; at most 65536 can be used", size);
    ten_target_line *storage = ten_calloc(1, sizeof *storage);
    if (!storage || !(storage->spec = strndup(text, size))) {
        ten_free(storage);
        return ten_fail_memory(error, "a target");
    }
    snprintf(storage->id, sizeof storage->id, "%s", id);
    tenure_target target = {.size = sizeof target, .id = storage->id, .spec = storage->spec};
    json_error_t problem;
    storage->json = json_loadb(text, size, flags, &problem);
    int r = TENURE_OK;
    if (ten_text_has_nul(text, size))
        r = ten_fail(error, TENURE_E_INVALID, "the value is not JSON: it contains a NUL");
    else if (!storage->json)
        r = ten_fail(error, TENURE_E_INVALID, "the value is not JSON: %s", problem.text);
    else if (!json_is_object(storage->json))
        r = ten_fail(error, TENURE_E_INVALID, "the value is not a JSON object");
    else
        r = read_session(storage, &target, error);
    if (r < 0) {
        ten_target_file_line_free(storage);
        return r;
    }
    *ret_target = target;
    *ret_storage = storage;
    return TENURE_OK;
}

/* ---- the file */

/* The directory is watched, not the file: editors and deployments put a new file in its place. */
int ten_target_file_open(const char *path, ten_target_file **ret_file, ten_error *error) {
    ten_target_file *file = ten_calloc(1, sizeof *file);
    TEN_CLEANUP(ten_free_string) char *copy = ten_strdup(path);
    if (!file || !copy || !(file->path = ten_strdup(path))) {
        ten_free(file);
        return ten_fail_memory(error, "%s", path);
    }
    file->watch_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (file->watch_fd < 0 ||
        inotify_add_watch(file->watch_fd, dirname(copy), IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE | IN_DELETE) < 0) {
        int failed = errno;
        ten_target_file_close(file);
        return ten_fail_errno(error, TENURE_E_SYSTEM, failed, "cannot watch the directory of %s", path);
    }
    *ret_file = file;
    return TENURE_OK;
}

void ten_target_file_close(ten_target_file *file) {
    if (!file)
        return;
    ten_close_fd(&file->watch_fd);
    ten_free(file->path);
    ten_free(file);
}

int ten_target_file_fd(const ten_target_file *file) {
    return file->watch_fd;
}

static bool is_news(ten_target_file *file, const char *line) {
    uint64_t hash = ten_hash_text(line);
    for (unsigned i = 0; i < file->reported_count && i < REPORTED_MAX; i++)
        if (file->reported[i] == hash)
            return false;
    file->reported[file->reported_count++ % REPORTED_MAX] = hash;
    return true;
}

static void read_line(ten_target_file *file, char *line, unsigned number, ten_target_file_fn each,
                      ten_target_file_bad_fn bad, void *userdata) {
    size_t size = strlen(line);
    while (size > 0 && strchr(" \t\r", line[size - 1]))
        line[--size] = '\0';
    line += strspn(line, " \t");
    if (line[0] == '\0' || line[0] == '#')
        return;
    tenure_target target;
    ten_target_line *storage;
    ten_error error;
    if (ten_target_file_line_parse(line, &target, &storage, &error) == TENURE_OK) {
        each(&target, userdata);
        ten_target_file_line_free(storage);
    } else if (is_news(file, line)) {
        bad(number, error.message, userdata);
    }
}

static int read_whole(const char *path, ten_buf *text, ten_error *error) {
    char chunk[8192];
    TEN_CLEANUP(ten_close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t count = fd < 0 ? -errno : 0;
    while (fd >= 0 && (count = ten_read_some(fd, chunk, sizeof chunk)) > 0)
        ten_buf_add(text, chunk, (size_t)count);
    if (count < 0)
        return ten_fail_errno(error, TENURE_E_SYSTEM, (int)-count, "cannot read the targets from %s", path);
    return text->failed ? ten_fail_memory(error, "the targets of %s", path) : TENURE_OK;
}

int ten_target_file_read(ten_target_file *file, ten_target_file_fn each, ten_target_file_bad_fn bad, void *userdata,
                         ten_error *error) {
    char events[4096];
    while (ten_read_some(file->watch_fd, events, sizeof events) > 0)
        ;
    ten_buf text = {0};
    int r = read_whole(file->path, &text, error);
    unsigned number = 0;
    for (char *at = r == TENURE_OK ? text.data : NULL; at && *at;) {
        char *end = strchr(at, '\n');
        if (end)
            *end = '\0';
        read_line(file, at, ++number, each, bad, userdata);
        at = end ? end + 1 : NULL;
    }
    ten_buf_free(&text);
    return r;
}
