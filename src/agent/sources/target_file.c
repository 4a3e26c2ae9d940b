/*
 * Targets as text: a line of a file, or the JSON that a program keeps of its sessions. Called by the agent's sources and
 * by the server.
 */
#include "agent/sources/target_file.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "base/id.h"
#include "base/utf8.h"

#define SESSION_MAX 65536u /* it becomes an environment variable, whose size has a limit */

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

/* ---- a job of a crontab */

int ten_target_file_job(const char *name, const char *command, const char *line, tenure_target *ret_target,
                        ten_target_line **ret_storage) {
    ten_target_line *storage = ten_calloc(1, sizeof *storage);
    if (!storage || !(storage->spec = strdup(line))) {
        ten_free(storage);
        return TENURE_E_NOMEM;
    }
    snprintf(storage->id, sizeof storage->id, "%s", name);
    *ret_target = (tenure_target){
        .size = sizeof *ret_target, .id = storage->id, .exec = storage->spec + (command - line), .spec = storage->spec};
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
