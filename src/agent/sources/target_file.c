/*
 * Targets as text: a line of a file, or the JSON that a program keeps of its sessions. Called by the agent's sources
 * and by the server.
 */
#include "agent/sources/target_file.h"

#include <jansson.h>
#include <stddef.h>
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

/* Hands out what was read, or frees it after an error. */
static int finish(int r, const tenure_target *target, ten_target_line *storage, tenure_target *ret_target,
                  ten_target_line **ret_storage) {
    if (r < 0) {
        ten_target_file_line_free(storage);
        return r;
    }
    *ret_target = *target;
    *ret_storage = storage;
    return TENURE_OK;
}

enum kind { TEXT, FLAG, PERIOD };

/* What may stand in an object, and where it goes. Of several for one place the last that is there counts; flags add
 * up. */
struct member {
    const char *name;
    enum kind kind;
    size_t at; /* in the target */
};

#define MEMBER(name, kind, field)                                                                                      \
    { (name), (kind), offsetof(tenure_target, field) }

static const struct member line_members[] = {MEMBER("id", TEXT, id), MEMBER("url", TEXT, url),
                                             MEMBER("exec", TEXT, exec), MEMBER("every", PERIOD, every_ms),
                                             MEMBER("paused", FLAG, paused)};
static const struct member session_members[] = {MEMBER("isPaused", FLAG, paused), MEMBER("is_paused", FLAG, paused),
                                                MEMBER("address", TEXT, url), MEMBER("url", TEXT, url),
                                                MEMBER("every", PERIOD, every_ms)};

static int read_member(const struct member *member, const json_t *value, tenure_target *target, ten_error *error) {
    void *place = (char *)target + member->at;
    const char *text = json_string_value(value);
    if (member->kind == FLAG) {
        *(bool *)place |= json_is_true(value);
        return json_is_boolean(value) ? TENURE_OK
                                      : ten_fail(error, TENURE_E_INVALID, "\"%s\" is not true or false", member->name);
    }
    if (!text || strlen(text) != json_string_length(value))
        return ten_fail(error, TENURE_E_INVALID, "\"%s\" is not a text", member->name);
    if (member->kind == TEXT) {
        *(const char **)place = text;
        return TENURE_OK;
    }
    int r = ten_duration_parse(text, place, error);
    if (r == TENURE_OK && target->every_ms > TENURE_TTL_MAX_MS)
        r = ten_fail(error, TENURE_E_INVALID, "an interval is at most 366 days");
    return r;
}

static int read_members(const json_t *object, const struct member *members, size_t count, tenure_target *target,
                        ten_error *error) {
    int r = TENURE_OK;
    for (size_t i = 0; r == TENURE_OK && i < count; i++) {
        const json_t *value = json_object_get(object, members[i].name);
        if (value && !json_is_null(value))
            r = read_member(&members[i], value, target, error);
    }
    return r;
}

static bool is_known(const char *name) {
    for (size_t i = 0; i < TEN_COUNT(line_members); i++)
        if (strcmp(line_members[i].name, name) == 0)
            return true;
    return strcmp(name, "spec") == 0;
}

static int read_object(ten_target_line *storage, tenure_target *target, ten_error *error) {
    const char *key;
    json_t *value;
    json_object_foreach(storage->json, key, value)
        if (!is_known(key))
            return ten_fail(error, TENURE_E_INVALID, "there is no member \"%.40s\" in a target", key);
    int r = read_members(storage->json, line_members, TEN_COUNT(line_members), target, error);
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
    TEN_STEP(r, ten_id_check_target(target.id, error));
    return finish(r, &target, storage, ret_target, ret_storage);
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

/* The JSON of another program: numbers may be larger than a machine's, and are not looked at. */
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
        r = read_members(storage->json, session_members, TEN_COUNT(session_members), &target, error);
    return finish(r, &target, storage, ret_target, ret_storage);
}
