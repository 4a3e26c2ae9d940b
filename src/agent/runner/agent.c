/*
 * An instance of a fleet: checks its options, opens what it consists of, joins the fleet, does what is due in each turn
 * of the runner's loop (runner.h), stops when it is asked to, and closes everything. It runs in the worker process.
 */
#include "agent/runner/agent.h"

#include <signal.h>
#include <string.h>

#include "agent/runner/agent_state.h"
#include "base/alloc.h"
#include "runtime/member.h"

#define KILL_AFTER_MS    1000u /* from asking work to end to killing it, with the lease still good */
#define FLUSH_MS         2000u
#define STOP_PATIENCE_MS 5000u /* for running work, after the first signal to stop */
#define RELEASE_MS       2000u /* more, for releasing everything: a store that is away must not keep the agent */
#define HURRY_MS         300u  /* the same, after a second signal */
#define SINKS_EVERY_MS   1000u

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
    uint64_t room_ms = config->runner.context.ttl_ms - config->runner.context.margin_ms;
    if (config->runner.grace_ms < 10 || config->runner.grace_ms > room_ms / 2)
        return ten_fail(
            error, TENURE_E_TTL,
            "a grace of %llu ms cannot be safe: it is at least 10 ms, and at most half of the TTL less the margin",
            (unsigned long long)config->runner.grace_ms);
    if (config->every_ms > TENURE_TTL_MAX_MS || config->timeout_ms > TENURE_TTL_MAX_MS)
        return ten_fail(error, TENURE_E_INVALID, "an interval or a time-out is at most 366 days");
    return TENURE_OK;
}

/* ---- stopping */

static void take_signal(ten_runner *runner, const struct signalfd_siginfo *info) {
    struct ten_agent *agent = (struct ten_agent *)runner;
    if (info->ssi_signo == SIGHUP) {
        for (size_t i = 0; i < agent->config->sink_count; i++)
            ten_sink_reopen(agent->sinks[i]);
        ten_source_reread(agent->source);
        return;
    }
    bool hurries = ++agent->stop_signals > 1;
    agent->stop_ms = ten_now_ms() + (hurries ? 0 : STOP_PATIENCE_MS);
    for (uint32_t i = 0; i < agent->target_room; i++) {
        if (!agent->targets[i])
            continue;
        ten_timers_clear(&agent->starts, i);
        if (agent->policy->stops)
            agent->policy->stops(agent, agent->targets[i]);
        ten_run_flush(agent, agent->targets[i], hurries);
    }
    ten_member_begin_stop(agent->member);
}

/* Work that is still running when patience has ended is ended, with the lease still good. */
static void hurry(struct ten_agent *agent) {
    for (uint32_t i = 0; i < agent->target_room; i++)
        if (agent->targets[i] && agent->targets[i]->run)
            ten_run_end(agent, agent->targets[i]->run, "the agent is stopping");
}

/* All work has ended, but the store does not take the leases back: they end by their TTL. */
static bool gives_up(struct ten_agent *agent) {
    if (!agent->stop_ms || agent->running > 0)
        return false;
    uint64_t now_ms = ten_now_ms();
    if (!agent->leave_ms)
        agent->leave_ms = now_ms + RELEASE_MS;
    if (agent->stop_signals > 1)
        agent->leave_ms = ten_min_u64(agent->leave_ms, now_ms + HURRY_MS);
    return now_ms >= agent->leave_ms;
}

/* ---- what sinks and the source report of themselves */

static void report_sink(struct ten_agent *agent, const char *name, const ten_sink_event *event) {
    ten_log *log = agent->runner.log;
    if (event->problem.code < 0)
        TEN_LOG(log, TEN_LOG_ERROR, "sink_failed", TEN_TEXT("sink", name), TEN_TEXT("error", event->problem.message));
    if (event->works_again)
        TEN_LOG(log, TEN_LOG_INFO, "sink_ok", TEN_TEXT("sink", name));
    if (event->late > 0)
        TEN_LOG(log, TEN_LOG_WARN, "publish_late", TEN_TEXT("sink", name), TEN_NUMBER("count", event->late));
    ten_agent_count_dropped(agent, name, event->dropped);
}

static void look_at_sinks(struct ten_agent *agent) {
    uint64_t now_ms = ten_now_ms();
    if (now_ms < agent->sinks_look_ms)
        return;
    agent->sinks_look_ms = now_ms + SINKS_EVERY_MS;
    for (size_t i = 0; i < agent->config->sink_count; i++) {
        ten_sink_event event;
        ten_outbox_take_event(&agent->sinks[i]->outbox, &event);
        report_sink(agent, agent->config->sinks[i], &event);
    }
}

