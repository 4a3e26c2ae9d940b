/*
 * The policy of `tenure agent`: a target is polled at its interval, by a command or by HTTP; the result becomes a
 * message to all sinks, and what a command says of its checkpoint is kept beside the lease. Called by run.c and by the
 * agent's loop.
 */
#include <jansson.h>
#include <string.h>

#include "agent/common/message.h"
#include "agent/runner/agent_state.h"
#include "base/alloc.h"
#include "base/random.h"
#include "runtime/member.h"

#define OWN_EVERY_MIN_MS 50u /* between polls, where the target itself says how long */

/* ---- when */

/* A target's own interval comes from those who register targets. They must not make an agent do nothing but start
 * commands: only the agent's --every can be shorter. */
static uint64_t every_ms(const struct ten_agent *agent, const struct ten_agent_target *target) {
    uint64_t least_ms = ten_min_u64(agent->config->every_ms, OWN_EVERY_MIN_MS);
    return target->spec->every_ms ? ten_max_u64(target->spec->every_ms, least_ms) : agent->config->every_ms;
}

/* Due times go on by whole intervals from the first one, so that nothing drifts; the jitter is added to each and not to
 * the sum. */
static void schedule(struct ten_agent *agent, struct ten_agent_target *target) {
    uint64_t interval_ms = every_ms(agent, target);
    uint64_t jitter_ms = interval_ms / 20 ? ten_random_u64() % (interval_ms / 20) : 0;
    ten_timers_set(&agent->starts, target->number, target->due_ms + jitter_ms);
}

static void specified(struct ten_agent *agent, struct ten_agent_target *target, const struct ten_agent_spec *before) {
    if (!before || before->every_ms == target->spec->every_ms || !target->due_ms)
        return;
    target->due_ms = ten_now_ms() + every_ms(agent, target);
    schedule(agent, target);
}

static void granted(struct ten_agent *agent, struct ten_agent_target *target) {
    target->due_ms = ten_now_ms();
    ten_timers_set(&agent->starts, target->number, target->due_ms);
}

static void due(struct ten_agent *agent, struct ten_agent_target *target, uint64_t now_ms) {
    uint64_t interval_ms = every_ms(agent, target);
    target->due_ms += interval_ms;
    if (target->due_ms <= now_ms) /* polls that were missed are not made up for */
        target->due_ms += (now_ms - target->due_ms) / interval_ms * interval_ms + interval_ms;
    bool held = ten_agent_is_held(target);
    ten_run_start(agent, target);
    if (held)
        schedule(agent, target);
    else
        target->due_ms = 0;
}

/* ---- how */

static uint64_t timeout_ms(const struct ten_agent *agent, const struct ten_agent_target *target) {
    (void)target;
    return agent->config->timeout_ms;
}

static void start_command(struct ten_agent *agent, struct ten_target_run *run, const char *command) {
    const struct ten_agent_spec *spec = run->target->spec;
    char checkpoint[TENURE_CHECKPOINT_MAX + 1];
    size_t kept = ten_member_checkpoint(agent->member, spec->id, run->work.token, checkpoint);
    const char *const variables[][2] = {{"TENURE_TARGET", spec->id},
                                        {"TENURE_URL", spec->url ? spec->url : ""},
                                        {"TENURE_SPEC", spec->spec ? spec->spec : ""},
                                        {"TENURE_CHECKPOINT", kept ? checkpoint : NULL}};
    ten_run_command_start(agent, run, command, variables, TEN_COUNT(variables));
}

static void start(struct ten_agent *agent, struct ten_target_run *run) {
    const struct ten_agent_spec *spec = run->target->spec;
    enum ten_poll_how how = agent->config->how;
    if (how == TEN_POLL_EXEC)
        start_command(agent, run, agent->config->command);
    else if (how == TEN_POLL_SPEC && spec->exec && agent->config->trust_targets)
        start_command(agent, run, spec->exec);
    else if (how == TEN_POLL_SPEC && spec->exec)
        ten_run_fail(run, "the target has a command, and targets are not trusted (--trust-targets)");
    else if (!spec->url || spec->url[0] == '\0')
        ten_run_fail(run, "the target has no url");
    else
        ten_run_http_start(agent, run, spec->url);
}

/* ---- its message */

/* Reported when it begins, and then each time their number has doubled. */
void ten_agent_count_dropped(struct ten_agent *agent, const char *sink, uint64_t count) {
    uint64_t before = agent->dropped;
    agent->dropped += count;
    ten_measure_add(&agent->runner.measures.dropped, count);
    if ((before ^ agent->dropped) > before)
        TEN_LOG(agent->runner.log, TEN_LOG_WARN, "publish_dropped", TEN_TEXT("sink", sink),
                TEN_NUMBER("count", agent->dropped));
}

static void send(struct ten_agent *agent, struct ten_target_run *run) {
    TEN_CLEANUP(ten_buf_free) ten_buf line = {0};
    ten_message message = {.namespace_name = agent->namespace_name,
                           .target = run->target->id,
                           .instance = agent->runner.instance,
                           .token = run->work.token,
                           .at_ms = run->start_wall_ms,
                           .duration_ms = run->duration_ms,
                           .error = run->error[0] ? run->error : NULL,
                           .data = ten_buf_string(&run->output),
                           .data_size = run->output.size};
    ten_message_write(&message, &line);
    bool taken = !line.failed && (run->receipt = ten_receipt_make(agent->receipts, run));
    ten_receipt_hold(run->receipt); /* until all sinks have been asked */
    for (size_t i = 0; i < agent->config->sink_count; i++)
        if (!taken ||
            !ten_sink_put(agent->sinks[i], &message, run->receipt, run->work.send_until_ms, line.data, line.size))
            ten_agent_count_dropped(agent, agent->config->sinks[i], 1);
    ten_receipt_end(run->receipt, false);
    ten_buf_free(&run->output);
}

