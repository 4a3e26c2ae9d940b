/*
 * The policy of elect, once and lock: it passes the events of the election and of the processes to core/term.h, and
 * carries out what that decides, in the runner's loop (runner.h). Called by cli/role_work.c, in the worker.
 */
#include "agent/runner/leader.h"

#include <signal.h>

#include "agent/runner/leader_state.h"
#include "runtime/candidate.h"

#define BACKOFF_MIN_MS 200u
#define BACKOFF_MAX_MS 10000u
#define STEADY_MS      10000u

/* ---- what the term wants */

/* The worker is about to signal the command, unless that has exited and only left something. */
static void note_ending(struct ten_leader *leader, const struct ten_leader_facts *facts) {
    enum ten_work_why why = leader->term.work.why;
    if (leader->term.state != TEN_TERM_COMMAND || leader->child.exited)
        return;
    const char *reason = why == TEN_WORK_LATE        ? "expiring"
                         : why == TEN_WORK_UNCERTAIN ? "uncertain"
                                                     : ten_leader_why_stopped(leader, facts);
    ten_leader_report_ending(leader, facts, reason, why >= TEN_WORK_UNCERTAIN || leader->term.lost);
}

static void carry_out(struct ten_leader *leader, enum ten_term_step step, const struct ten_leader_facts *facts) {
    const ten_term *term = &leader->term;
    const char *reason = term->done ? "done" : leader->ending ? leader->ending : ten_leader_why_stopped(leader, facts);
    switch (step) {
    case TEN_TERM_START_BEGIN_HOOK:
        ten_leader_start_hook(leader, leader->config->on_elected, 0, "");
        break;
    case TEN_TERM_START_COMMAND:
        ten_leader_start_command(leader, &facts->term);
        break;
    case TEN_TERM_START_END_HOOK:
        ten_leader_start_hook(leader, leader->config->on_demoted, TEN_CHILD_UNBOUND, reason);
        break;
    case TEN_TERM_PASS_STOP:
        note_ending(leader, facts);
        if (!leader->stop_from_terminal)
            ten_child_signal(&leader->runner.children, &leader->child, leader->stop_signal);
        break;
    case TEN_TERM_ASK:
    case TEN_TERM_KILL:
        note_ending(leader, facts);
        ten_child_signal(&leader->runner.children, &leader->child, step == TEN_TERM_KILL ? SIGKILL : SIGTERM);
        break;
    case TEN_TERM_RESIGN:
        if (term->unstarted)
            ten_candidate_keep_nothing(leader->election);
        ten_candidate_end_term(leader->election, term->resign_reason, term->resign_pause_ms);
        break;
    case TEN_TERM_WORK_OVER:
        ten_candidate_work_over(leader->election);
        break;
    case TEN_TERM_NOTHING:
        break;
    }
}

static bool go_on(ten_runner *runner, uint64_t *ret_next_ms) {
    struct ten_leader *leader = (struct ten_leader *)runner;
    for (;;) {
        /* In this order: that something is gone can take long to see, and then the lease is looked at again. */
        enum ten_work_left left = ten_leader_left_of_child(leader);
        struct ten_leader_facts facts = ten_leader_look_at_facts(leader);
        uint64_t now_ms = ten_now_ms();
        enum ten_term_step step = ten_term_next(&leader->term, &facts.term, left, now_ms);
        atomic_store(&runner->shared->state->keep_until_ms, leader->term.keep_until_ms);
        carry_out(leader, step, &facts);
        if (step == TEN_TERM_NOTHING && ten_term_wants_ready(&leader->term, &facts.term))
            ten_leader_make_ready(leader);
        if (step == TEN_TERM_NOTHING || step == TEN_TERM_KILL) { /* which is repeated, but not at once */
            *ret_next_ms = ten_term_next_ms(&leader->term, &facts.term, now_ms);
            return leader->term.state != TEN_TERM_OVER;
        }
    }
}

/* ---- what the loop hands over */

static void stop(struct ten_leader *leader, int number, bool from_terminal) {
    if (leader->term.stops == 0) {
        leader->stop_signal = number;
        leader->stop_from_terminal = from_terminal;
    }
    ten_term_stop(&leader->term);
}

static void take_signal(ten_runner *runner, const struct signalfd_siginfo *info) {
    struct ten_leader *leader = (struct ten_leader *)runner;
    int number = (int)info->ssi_signo;
    bool from_terminal = info->ssi_code == SI_KERNEL;
    if (number == SIGTERM || number == SIGINT || number == SIGQUIT || (number == SIGHUP && from_terminal))
        stop(leader, number, from_terminal);
    else if (leader->child.pid && !from_terminal)
        ten_child_pass(&leader->child, number);
}

static void take_health(ten_runner *runner, bool well) {
    ten_candidate_set_fit(((struct ten_leader *)runner)->election, well);
}

/* ---- start and end */

static bool leads(const void *userdata) {
    return tenure_election_leads(userdata);
}

static int open_exporter(struct ten_leader *leader, const char *address, enum ten_exports kind,
                         ten_exporter **ret_exporter, ten_error *error) {
    const ten_leader_config *config = leader->config;
    ten_exporter_config exporter = ten_runner_exports(&leader->runner, address, kind);
    exporter.role = config->role;
    exporter.role_kind = config->is_lock ? "lock" : config->once ? "once" : "elect";
    exporter.slots = config->count ? config->count : 1;
    exporter.leads = leads;
    exporter.userdata = leader->election;
    return ten_exporter_open(&exporter, ret_exporter, error);
}