/* Messages have left, or were dropped. */
static void take_receipts(void *owner) {
    struct ten_agent *agent = owner;
    for (struct ten_target_run *run; (run = ten_receipts_take(agent->receipts));) {
        ten_runner_note_turn(&agent->runner);
        ten_run_look(agent, run);
    }
}

static void look_at_source(struct ten_agent *agent) {
    bool hangs = ten_source_hangs(agent->source);
    if (hangs && !agent->source_hangs)
        TEN_LOG(agent->runner.log, TEN_LOG_ERROR, "target_source_failed", TEN_TEXT("source", agent->config->targets),
                TEN_TEXT("error", "the file system does not answer; the known targets stay, and the list is taken when "
                                  "it comes. Check the mount"));
    agent->source_hangs = hangs;
}

/* ---- a turn */

static void run_due(struct ten_agent *agent) {
    uint64_t now_ms = ten_now_ms();
    uint32_t number;
    while (ten_timers_take(&agent->checks, now_ms, &number))
        if (agent->targets[number]) {
            ten_runner_note_turn(&agent->runner);
            ten_run_look_at_all(agent, agent->targets[number]);
        }
    while (ten_timers_take(&agent->starts, now_ms, &number))
        if (agent->targets[number]) {
            ten_runner_note_turn(&agent->runner);
            agent->policy->due(agent, agent->targets[number], now_ms);
        }
    if (agent->stop_ms && now_ms >= agent->stop_ms)
        hurry(agent);
}

static uint64_t next_ms(const struct ten_agent *agent) {
    uint64_t due_ms = ten_min_u64(ten_timers_next(&agent->checks), ten_timers_next(&agent->starts));
    if (!agent->stop_ms)
        return due_ms;
    uint64_t end_ms = agent->running > 0 || !agent->leave_ms ? agent->stop_ms : agent->leave_ms;
    return ten_min_u64(due_ms, ten_max_u64(end_ms, ten_now_ms() + 10));
}

static bool go_on(ten_runner *runner, uint64_t *ret_next_ms) {
    struct ten_agent *agent = (struct ten_agent *)runner;
    ten_run_http_work(agent);
    ten_agent_make_up_for_lost(agent);
    run_due(agent);
    look_at_sinks(agent);
    look_at_source(agent);
    if (agent->policy->turn)
        agent->policy->turn(agent);
    *ret_next_ms = next_ms(agent);
    return !agent->stopped && !agent->refused && !gives_up(agent);
}

static void take_events(ten_runner *runner) {
    ten_agent_take_events((struct ten_agent *)runner, false);
}

/* While it is not well it has no weight, and hands everything over. */
static void take_health(ten_runner *runner, bool well) {
    struct ten_agent *agent = (struct ten_agent *)runner;
    (void)tenure_member_set_weight(agent->member, well ? agent->config->weight : 0);
}

/* ---- start and end */

static int open_sinks(struct ten_agent *agent, ten_error *error) {
    agent->sinks = ten_calloc(agent->config->sink_count + 1, sizeof(ten_sink *));
    if (!agent->sinks)
        return ten_fail_memory(error, "the sinks");
    agent->receipts_watched = (ten_watched){.ready = take_receipts, .owner = agent};
    int r = ten_receipts_open(&agent->receipts, error);
    TEN_STEP(r, ten_runner_watch(&agent->runner, ten_receipts_fd(agent->receipts), &agent->receipts_watched, error));
    for (size_t i = 0; r == TENURE_OK && i < agent->config->sink_count; i++)
        r = ten_sink_open(agent->config->sinks[i], agent->config, &agent->sinks[i], error);
    return r;
}

/* Joins the fleet. */
static int open_member(struct ten_agent *agent, ten_error *error) {
    const ten_agent_config *config = agent->config;
    tenure_member_options options = {.size = sizeof options,
                                     .flags = agent->source ? 0 : TENURE_TARGETS_FROM_STORE,
                                     .weight = config->weight,
                                     .namespace_name = config->runner.context.namespace_name,
                                     .settle_ms = config->settle_ms,
                                     .max_targets = config->max_targets,
                                     .on_event = ten_agent_on_event,
                                     .userdata = agent};
    ten_member_extras extras = {.beliefs = &agent->runner.shared->beliefs,
                                .on_target = ten_agent_on_target,
                                .userdata = agent,
                                .measures = &agent->runner.measures,
                                .on_checkpoint = ten_agent_on_checkpoint,
                                .on_store_clock = ten_agent_on_store_clock,
                                .isolation = ten_isolation_name(agent->runner.children.isolation.form)};
    int r = ten_member_open(agent->runner.context, &options, &extras, &agent->member);
    if (r == TENURE_OK && config->runner.healthy) /* until the first result */
        r = tenure_member_set_weight(agent->member, 0);
    return r < 0 ? ten_fail(error, r, "%s", tenure_message(NULL)) : TENURE_OK;
}