static void report(struct ten_agent *agent, const struct ten_target_run *run) {
    struct ten_agent_target *target = run->target;
    target->failures = run->error[0] ? target->failures + 1 : 0;
    /* The first, then each time that their number has doubled: a target that is down for a day is not a line a second.
     */
    if (target->failures && (target->failures & (target->failures - 1)) == 0)
        TEN_LOG(agent->runner.log, TEN_LOG_WARN, "poll_failed", TEN_TEXT("target", target->id),
                TEN_NUMBER("token", run->work.token), TEN_TEXT("error", run->error),
                TEN_NUMBER("failures", target->failures), TEN_NUMBER("duration_ms", run->duration_ms));
}

/* ---- the checkpoint */

/* The output as JSON. Numbers that do not fit into an integer are rounded: then *ret_rounded. */
static json_t *read_output(const struct ten_target_run *run, bool *ret_rounded) {
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL;
    json_t *output = json_loadb(run->output.data, run->output.size, flags, NULL);
    *ret_rounded = !output;
    return output ? output : json_loadb(run->output.data, run->output.size, flags | JSON_DECODE_INT_AS_REAL, NULL);
}

/* What the output of a command has as `_checkpoint`: a text as it is, another value as JSON, null as "". NULL: it has
 * none, or it cannot be kept, for the reason *ret_why. The caller frees it. */
static char *checkpoint_of(const struct ten_target_run *run, const char **ret_why) {
    static const char name[] = "\"_checkpoint\"";
    *ret_why = NULL;
    if (run->error[0] || !run->output.data || !memmem(run->output.data, run->output.size, name, sizeof name - 1))
        return NULL;
    bool rounded;
    json_t *output = read_output(run, &rounded);
    const json_t *value = json_object_get(output, "_checkpoint");
    char *text = NULL;
    if (!output)
        *ret_why = "the output has a _checkpoint, but is not one JSON object with different members";
    else if (json_is_string(value) && strlen(json_string_value(value)) != json_string_length(value))
        *ret_why = "_checkpoint has a NUL character";
    else if (json_is_string(value))
        text = strdup(json_string_value(value));
    else if (json_is_null(value))
        text = strdup("");
    else if (value && rounded)
        *ret_why = "the output has a number that is too large for a _checkpoint which is not a string";
    else if (value)
        text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    json_decref(output);
    return text;
}

static void report_checkpoint(const struct ten_agent *agent, const struct ten_agent_target *target, uint64_t token,
                              const char *why) {
    TEN_LOG(agent->runner.log, TEN_LOG_WARN, "checkpoint_failed", TEN_TEXT("target", target->id),
            TEN_NUMBER("token", token), TEN_TEXT("error", why));
}

/* Under the token of the poll: if the lease is another's by now, the store refuses it. */
static void write_checkpoint(struct ten_agent *agent, const struct ten_target_run *run) {
    struct ten_agent_target *target = run->target;
    const char *why = NULL;
    char *value = run->by_command ? checkpoint_of(run, &why) : NULL; /* a web page does not write into the store */
    if (why)
        report_checkpoint(agent, target, run->work.token, why);
    if (!value)
        return;
    int r = TENURE_E_INVALID;
    if (strlen(value) > TENURE_CHECKPOINT_MAX)
        report_checkpoint(agent, target, run->work.token, "_checkpoint has more than 4096 bytes");
    else if ((r = ten_member_write_checkpoint(agent->member, target->id, run->work.token, value)) < 0)
        report_checkpoint(agent, target, run->work.token, tenure_strerror(r));
    if (r == TENURE_OK)
        target->writing = run->work.token;
    free(value); // NOLINT: of jansson and strndup
}

static void written(struct ten_agent *agent, struct ten_agent_target *target, uint64_t token, int error) {
    if (error < 0)
        report_checkpoint(agent, target, token,
                          error == TENURE_E_LOST ? "the lease was lost; nothing was written" : tenure_strerror(error));
    if (!target->waits || target->writing)
        return;
    target->waits = false;
    if (ten_agent_is_held(target) && !target->removed)
        granted(agent, target);
}

/* ---- the policy */

static void publish(struct ten_agent *agent, struct ten_target_run *run) {
    write_checkpoint(agent, run);
    send(agent, run);
    report(agent, run);
    ten_measures *measures = &agent->runner.measures;
    ten_measure_add(run->error[0] ? &measures->polls_failed : &measures->polls_ok, 1);
}

static void discard(struct ten_agent *agent, const struct ten_target_run *run, const char *why) {
    TEN_LOG(agent->runner.log, TEN_LOG_INFO, "poll_discarded", TEN_TEXT("target", run->target->id),
            TEN_NUMBER("token", run->work.token), TEN_TEXT("error", why));
}

const ten_policy ten_policy_poll = {.exports = TEN_EXPORTS_FLEET,
                                    .keeps_output = true,
                                    .specified = specified,
                                    .granted = granted,
                                    .due = due,
                                    .timeout_ms = timeout_ms,
                                    .start = start,
                                    .publish = publish,
                                    .discard = discard,
                                    .written = written};
