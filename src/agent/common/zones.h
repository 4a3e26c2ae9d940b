/*
 * Time zones by name, from the system's files. A zone is read once and kept. Used by the runner of jobs, by the source
 * of crontabs and by `tenure cron`; each has its own zones.
 */
#ifndef TEN_AGENT_ZONES_H
#define TEN_AGENT_ZONES_H

#include "base/error.h"
#include "base/map.h"
#include "core/cron_zone.h"

typedef struct ten_zones {
    ten_map by_name;
} ten_zones;

/* "" is UTC. NULL: there is no such zone, or it cannot be read; the error says which. It lives as long as the zones
 * do. */
const ten_zone *ten_zones_get(ten_zones *zones, const char *name, ten_error *error);
void ten_zones_free(ten_zones *zones);

#endif
