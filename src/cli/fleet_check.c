/*
 * The fleet, for `tenure doctor`. Called by cmd_doctor.c.
 */
#include "cli/fleet_check.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/map.h"

#define LOOK_BACK_MS  UINT64_C(600000)
#define CHANGES_USUAL 6u /* a drain and its undoing are four */
#define VERSIONS_MAX  8u

/* ---- versions */

struct versions {
    struct {
        char version[32];
        size_t count;
    } at[VERSIONS_MAX];
    size_t count;
    size_t instances;
    uint64_t ttl_ms;
};

static int take_instance(const tenure_instance *instance, void *userdata) {
    struct versions *versions = userdata;
    json_t *metadata = instance->metadata ? json_loads(instance->metadata, 0, NULL) : NULL;
    const char *version = json_string_value(json_object_get(metadata, "version"));
    versions->instances++;
    versions->ttl_ms = ten_max_u64(versions->ttl_ms, instance->ttl_ms);
    size_t i = 0;
    while (version && i < versions->count && strcmp(versions->at[i].version, version) != 0)
        i++;
    if (version && i < VERSIONS_MAX) { /* one that says none is another program, or a tracker by REST */
        if (i == versions->count)
            snprintf(versions->at[versions->count++].version, sizeof versions->at[i].version, "%.30s", version);
        versions->at[i].count++;
    }
    json_decref(metadata);
    return 0;
}

static void tell_versions(const struct versions *versions, tenure_check_fn each, void *userdata) {
    char found[256] = "";
    size_t size = 0;
    if (versions->instances == 0)
        snprintf(found, sizeof found, "no instance is live");
    else if (versions->count == 0)
        snprintf(found, sizeof found, "%zu live, none of which says its version", versions->instances);
    for (size_t i = 0; i < versions->count && size < sizeof found - 1; i++)
        size += (size_t)snprintf(found + size, sizeof found - size, "%s%zu of version %s", i ? ", " : "",
                                 versions->at[i].count, versions->at[i].version);
    bool mixed = versions->count > 1;
    each(mixed ? TENURE_CHECK_WARN : TENURE_CHECK_OK, "fleet's versions", found,
         mixed
             ? "finish the deploy: a fleet of two versions works, but what only the new one does is not to be relied on"
             : "",
         userdata);
}

/* ---- ids */

/* An instance says something else of itself each time that it beats when two processes beat under its name. */
struct beats {
    ten_map changes; /* instance -> how often it changed, as a number */
    char worst[TENURE_HOLDER_MAX + 1];
    uintptr_t count;
};

static int take_change(const tenure_change *change, void *userdata) {
    struct beats *beats = userdata;
    if (change->kind != TENURE_EVENT_INSTANCE_CHANGED || change->actor[0] != '\0')
        return 0;
    uintptr_t count = (uintptr_t)ten_map_get(&beats->changes, change->instance) + 1;
    if (!ten_map_put(&beats->changes, change->instance, (void *)count) || count <= beats->count)
        return 0;
    beats->count = count;
    snprintf(beats->worst, sizeof beats->worst, "%s", change->instance);
    return 0;
}

static void tell_ids(const struct beats *beats, tenure_check_fn each, void *userdata) {
    char found[TENURE_HOLDER_MAX + 120] = "all instance ids are unique";
    bool shared = beats->count > CHANGES_USUAL;
    if (shared)
        snprintf(found, sizeof found, "%s announced itself differently %zu times in the last 10 minutes", beats->worst,
                 (size_t)beats->count);
    each(shared ? TENURE_CHECK_FAIL : TENURE_CHECK_OK, "instance ids", found,
         shared
             ? "two processes seem to use this id, and each takes the other's leases for its own: give every process "
               "an id of its own, new at each start"
             : "",
         userdata);
}

int ten_fleet_check(const ten_arguments *arguments, tenure_check_fn each, void *userdata, uint64_t *ret_ttl_ms) {
    struct versions versions = {0};
    struct beats beats = {0};
    int r = tenure_instance_list(arguments->context, take_instance, &versions);
    TEN_STEP(r, tenure_history_read(arguments->context, NULL, LOOK_BACK_MS, SIZE_MAX, take_change, &beats));
    if (r == TENURE_OK) {
        tell_versions(&versions, each, userdata);
        tell_ids(&beats, each, userdata);
    }
    *ret_ttl_ms = versions.ttl_ms;
    ten_map_free(&beats.changes);
    return r;
}
