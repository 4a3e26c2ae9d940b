/*
 * Starts and ends an agent: checks its options, opens what it consists of, joins the fleet, and closes everything. It runs
 * in the worker process, under the warden. agent_loop.c is the loop itself.
 */
#include "agent/poller/agent.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "agent/common/store_wait.h"
#include "agent/poller/agent_state.h"
#include "agent/warden/tree.h"
#include "base/alloc.h"
#include "base/io.h"
#include "runtime/member.h"

#define KILL_AFTER_MS 1000u /* from asking a poll to end to killing it, with the lease still good */
#define FLUSH_MS      2000u

/* ---- options */

int ten_agent_parse_poll(const char *text, ten_agent_config *config, ten_error *error) {
    if (strncmp(text, "exec:", 5) == 0 && text[5] != '\0') {
        config->how = TEN_POLL_EXEC;
        config->command = text + 5;
    } else if (strcmp(text, "http") == 0) {
        config->how = TEN_POLL_HTTP;
    } else if (strcmp(text, "spec") == 0) {
        config->how = TEN_POLL_SPEC;
    } else {
        return ten_fail(error, TENURE_E_INVALID, "there is no poller '%.60s': write exec:CMD, http or spec", text);
    }
    return TENURE_OK;
}

int ten_agent_check(const ten_agent_config *config, ten_error *error) {
    int r = ten_source_check(config, error);
    if (r < 0)
        return r;
    uint64_t room_ms = config->context.ttl_ms - config->context.margin_ms;
    if (config->grace_ms < 10 || config->grace_ms > room_ms / 2)
        return ten_fail(
            error, TENURE_E_TTL,
            "a grace of %llu ms cannot be safe: it is at least 10 ms, and at most half of the TTL less the margin",
            (unsigned long long)config->grace_ms);
    if (config->every_ms > TENURE_TTL_MAX_MS || config->timeout_ms > TENURE_TTL_MAX_MS)
        return ten_fail(error, TENURE_E_INVALID, "an interval or a time-out is at most 366 days");
    return TENURE_OK;
}

/* ---- start and end */

static int watch(struct ten_agent *agent, int fd, void *what, ten_error *error) {
    struct epoll_event wanted = {.events = EPOLLIN, .data.ptr = what};
    if (fd < 0 || epoll_ctl(agent->epoll_fd, EPOLL_CTL_ADD, fd, &wanted) != 0)
        return ten_fail_errno(error, TENURE_E_SYSTEM, errno, "cannot start the agent's loop");
    return TENURE_OK;
}

static int open_loop(struct ten_agent *agent, ten_error *error) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    sigaddset(&signals, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    agent->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    agent->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    agent->event_fd = ten_eventfd_open();
    int r = ten_poll_http_open(agent, error);
    if (r == TENURE_OK)
        r = watch(agent, agent->signal_fd, &agent->signal_fd, error);
    return r < 0 ? r : watch(agent, agent->event_fd, &agent->event_fd, error);
}

static int open_sinks(struct ten_agent *agent, ten_error *error) {
    agent->sinks = ten_calloc(agent->config->sink_count + 1, sizeof(ten_sink *));
    if (!agent->sinks)
        return ten_fail_memory(error, "the sinks");
    int r = ten_receipts_open(&agent->receipts, error);
    if (r == TENURE_OK)
        r = watch(agent, ten_receipts_fd(agent->receipts), &agent->receipts, error);
    for (size_t i = 0; r == TENURE_OK && i < agent->config->sink_count; i++)
        r = ten_sink_open(agent->config->sinks[i], agent->config, &agent->sinks[i], error);
    return r;
}

static bool was_stopped(void *userdata) {
    const struct ten_agent *agent = userdata;
    return ten_store_wait_signal(agent->signal_fd) != 0;
}

