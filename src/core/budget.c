/*
 * See budget.h. Called by src/server.
 */
#include "core/budget.h"

#include "base/util.h"

#define STEP_MS     50u     /* time leaks in steps of this length, an eighth of it in each */
#define LEAK_PART   8u      /* so the level of a thread that does nothing else is STEP_MS * LEAK_PART */
#define FULL_US     400000u /* that level */
#define SHARED_US   (FULL_US / 10 * 9)
#define TIME_FACTOR 4u
#define NOBODY_US   64u            /* what rounding may leave of an account that is not there */
#define LITTLE_US   (FULL_US / 32) /* who uses no more is never refused */
#define URGENT_US   (FULL_US / 8)  /* the same for renewals, heartbeats and releases */

const char *ten_resource_name(enum ten_resource resource) {
    static const char *const names[] = {
#define X(name, word) word,
        TEN_RESOURCES(X)
#undef X
    };
    return names[resource];
}

void ten_budget_init(ten_budget *budget, const ten_budget_rule rules[TEN_RESOURCE_COUNT]) {
    *budget = (ten_budget){0};
    for (size_t i = 0; i < TEN_RESOURCE_COUNT; i++)
        budget->rules[i] = rules[i];
}

/* ---- amounts */

/* Whether an account may have `own` of a pot that has `total`, when all together would have `used`. */
static bool is_within(uint64_t total, uint64_t used, uint64_t own, unsigned factor) {
    return used <= total && own <= factor * (total - used);
}

static uint64_t pot_of(const ten_budget *budget, const ten_account *account, enum ten_resource resource) {
    uint64_t strangers = budget->rules[resource].total / TEN_STRANGERS_PART;
    return account->stranger ? strangers : budget->rules[resource].total;
}

static bool fits(const ten_budget *budget, const ten_account *account, enum ten_resource resource, uint64_t more) {
    uint64_t used = account->stranger ? budget->strangers[resource] : budget->used[resource];
    uint64_t total = pot_of(budget, account, resource);
    return is_within(total, used + more, account->used[resource] + more, budget->rules[resource].factor);
}

static bool fits_reserve(const ten_budget *budget, const ten_account *account, enum ten_resource resource,
                         uint64_t more) {
    const ten_budget_rule *rule = &budget->rules[resource];
    return !account->stranger && is_within(rule->reserve, budget->reserved[resource] + more,
                                           account->reserved[resource] + more, rule->factor);
}

static void add(ten_budget *budget, ten_grant *grant, enum ten_resource resource, uint64_t more) {
    ten_account *account = grant->account;
    uint64_t *used = account->stranger ? budget->strangers : budget->used;
    used[resource] += more;
    account->used[resource] += more;
    grant->amount += more;
}

static void add_reserved(ten_budget *budget, ten_grant *grant, enum ten_resource resource, uint64_t more) {
    budget->reserved[resource] += more;
    grant->account->reserved[resource] += more;
    grant->reserved += more;
    grant->amount += more;
}

/* What came from the reserve goes back first: others may need it. */
static void take_back(ten_budget *budget, ten_grant *grant, enum ten_resource resource, uint64_t less) {
    ten_account *account = grant->account;
    uint64_t reserved = ten_min_u64(less, grant->reserved);
    uint64_t usual = less - reserved;
    uint64_t *used = account->stranger ? &budget->strangers[resource] : &budget->used[resource];
    TEN_INVARIANT(*used >= usual && account->used[resource] >= usual);
    TEN_INVARIANT(budget->reserved[resource] >= reserved && account->reserved[resource] >= reserved);
    budget->reserved[resource] -= reserved;
    account->reserved[resource] -= reserved;
    *used -= usual;
    account->used[resource] -= usual;
    grant->reserved -= reserved;
    grant->amount -= less;
    if (grant->amount == 0)
        grant->account = NULL;
}

bool ten_budget_resize(ten_budget *budget, ten_grant *grant, ten_account *account, enum ten_resource resource,
                       uint64_t amount, enum ten_urgency urgency) {
    TEN_INVARIANT(grant->amount == 0 || grant->account == account);
    if (amount <= grant->amount) {
        if (amount < grant->amount)
            take_back(budget, grant, resource, grant->amount - amount);
        return true;
    }
    uint64_t more = amount - grant->amount;
    if (fits(budget, account, resource, more)) {
        grant->account = account;
        add(budget, grant, resource, more);
    } else if (urgency == TEN_URGENT && fits_reserve(budget, account, resource, more)) {
        grant->account = account;
        add_reserved(budget, grant, resource, more);
    } else {
        account->refused[resource]++;
        return false;
    }
    return true;
}

void ten_budget_note(ten_budget *budget, ten_grant *grant, ten_account *account, enum ten_resource resource,
                     uint64_t amount) {
    TEN_INVARIANT(grant->amount == 0 || grant->account == account);
    if (amount < grant->amount) {
        take_back(budget, grant, resource, grant->amount - amount);
    } else if (amount > grant->amount) {
        grant->account = account;
        add(budget, grant, resource, amount - grant->amount);
    }
}