static int open_election(struct ten_leader *leader, ten_error *error) {
    const ten_leader_config *config = leader->config;
    tenure_election_options options = {.size = sizeof options,
                                       .namespace_name = config->runner.context.namespace_name,
                                       .at_least_ms = config->at_least_ms,
                                       .count = config->count,
                                       .on_event = ten_leader_on_event,
                                       .userdata = leader};
    ten_election_extras extras = {.beliefs = &leader->runner.shared->beliefs,
                                  .works_elsewhere = true,
                                  .measures = &leader->runner.measures,
                                  .all = config->all,
                                  .all_count = config->all_count,
                                  .announces = config->announces,
                                  .is_lock = config->is_lock,
                                  .priority = config->priority,
                                  .failback_ms = config->failback_ms};
    const char *role = config->all_count ? config->all[0] : config->role;
    int r = ten_candidate_open(leader->runner.context, role, &options, &extras, &leader->election);
    if (r < 0)
        return ten_fail(error, r, "%s", tenure_message(NULL));
    if (config->runner.metrics)
        r = open_exporter(leader, config->runner.metrics, TEN_EXPORTS_ROLE, &leader->exporter, error);
    if (r == TENURE_OK && config->leader_http)
        r = open_exporter(leader, config->leader_http, TEN_EXPORTS_LEADER, &leader->leader_http, error);
    if (r < 0)
        return r;
    if (config->runner.healthy) /* until the first result */
        ten_candidate_set_fit(leader->election, false);
    r = ten_candidate_begin(leader->election);
    return r < 0 ? ten_fail(error, r, "%s", tenure_message(NULL)) : TENURE_OK;
}

static const char *problem_of(const struct ten_leader *leader) {
    const struct ten_leader_facts *facts = &leader->facts;
    return facts->problem[0] ? facts->problem : tenure_strerror(facts->term.error);
}

/* What came of it, after the loop. */
static int conclude(const struct ten_leader *leader, int *ret_exit, ten_error *error) {
    const ten_leader_config *config = leader->config;
    const ten_term_facts *facts = &leader->facts.term;
    *ret_exit = 0;
    switch (ten_term_outcome(&leader->term, facts)) {
    case TEN_TERM_REFUSED:
        return ten_fail(error, facts->error, "this instance cannot %s %s: %s", config->once ? "get" : "lead",
                        config->role, problem_of(leader));
    case TEN_TERM_COMMAND_END:
        *ret_exit = ten_leader_exit_of(leader->status);
        break;
    case TEN_TERM_LOST:
        return ten_fail(error, TENURE_E_LOST, "the lease on %s was lost while the command ran; it was ended",
                        config->role);
    case TEN_TERM_STOPPED:
        *ret_exit = 128 + leader->stop_signal;
        break;
    case TEN_TERM_UNKNOWN:
        return ten_fail(error, facts->error, "cannot tell who holds %s: %s", config->role, problem_of(leader));
    case TEN_TERM_NOT_ELECTED:
        *ret_exit = config->not_elected_exit;
        break;
    case TEN_TERM_ENDED:
        break;
    }
    return TENURE_OK;
}

static void open_term(struct ten_leader *leader) {
    const ten_leader_config *config = leader->config;
    ten_term_rules rules = {.work = {.grace_ms = config->runner.grace_ms,
                                     .kill_after_ms = config->kill_after_ms,
                                     .kill_overdue_after_ms = TEN_WORK_KILL_LOST_AFTER_MS,
                                     .stop_when_uncertain = config->runner.stop_when_uncertain},
                            .restart = config->restart,
                            .once = config->once,
                            .has_begin_hook = config->on_elected != NULL,
                            .has_end_hook = config->on_demoted != NULL,
                            .at_least_ms = config->at_least_ms,
                            .wait_until_ms = ten_add_saturating(ten_now_ms(), config->wait_ms)};
    ten_backoff backoff = {.min_ms = BACKOFF_MIN_MS, .max_ms = BACKOFF_MAX_MS, .steady_ms = STEADY_MS};
    ten_term_init(&leader->term, &rules, &backoff);
}

static int open_leader(struct ten_leader *leader, ten_shared *shared, ten_error *error) {
    const ten_leader_config *config = leader->config;
    ten_runner_config runner = {.options = &config->runner,
                                .isolation_level = TEN_LOG_DEBUG,
                                .role = config->role,
                                .all_signals = true,
                                .take_signal = take_signal,
                                .reap = ten_leader_reap,
                                .take_health = take_health,
                                .go_on = go_on};
    int r = ten_runner_open(&leader->runner, &runner, shared, error);
    TEN_STEP(r, ten_runner_open_context(&leader->runner, error));
    return r == TENURE_OK ? open_election(leader, error) : r;
}

int ten_leader_run(const ten_leader_config *config, ten_shared *shared, int *ret_exit, ten_error *error) {
    struct ten_leader leader = {.config = config, .child = TEN_CHILD_NONE, .ready = TEN_CHILD_NONE};
    open_term(&leader);
    int r = open_leader(&leader, shared, error);
    if (r == TENURE_OK)
        ten_runner_loop(&leader.runner);
    ten_child_cancel(&leader.runner.children, &leader.ready);
    if (r == TENURE_OK)
        ten_candidate_work_over(leader.election);
    ten_exporter_close(leader.exporter);
    ten_exporter_close(leader.leader_http);
    tenure_election_close(leader.election);
    TEN_STEP(r, conclude(&leader, ret_exit, error));
    if (r == TENURE_E_CANCELLED) { /* before there was a store */
        *ret_exit = config->once ? 128 + leader.runner.stop_signal : 0;
        r = TENURE_OK;
    }
    ten_runner_close(&leader.runner);
    return r;
}