static int open_context(struct ten_agent *agent, ten_error *error) {
    const ten_agent_config *config = agent->config;
    ten_log_config log = {.fd = STDERR_FILENO,
                          .format = config->log_format,
                          .level = config->log_level,
                          .clock = &ten_system_clock,
                          .namespace_name = config->context.namespace_name};
    ten_store_wait wait = {.store = config->store,
                           .wait_ms = config->store_wait_ms,
                           .log = &log,
                           .is_stopped = was_stopped,
                           .userdata = agent};
    int r = ten_store_wait_open(&wait, &config->context, &agent->context, error);
    if (r < 0)
        return r;
    agent->instance = tenure_instance_id(agent->context);
    agent->namespace_name = config->context.namespace_name;
    struct ten_shared_state *state = agent->shared->state;
    snprintf(state->instance, sizeof state->instance, "%s", agent->instance);
    atomic_store(&state->ready, true);
    log.instance = agent->instance;
    r = ten_log_open(&log, &agent->log, error);
    agent->children.log = agent->log;
    ten_children_report(&agent->children, TEN_LOG_INFO);
    return r;
}

/* Joins the fleet. */
static int open_member(struct ten_agent *agent, ten_error *error) {
    const ten_agent_config *config = agent->config;
    tenure_member_options options = {.size = sizeof options,
                                     .flags = strcmp(config->targets, "store") == 0 ? TENURE_TARGETS_FROM_STORE : 0,
                                     .weight = config->weight,
                                     .namespace_name = config->context.namespace_name,
                                     .settle_ms = config->settle_ms,
                                     .max_targets = config->max_targets,
                                     .on_event = ten_agent_on_event,
                                     .userdata = agent};
    ten_member_extras extras = {.beliefs = &agent->shared->beliefs,
                                .on_target = ten_agent_on_target,
                                .userdata = agent,
                                .measures = &agent->measures,
                                .on_checkpoint = ten_agent_on_checkpoint,
                                .on_store_clock = config->cron ? ten_agent_on_store_clock : NULL,
                                .isolation = ten_isolation_name(agent->children.isolation.form)};
    int r = ten_member_open(agent->context, &options, &extras, &agent->member);
    if (r == TENURE_OK && config->healthy) /* until the first result */
        r = tenure_member_set_weight(agent->member, 0);
    return r < 0 ? ten_fail(error, r, "%s", tenure_message(NULL)) : TENURE_OK;
}

static int open_source(struct ten_agent *agent, ten_error *error) {
    int r = ten_source_open(agent, error);
    if (r == TENURE_OK && agent->source_fd >= 0)
        r = watch(agent, agent->source_fd, &agent->source_fd, error);
    return r;
}

static void close_sinks(struct ten_agent *agent) {
    for (size_t i = 0; agent->sinks && i < agent->config->sink_count && agent->sinks[i]; i++) {
        ten_sink_event event;
        ten_sink_close(agent->sinks[i], FLUSH_MS, &event);
        ten_agent_report_sink(agent, agent->config->sinks[i], &event);
    }
}

static int open_exporter(struct ten_agent *agent, ten_error *error) {
    ten_exporter_config config = {.address = agent->config->metrics,
                                  .kind = agent->config->cron ? TEN_EXPORTS_CRON : TEN_EXPORTS_FLEET,
                                  .measures = &agent->measures,
                                  .instance = agent->instance,
                                  .namespace_name = agent->namespace_name,
                                  .store = agent->config->store,
                                  .write_jobs = ten_jobs_gauges_write,
                                  .jobs = &agent->job_gauges,
                                  .log = agent->log};
    return ten_exporter_open(&config, &agent->exporter, error);
}

