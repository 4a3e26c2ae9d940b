/*
 * What the context's thread leaves for the loop of elect, once and lock: it logs each event of the election and notes
 * what core/term.h has to know. It decides nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/runner/leader_state.h"
#include "base/io.h"
#include "base/thread.h"

static bool is_worth_saying(struct ten_leader *leader, const tenure_event *event) {
    if (event->kind == TENURE_EVENT_RENEWED)
        return ten_renewals_is_first(&leader->renewed, event->token);
    if (event->kind != TENURE_EVENT_ACQUIRE_FAILED || event->error != TENURE_E_HELD)
        return true;
    /* Another leader is logged when it has changed. For `once` it is usual to lose. */
    bool known = strcmp(leader->other, event->instance) == 0;
    snprintf(leader->other, sizeof leader->other, "%s", event->instance);
    return !known && !leader->config->once;
}

/* The slots of a role are targets: ROLE/0, ROLE/1... People know the role and the number. */
static bool find_slot(const ten_leader_config *config, const char *target, uint32_t *ret_slot) {
    size_t size = strlen(config->role);
    if (config->count == 0 || strncmp(target, config->role, size) != 0 || target[size] != '/')
        return false;
    *ret_slot = (uint32_t)strtoul(target + size + 1, NULL, 10);
    return true;
}

static void log_event(struct ten_leader *leader, const tenure_event *event) {
    bool bad = (event->error < 0 && event->error != TENURE_E_HELD) || event->kind == TENURE_EVENT_LOST ||
               event->kind == TENURE_EVENT_RECOVERING;
    enum ten_log_level level = bad ? TEN_LOG_WARN : TEN_LOG_INFO;
    ten_renewals *renewals = &leader->runner.renewals;
    bool known = ten_recovery_is_known(&renewals->recovering_ms, event);
    if (known || event->kind == TENURE_EVENT_STOP || !is_worth_saying(leader, event))
        level = TEN_LOG_DEBUG;
    /* A standby waits; it has not failed. */
    bool waits = event->kind == TENURE_EVENT_ACQUIRE_FAILED && event->error == TENURE_E_HELD;
    uint32_t slot;
    bool has_slot = find_slot(leader->config, event->target, &slot);
    ten_lease_words words = {.target = has_slot ? leader->config->role : event->target,
                             .slot = has_slot ? &slot : NULL,
                             .other = "holder",
                             .problem = event->error < 0 && !waits ? ten_event_problem(event) : NULL};
    ten_renewals_log(renewals, leader->runner.log, level, event, &words);
}

/* It campaigns, and can lead, so that nothing fails: but what its options and the operator count on has no effect. */
static void warn_of_ttl(const struct ten_leader *leader, uint64_t others_ms) {
    const ten_leader_config *config = leader->config;
    unsigned long long ttl_ms = others_ms;
    char text[512];
    snprintf(text, sizeof text,
             "the others in namespace %s use a TTL of %llu ms: this instance has no turn%s, and nodes and drain do not "
             "find it; use --ttl %llums or another --namespace",
             config->runner.context.namespace_name, ttl_ms, config->is_lock ? "" : " and no priority", ttl_ms);
    TEN_LOG(leader->runner.log, TEN_LOG_WARN, tenure_event_name(TENURE_EVENT_UNANNOUNCED),
            TEN_TEXT("target", config->role), TEN_NUMBER("ttl_ms", config->runner.context.ttl_ms),
            TEN_NUMBER("others_ttl_ms", others_ms), TEN_TEXT("error", text));
}

static void note(const ten_leader_config *config, struct ten_leader_facts *facts, const tenure_event *event) {
    uint32_t slot = 0;
    if (event->error < 0 && event->message && !facts->term.refused)
        snprintf(facts->problem, sizeof facts->problem, "%s", event->message);
    switch (event->kind) {
    case TENURE_EVENT_ACQUIRED:
        (void)find_slot(config, event->target, &slot);
        *facts = (struct ten_leader_facts){.term.lease = {.token = TEN_TERM_ID(event->token, slot), .confirmed = true}};
        break;
    case TENURE_EVENT_STOP:
    case TENURE_EVENT_LOST:
        facts->term.over = true;
        facts->lost |= event->kind == TENURE_EVENT_LOST;
        facts->term.forced |= ten_reason_parse(event->reason) == TEN_REASON_FORCED;
        facts->reason = event->reason;
        break;
    case TENURE_EVENT_RENEW_FAILED:
    case TENURE_EVENT_RENEWED:
        facts->term.lease.confirmed = event->kind == TENURE_EVENT_RENEWED;
        break;
    case TENURE_EVENT_RECOVERING:
        facts->term.recovering_until_ms = ten_now_ms() + event->remaining_ms;
        break;
    case TENURE_EVENT_ACQUIRE_FAILED:
        facts->term.held = event->error == TENURE_E_HELD;
        facts->term.recovering_until_ms = 0;
        facts->term.error = facts->term.held ? 0 : event->error;
        break;
    case TENURE_EVENT_STORE_DOWN:
    case TENURE_EVENT_STORE_UP:
        if (!facts->term.refused) /* that is final, and says why */
            facts->term.error = event->error;
        break;
    case TENURE_EVENT_REFUSED:
        facts->term.error = event->error;
        facts->term.refused = true;
        break;
    default:
        break;
    }
}

void ten_leader_on_event(const tenure_event *event, void *userdata) {
    struct ten_leader *leader = userdata;
    if (event->kind == TENURE_EVENT_UNANNOUNCED) {
        warn_of_ttl(leader, event->remaining_ms);
        return;
    }
    log_event(leader, event);
    TEN_LOCKED(&leader->runner.lock);
    note(leader->config, &leader->facts, event);
    ten_eventfd_poke(leader->runner.event_fd);
}

/* With what may be believed of the lease at this moment. */
struct ten_leader_facts ten_leader_look_at_facts(struct ten_leader *leader) {
    const ten_belief *belief = ten_beliefs_at(&leader->runner.shared->beliefs, 0);
    pthread_mutex_lock(&leader->runner.lock);
    struct ten_leader_facts facts = leader->facts;
    pthread_mutex_unlock(&leader->runner.lock);
    ten_work_lease *lease = &facts.term.lease;
    lease->ends_ms = facts.lost ? 0 : ten_belief_ends_ms(belief);
    lease->closing = ten_belief_work_until_ms(belief) == 0 || atomic_load(&belief->token) != lease->token;
    return facts;
}