static int open_exporter(struct ten_agent *agent, ten_error *error) {
    ten_exporter_config config =
        ten_runner_exports(&agent->runner, agent->config->runner.metrics, agent->policy->exports);
    config.write_jobs = ten_jobs_gauges_write;
    config.jobs = &agent->job_gauges;
    return ten_exporter_open(&config, &agent->exporter, error);
}

static int open_agent(struct ten_agent *agent, ten_shared *shared, ten_error *error) {
    const ten_agent_config *config = agent->config;
    ten_runner_config runner = {.options = &config->runner,
                                .isolation_level = TEN_LOG_INFO,
                                .take_signal = take_signal,
                                .reap = ten_run_command_reap,
                                .take_events = take_events,
                                .take_health = take_health,
                                .go_on = go_on,
                                .wait = ten_run_http_wait};
    int r = ten_runner_open(&agent->runner, &runner, shared, error);
    TEN_STEP(r, ten_run_http_open(agent, error));
    TEN_STEP(r, open_sinks(agent, error));
    TEN_STEP(r, ten_runner_open_context(&agent->runner, error));
    TEN_STEP(r, ten_source_open(config, agent->runner.log, agent, &agent->source, error));
    if (r == TENURE_OK && config->runner.metrics)
        r = open_exporter(agent, error);
    return r == TENURE_OK ? open_member(agent, error) : r;
}

static void close_agent(struct ten_agent *agent) {
    ten_exporter_close(agent->exporter);
    ten_source_close(agent->source);
    tenure_member_close(agent->member);
    ten_agent_take_events(agent, true);
    for (uint32_t i = 0; i < agent->target_room; i++) {
        if (!agent->targets[i])
            continue;
        ten_run_withdraw(agent, agent->targets[i]);
        ten_agent_free_target(agent, agent->targets[i]);
    }
    for (size_t i = 0; agent->sinks && i < agent->config->sink_count && agent->sinks[i]; i++) {
        ten_sink_event event;
        ten_sink_close(agent->sinks[i], FLUSH_MS, &event);
        report_sink(agent, agent->config->sinks[i], &event);
    }
    ten_receipts_close(agent->receipts);
    ten_map_free(&agent->by_id);
    ten_timers_free(&agent->starts);
    ten_timers_free(&agent->checks);
    ten_zones_free(&agent->zones);
    ten_jobs_gauges_free(&agent->job_gauges);
    ten_free(agent->targets);
    ten_free(agent->sinks);
    ten_run_http_close(agent);
    ten_runner_close(&agent->runner);
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
                              .policy = config->cron ? &ten_policy_cron : &ten_policy_poll,
                              .namespace_name = config->runner.context.namespace_name,
                              .work_rules = {.grace_ms = config->runner.grace_ms,
                                             .kill_after_ms = KILL_AFTER_MS,
                                             .kill_overdue_after_ms = KILL_AFTER_MS,
                                             .flush_ms = FLUSH_MS,
                                             .stop_when_uncertain = config->runner.stop_when_uncertain,
                                             .has_result = true}};
    STAILQ_INIT(&agent.left);
    ten_jobs_gauges_open(&agent.job_gauges, agent.namespace_name);
    int r = open_agent(&agent, shared, error);
    if (r == TENURE_OK) {
        ten_log *log = agent.runner.log;
        ten_runner_loop(&agent.runner);
        if (agent.refused)
            r = fail_refused(&agent, error);
        else if (agent.stopped)
            TEN_LOG(log, TEN_LOG_INFO, "agent_stopped", TEN_NUMBER("polls", agent.run_count));
        else
            TEN_LOG(
                log, TEN_LOG_WARN, "agent_stopped", TEN_NUMBER("polls", agent.run_count),
                TEN_TEXT("error", "not everything could be released in time: what is still held expires with its TTL"));
    } else if (r == TENURE_E_CANCELLED) {
        r = TENURE_OK; /* before there was a store */
    }
    close_agent(&agent);
    return r;
}