static void close_agent(struct ten_agent *agent) {
    ten_exporter_close(agent->exporter);
    ten_source_close(agent);
    tenure_member_close(agent->member);
    ten_agent_take_events(agent);
    for (uint32_t i = 0; i < agent->target_room; i++) {
        if (!agent->targets[i])
            continue;
        ten_poll_withdraw(agent, agent->targets[i]);
        ten_agent_free_target(agent->targets[i]);
    }
    close_sinks(agent);
    ten_receipts_close(agent->receipts);
    ten_map_free(&agent->by_id);
    ten_timers_free(&agent->polls);
    ten_timers_free(&agent->checks);
    ten_zones_free(&agent->zones);
    ten_jobs_gauges_free(&agent->job_gauges);
    ten_free(agent->targets);
    ten_free(agent->sinks);
    ten_children_free(&agent->children);
    ten_poll_http_close(agent);
    ten_health_close(&agent->health);
    ten_close_fd(&agent->epoll_fd);
    ten_close_fd(&agent->signal_fd);
    ten_close_fd(&agent->event_fd);
    (void)tenure_close(agent->context);
    ten_log_close(agent->log, FLUSH_MS);
    pthread_mutex_destroy(&agent->event_lock);
}

static int fail_refused(const struct ten_agent *agent, ten_error *error) {
    int refused = agent->refused;
    if (refused == TENURE_E_TTL)
        return ten_fail(error, refused,
                        "the instances of this namespace use another TTL: all of a fleet use the same --ttl");
    if (refused == TENURE_E_TOO_MANY)
        return ten_fail(error, refused,
                        "there are more targets than the %u that this instance is willing to hold; raise --max-targets "
                        "(each takes about 120 bytes of memory beside its id), or spread them over several namespaces",
                        agent->config->max_targets);
    if (refused == TENURE_E_GONE || agent->refusal.message[0] == '\0')
        return ten_fail(error, refused, "this instance was declared gone");
    return ten_fail(error, refused, "%s", agent->refusal.message);
}

int ten_agent_run(const ten_agent_config *config, ten_shared *shared, ten_error *error) {
    struct ten_agent agent = {.config = config,
                              .shared = shared,
                              .epoll_fd = -1,
                              .signal_fd = -1,
                              .event_fd = -1,
                              .source_fd = -1,
                              .health = TEN_HEALTH_NONE};
    pthread_mutex_init(&agent.event_lock, NULL);
    ten_jobs_gauges_open(&agent.job_gauges, config->context.namespace_name);
    agent.last_event = &agent.first_event;
    /* Before anything else: children of the worker that is set up have no memory of most libraries. */
    int r =
        config->healthy ? ten_health_open(&agent.health, config->healthy, config->healthy_every_ms, error) : TENURE_OK;
    ten_children_open(&agent.children, shared, config->isolation, config->grace_ms, &agent.measures);
    agent.work_rules = (ten_work_rules){.grace_ms = config->grace_ms,
                                        .kill_after_ms = KILL_AFTER_MS,
                                        .kill_overdue_after_ms = KILL_AFTER_MS,
                                        .flush_ms = FLUSH_MS,
                                        .stop_when_uncertain = config->stop_when_uncertain,
                                        .has_result = true};
    ten_tree_adopt();
    if (r == TENURE_OK)
        r = open_loop(&agent, error);
    if (r == TENURE_OK && config->healthy)
        r = watch(&agent, agent.health.fd, &agent.health, error);
    if (r == TENURE_OK)
        r = open_sinks(&agent, error);
    if (r == TENURE_OK)
        r = open_context(&agent, error);
    if (r == TENURE_OK)
        r = open_source(&agent, error);
    if (r == TENURE_OK && config->metrics)
        r = open_exporter(&agent, error);
    if (r == TENURE_OK)
        r = open_member(&agent, error);
    if (r == TENURE_OK) {
        ten_agent_loop(&agent);
        atomic_store(&shared->state->turns, 0);
        if (agent.refused)
            r = fail_refused(&agent, error);
        else if (agent.stopped)
            TEN_LOG(agent.log, TEN_LOG_INFO, "agent_stopped", TEN_NUMBER("polls", agent.poll_count));
        else
            TEN_LOG(agent.log, TEN_LOG_WARN, "agent_stopped", TEN_NUMBER("polls", agent.poll_count),
                    TEN_TEXT("error", "the store is out of reach: what was held ends by its TTL"));
    } else if (r == TENURE_E_CANCELLED) {
        r = TENURE_OK; /* before there was a store */
    }
    close_agent(&agent);
    return r;
}