void ten_budget_return(ten_budget *budget, ten_grant *grant, enum ten_resource resource) {
    if (grant->amount > 0)
        take_back(budget, grant, resource, grant->amount);
}

bool ten_budget_has_room(const ten_budget *budget, const ten_account *account, enum ten_resource resource,
                         uint64_t amount, enum ten_urgency urgency) {
    return fits(budget, account, resource, amount) ||
           (urgency == TEN_URGENT && fits_reserve(budget, account, resource, amount));
}

/* ---- time */

static void leak(uint64_t *level_us, uint64_t steps) {
    for (; steps > 0 && *level_us > 0; steps--)
        *level_us -= (*level_us + LEAK_PART - 1) / LEAK_PART;
}

static uint64_t take_steps(uint64_t *at_ms, uint64_t now_ms) {
    uint64_t steps = ten_sub_saturating(now_ms, *at_ms) / STEP_MS;
    *at_ms += steps * STEP_MS;
    return steps;
}

static void let_leak(ten_budget *budget, ten_account *account, uint64_t now_ms) {
    uint64_t steps = take_steps(&budget->level_ms, now_ms);
    leak(&budget->level_us, steps);
    leak(&budget->strangers_us, steps);
    uint64_t own_steps = take_steps(&account->level_ms, now_ms);
    leak(&account->level_us, own_steps);
    leak(&account->urgent_us, own_steps);
}

void ten_budget_spend(ten_budget *budget, ten_account *account, enum ten_urgency urgency, uint64_t spent_us,
                      uint64_t now_ms) {
    let_leak(budget, account, now_ms);
    budget->level_us += spent_us;
    budget->strangers_us += account->stranger ? spent_us : 0;
    account->level_us += spent_us;
    account->urgent_us += urgency == TEN_URGENT ? spent_us : 0;
}

bool ten_budget_may_spend(ten_budget *budget, ten_account *account, enum ten_urgency urgency, uint64_t now_ms) {
    let_leak(budget, account, now_ms);
    uint64_t little_us = urgency == TEN_URGENT ? URGENT_US : LITTLE_US;
    uint64_t used_us = urgency == TEN_URGENT ? account->urgent_us : account->level_us;
    uint64_t free_us = ten_sub_saturating(SHARED_US, budget->level_us);
    uint64_t others_us = ten_sub_saturating(budget->level_us, budget->strangers_us + account->level_us);
    bool may = account->stranger ? budget->strangers_us <= FULL_US / TEN_STRANGERS_PART
                                 : others_us <= NOBODY_US || used_us <= ten_max_u64(little_us, TIME_FACTOR * free_us);
    account->refused[TEN_RESOURCE_TIME] += !may;
    return may;
}

#define REFUSAL_EVERY_MS 100u
#define REFUSAL_BURST_MS 1000u /* refusals worth that much time are sent without a delay */
#define REFUSAL_MAX_MS   5000u /* clients wait no longer, and come again on another connection */

uint64_t ten_account_refusal_ms(ten_account *account, uint64_t now_ms) {
    uint64_t last_ms = ten_max_u64(account->refusal_sent_ms, ten_sub_saturating(now_ms, REFUSAL_BURST_MS));
    account->refusal_sent_ms = ten_min_u64(last_ms + REFUSAL_EVERY_MS, now_ms + REFUSAL_MAX_MS);
    return ten_sub_saturating(account->refusal_sent_ms, now_ms);
}

/* ---- order */

uint64_t ten_account_turn(ten_account *account, unsigned queue, uint64_t queue_now, uint64_t weight) {
    TEN_INVARIANT(queue < TEN_ACCOUNT_QUEUES);
    uint64_t turn = ten_max_u64(account->turns[queue], queue_now);
    account->turns[queue] = turn + weight;
    return turn;
}

void ten_account_join(ten_account *account, unsigned queue, uint64_t queue_now) {
    TEN_INVARIANT(queue < TEN_ACCOUNT_QUEUES);
    account->turns[queue] = ten_max_u64(account->turns[queue], queue_now);
}

uint64_t ten_account_place(const ten_account *account, unsigned queue) {
    TEN_INVARIANT(queue < TEN_ACCOUNT_QUEUES);
    return account->turns[queue];
}

void ten_account_charge(ten_account *account, unsigned queue, uint64_t weight) {
    TEN_INVARIANT(queue < TEN_ACCOUNT_QUEUES);
    account->turns[queue] += weight;
}

bool ten_stranger_goes_first(const ten_stranger *one, const ten_stranger *other) {
    if (one->of_address != other->of_address)
        return one->of_address > other->of_address;
    return one->since_ms < other->since_ms;
}

bool ten_line_gate_pass(ten_line_gate *gate, uint64_t every_ms, uint64_t now_ms, uint64_t *ret_missed) {
    if (gate->opened && now_ms < gate->opened_ms + every_ms) {
        gate->missed++;
        return false;
    }
    *ret_missed = gate->missed;
    *gate = (ten_line_gate){.opened = true, .opened_ms = now_ms};
    return true;
}
