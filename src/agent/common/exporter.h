/*
 * Metrics of an agent, a candidate or a guard, as Prometheus reads them: one page over HTTP, from a thread of its own
 * (libmicrohttpd's), which reads counters and touches nothing else. It says nothing about targets by name.
 */
#ifndef TEN_AGENT_EXPORTER_H
#define TEN_AGENT_EXPORTER_H

#include "base/buf.h"
#include "base/log.h"
#include "runtime/measures.h"

typedef struct ten_exporter ten_exporter;

/* TEN_EXPORTS_LEADER has no metrics: GET /leader says by its status whether this instance leads. */
enum ten_exports { TEN_EXPORTS_FLEET, TEN_EXPORTS_CRON, TEN_EXPORTS_ROLE, TEN_EXPORTS_GUARD, TEN_EXPORTS_LEADER };

typedef struct ten_exporter_config {
    const char *address; /* PORT, ADDR:PORT or [ADDR]:PORT; without an address: loopback */
    enum ten_exports kind;
    const ten_measures *measures; /* all of these must outlive the exporter */
    const char *instance;
    const tenure_options *identity; /* whose address and labels the instance announces; NULL: none */
    const char *namespace_name;
    const char *role;      /* these three of TEN_EXPORTS_ROLE */
    const char *role_kind; /* the command: elect, lock or once */
    uint32_t slots;        /* how many may lead it at a time */
    const char *store;     /* its URL, of which the scheme is shown; NULL: the default */
    bool (*leads)(const void *userdata);
    void (*write_jobs)(ten_buf *to, void *jobs); /* of TEN_EXPORTS_CRON: what there is of each job */
    void *jobs;
    const void *userdata;
    ten_log *log; /* for where it listens */
} ten_exporter_config;

/* TENURE_E_INVALID: the address is none. TENURE_E_UNSUPPORTED: this build has no HTTP server. */
int ten_exporter_open(const ten_exporter_config *config, ten_exporter **ret_exporter, ten_error *error);
/* Waits for answers under way. */
void ten_exporter_close(ten_exporter *exporter);

/* The page. */
void ten_exporter_write(const ten_exporter_config *config, ten_buf *to);

#endif
