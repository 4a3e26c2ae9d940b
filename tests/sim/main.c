/*
 * The simulator's command line: seeds, mutants and scenarios, shared out to child processes, reported as TAP.
 *
 *   sim [--seeds N] [--first S] [--mutant NAME] [--jobs N] [--verbose]     random runs
 *       --digests: a number for each seed, of all that the core has decided in it
 *   sim --mutants                                                          each planted bug has to be found
 *   sim --scenarios [--large]                                              what seeds are too small for
 *   sim --scale INSTANCESxTARGETS [--real N] [--first S]                   a large fleet, with faults if all are real
 *   sim --elections ...                                                    the same of elections instead of fleets
 *   sim --leases ...                                                       and of leases that programs acquire
 */
#include <inttypes.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scale.h"
#include "sim.h"

#include "lib/machine.h"

enum ten_mutant ten_mutant;

static const char *const mutant_names[] = {
#define X(name, what) #name,
    TEN_MUTANTS(X)
#undef X
};
static const char *const mutant_sentences[] = {
#define X(name, what) what,
    TEN_MUTANTS(X)
#undef X
};

#define MUTANT_SEEDS       400u
#define MUTANT_QUICK_SEEDS 40u

/* ---- what is simulated */

struct part {
    void (*run)(uint64_t seed, struct sim_stats *stats, bool verbose, const char *mutant);
    const struct sim_scenario *scenarios;
    const size_t *scenario_count;
    bool (*did_enough)(const struct sim_stats *stats);
    const char *sentence;
    bool has_mutant[TEN_MUTANT_COUNT]; /* its core goes through them */
};

/* A harness that tests nothing must not be green: so much is the least that so many seeds do. */
static bool fleets_did_enough(const struct sim_stats *stats) {
    uint64_t seeds = stats->seeds;
    return stats->faults >= seeds * 10 && stats->takeovers >= seeds * 30 && stats->checks >= seeds * 10000 &&
           stats->works >= seeds * 500 && stats->publishes >= seeds * 500 && stats->messages >= seeds * 400 &&
           stats->timeouts >= seeds * 20 && stats->late_arrivals >= seeds * 5 && stats->crashes >= seeds * 2 &&
           stats->pauses >= seeds / 2 && stats->losses >= seeds / 10 && stats->forgotten >= seeds / 20 &&
           stats->on_session >= seeds * 20 && stats->renewals >= seeds * 100 && stats->claims >= seeds;
}

static bool elections_did_enough(const struct sim_stats *stats) {
    uint64_t seeds = stats->seeds;
    return stats->faults >= seeds * 15 && stats->takeovers >= seeds * 10 && stats->checks >= seeds * 1000 &&
           stats->terms >= seeds * 15 && stats->works >= seeds * 30 && stats->timeouts >= seeds * 10 &&
           stats->late_arrivals >= seeds && stats->crashes >= seeds * 3 && stats->pauses >= seeds / 2 &&
           stats->losses >= seeds / 10 && stats->asks >= seeds * 3 && stats->keeps >= seeds &&
           stats->overtimes >= seeds / 4;
}

static bool leases_did_enough(const struct sim_stats *stats) {
    uint64_t seeds = stats->seeds;
    return stats->faults >= seeds * 10 && stats->takeovers >= seeds * 25 && stats->checks >= seeds * 10000 &&
           stats->terms >= seeds * 40 && stats->works >= seeds * 300 && stats->publishes >= seeds * 300 &&
           stats->timeouts >= seeds * 30 && stats->late_arrivals >= seeds * 5 && stats->crashes >= seeds * 3 &&
           stats->pauses >= seeds / 2 && stats->losses >= seeds / 10 && stats->overtimes >= seeds * 3 &&
           stats->forgotten >= seeds / 4;
}

static struct part fleets = {.run = sim_random_run,
                             .scenarios = sim_scenarios,
                             .scenario_count = &sim_scenario_count,
                             .did_enough = fleets_did_enough,
                             .sentence = "whole fleets keep the guarantees in every weather"};

static struct part elections = {.run = sim_election_run,
                                .scenarios = sim_election_scenarios,
                                .scenario_count = &sim_election_scenario_count,
                                .did_enough = elections_did_enough,
                                .sentence = "elections keep the guarantees in every weather",
                                .has_mutant = {[TEN_MUTANT_NONE] = true,
                                               [TEN_MUTANT_DEADLINE_FROM_RECEIPT] = true,
                                               [TEN_MUTANT_NO_MARGIN] = true,
                                               [TEN_MUTANT_LATE_ANSWER_COUNTS] = true,
                                               [TEN_MUTANT_LONGER_TTL_COUNTS] = true,
                                               [TEN_MUTANT_NO_DEADLINE] = true,
                                               [TEN_MUTANT_UNCERTAIN_WORKS] = true,
                                               [TEN_MUTANT_LOST_IGNORED] = true,
                                               [TEN_MUTANT_HELD_IS_OK] = true,
                                               [TEN_MUTANT_SPENT_BELIEVED] = true,
                                               [TEN_MUTANT_RELEASE_BEFORE_STOP] = true,
                                               [TEN_MUTANT_NO_RETRY_AT_END] = true,
                                               [TEN_MUTANT_NO_RENEWAL] = true,
                                               [TEN_MUTANT_FEED_IGNORED] = true,
                                               [TEN_MUTANT_NO_BACKOFF] = true,
                                               [TEN_MUTANT_NOT_KEPT] = true,
                                               [TEN_MUTANT_RELEASE_KEPT] = true,
                                               [TEN_MUTANT_CAMPAIGN_WHILE_WORKING] = true,
                                               [TEN_MUTANT_ASK_IGNORED] = true,
                                               [TEN_MUTANT_OWN_TTL_COUNTS] = true,
                                               [TEN_MUTANT_FORCED_BELIEVED] = true,
                                               [TEN_MUTANT_NO_TURNS] = true,
                                               [TEN_MUTANT_LONG_TURNS] = true,
                                               [TEN_MUTANT_NO_ROTATION] = true,
                                               [TEN_MUTANT_NO_FAILBACK] = true,
                                               [TEN_MUTANT_FAILBACK_AT_ONCE] = true,
                                               [TEN_MUTANT_UNFIT_LEADS] = true,
                                               [TEN_MUTANT_SLOT_FORSAKEN] = true,
                                               [TEN_MUTANT_NO_GRACE] = true,
                                               [TEN_MUTANT_KILL_TOO_LATE] = true,
                                               [TEN_MUTANT_STARTS_UNCERTAIN] = true,
                                               [TEN_MUTANT_WITHHELD_PUBLISHED] = true,
                                               [TEN_MUTANT_PUBLISH_LOST] = true,
                                               [TEN_MUTANT_PUBLISH_AFTER_RELEASE] = true,
                                               [TEN_MUTANT_LEFTOVERS_IGNORED] = true,
                                               [TEN_MUTANT_RESTART_BESIDE] = true,
                                               [TEN_MUTANT_EXIT_STATUS_DECIDES] = true,
                                               [TEN_MUTANT_HOOK_THEN_COMMAND] = true,
                                               [TEN_MUTANT_KEEP_FORGOTTEN] = true}};

static const size_t no_scenarios;

static struct part leases = {.run = sim_lease_run,
                             .scenario_count = &no_scenarios,
                             .did_enough = leases_did_enough,
                             .sentence = "leases keep the guarantees in every weather",
                             .has_mutant = {[TEN_MUTANT_NONE] = true,
                                            [TEN_MUTANT_DEADLINE_FROM_RECEIPT] = true,
                                            [TEN_MUTANT_NO_MARGIN] = true,
                                            [TEN_MUTANT_LONGER_TTL_COUNTS] = true,
                                            [TEN_MUTANT_NO_DEADLINE] = true,
                                            [TEN_MUTANT_UNCERTAIN_WORKS] = true,
                                            [TEN_MUTANT_LOST_IGNORED] = true,
                                            [TEN_MUTANT_ERROR_IS_OK] = true,
                                            [TEN_MUTANT_HELD_IS_OK] = true,
                                            [TEN_MUTANT_RELEASE_NOT_BELIEVED] = true,
                                            [TEN_MUTANT_OLD_TOKEN] = true,
                                            [TEN_MUTANT_SPENT_BELIEVED] = true,
                                            [TEN_MUTANT_NO_RETRY_AT_END] = true,
                                            [TEN_MUTANT_FEED_IGNORED] = true,
                                            [TEN_MUTANT_NO_BACKOFF] = true,
                                            [TEN_MUTANT_WAKE_UP_LOST] = true,
                                            [TEN_MUTANT_FORGOTTEN_IGNORED] = true}};

/* The fleet's are all but those that only elections or only lease books have. */
static void share_out_mutants(void) {
    for (int i = 0; i < TEN_MUTANT_COUNT; i++) {
        bool of_leases = i >= TEN_MUTANT_BOOK_NO_RENEWAL;
        fleets.has_mutant[i] =
            i != TEN_MUTANT_NOT_KEPT && i != TEN_MUTANT_RELEASE_KEPT && i != TEN_MUTANT_CAMPAIGN_WHILE_WORKING &&
            i != TEN_MUTANT_CAMPAIGN_WHILE_DRAINED && i != TEN_MUTANT_ASK_IGNORED && i != TEN_MUTANT_OWN_TTL_COUNTS &&
            i != TEN_MUTANT_FORCED_BELIEVED && i != TEN_MUTANT_NO_TURNS && i != TEN_MUTANT_LONG_TURNS &&
            i != TEN_MUTANT_NO_ROTATION && i != TEN_MUTANT_SLOT_FORSAKEN && i != TEN_MUTANT_UNFIT_LEADS &&
            i != TEN_MUTANT_NO_FAILBACK && i != TEN_MUTANT_FAILBACK_AT_ONCE && i != TEN_MUTANT_RESTART_BESIDE &&
            i != TEN_MUTANT_EXIT_STATUS_DECIDES && i != TEN_MUTANT_HOOK_THEN_COMMAND &&
            i != TEN_MUTANT_KEEP_FORGOTTEN && !of_leases;
        leases.has_mutant[i] |= of_leases;
    }
}

struct options {
    const struct part *part;
    uint64_t seeds;
    uint64_t first;
    uint64_t jobs; /* at most 16 */
    bool verbose;
    bool mutants;
    bool scenarios;
    bool cron;
    bool large; /* those scenarios too that take a minute */
    const char *scale;
    uint64_t real;
};

/* ---- child processes */

struct child {
    pid_t pid;
    int from;
};

/* Runs `work` in a child, which sends back the sum of what it did. What it prints comes out as a whole. */
static struct child begin(void (*work)(const struct options *options, uint64_t part, struct sim_stats *stats),
                          const struct options *options, uint64_t part) {
    int ends[2];
    fflush(stdout);
    if (pipe(ends) < 0)
        exit(2);
    pid_t pid = fork();
    if (pid < 0)
        exit(2);
    if (pid > 0) {
        close(ends[1]);
        return (struct child){.pid = pid, .from = ends[0]};
    }
    struct sim_stats stats = {0};
    close(ends[0]);
    work(options, part, &stats);
    fflush(stdout);
    bool sent = write(ends[1], &stats, sizeof stats) == sizeof stats;
    _exit(sent ? 0 : 2);
}

/* False: the child did not come to its end. */
static bool finish(struct child child, struct sim_stats *sum) {
    struct sim_stats stats;
    bool complete = read(child.from, &stats, sizeof stats) == sizeof stats;
    int status;
    close(child.from);
    waitpid(child.pid, &status, 0);
    uint64_t *to = (uint64_t *)sum;
    const uint64_t *from = (const uint64_t *)&stats;
    for (size_t i = 0; complete && i < sizeof *sum / sizeof *to; i++)
        to[i] += from[i];
    return complete && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* ---- random runs */

static void run_seeds(const struct options *options, uint64_t part, struct sim_stats *stats) {
    for (uint64_t i = part; i < options->seeds && stats->failures < 5; i += options->jobs)
        options->part->run(options->first + i, stats, options->verbose,
                           ten_mutant == TEN_MUTANT_NONE ? NULL : mutant_names[ten_mutant]);
}

static bool report(unsigned number, bool good, const char *sentence) {
    printf("%sok %u - %s\n", good ? "" : "not ", number, sentence);
    return good;
}

static int random_runs(const struct options *options) {
    struct child children[64];
    struct sim_stats stats = {0};
    bool complete = true;
    for (uint64_t i = 0; i < options->jobs; i++)
        children[i] = begin(run_seeds, options, i);
    for (uint64_t i = 0; i < options->jobs; i++)
        complete &= finish(children[i], &stats);
    printf("# %" PRIu64 " seeds from %" PRIu64 ": %" PRIu64 " steps, %" PRIu64 " checks, %" PRIu64 " faults, %" PRIu64
           " crashes, %" PRIu64 " pauses, %" PRIu64 " losses of data, %" PRIu64 " forgotten targets\n",
           stats.seeds, options->first, stats.steps, stats.checks, stats.faults, stats.crashes, stats.pauses,
           stats.losses, stats.forgotten);
    printf("# %" PRIu64 " requests, %" PRIu64 " timed out, %" PRIu64 " late arrivals, %" PRIu64
           " refused acquires, %" PRIu64 " takeovers, %" PRIu64 " pieces of work, %" PRIu64 " publications, %" PRIu64
           " messages that left\n",
           stats.requests, stats.timeouts, stats.late_arrivals, stats.refused, stats.takeovers, stats.works,
           stats.publishes, stats.messages);
    if (stats.on_session)
        printf("# %" PRIu64 " leases granted on sessions, %" PRIu64 " heartbeats, %" PRIu64
               " renewals of single leases, %" PRIu64 " claims\n",
               stats.on_session, stats.beats, stats.renewals, stats.claims);
    if (stats.terms)
        printf("# %" PRIu64 " terms, %" PRIu64 " requests to resign, %" PRIu64 " roles kept, %" PRIu64
               " pieces of work that ran too long\n",
               stats.terms, stats.asks, stats.keeps, stats.overtimes);
    puts("1..2");
    bool good = report(1, complete && stats.failures == 0 && stats.seeds == options->seeds, options->part->sentence);
    good &= report(2, options->seeds < 20 || options->part->did_enough(&stats),
                   "the runs exercised enough to mean something");
    return good ? 0 : 1;
}

/* ---- mutants */

/* The number of the nth mutant of this part. */
static uint64_t nth_mutant(const struct part *part, uint64_t n) {
    uint64_t number = 0;
    while (!part->has_mutant[number] || n-- > 0)
        number++;
    return number;
}

static void hunt_in_scenarios(const struct options *options, bool slow, struct sim_stats *stats) {
    const struct part *part = options->part;
    for (size_t i = 0; i < *part->scenario_count && stats->failures == 0; i++)
        if (part->scenarios[i].finds_mutants && part->scenarios[i].slow == slow)
            (void)sim_run_scenario(&part->scenarios[i], options->first, stats, false, mutant_names[ten_mutant]);
}

static void hunt_in_seeds(const struct options *options, uint64_t from, uint64_t to, struct sim_stats *stats) {
    for (uint64_t i = from; i < to && stats->failures == 0; i++)
        options->part->run(options->first + i, stats, false, mutant_names[ten_mutant]);
}

static void hunt(const struct options *options, uint64_t number, struct sim_stats *stats) {
    ten_mutant = (enum ten_mutant)nth_mutant(options->part, number);
    if (!options->verbose && !freopen("/dev/null", "w", stderr))
        return;
    if (!freopen("/dev/null", "w", stdout))
        return;
    /* What takes long comes when little else is left that could find it. */
    hunt_in_scenarios(options, false, stats);
    hunt_in_seeds(options, 0, MUTANT_QUICK_SEEDS, stats);
    hunt_in_scenarios(options, true, stats);
    hunt_in_seeds(options, MUTANT_QUICK_SEEDS, MUTANT_SEEDS, stats);
}

static int all_mutants(const struct options *options) {
    struct child children[TEN_MUTANT_COUNT + 64]; /* with up to 64 jobs */
    bool good = true;
    uint64_t count = 0;
    for (uint64_t i = 0; i < TEN_MUTANT_COUNT; i++)
        count += options->part->has_mutant[i];
    printf("1..%" PRIu64 "\n", count);
    for (uint64_t j = 0; j < options->jobs && j < count; j++)
        children[j] = begin(hunt, options, j);
    /* As many at a time as there are jobs, reported in their order. */
    for (uint64_t i = 0; i < count; i++) {
        struct sim_stats stats = {0};
        /* A broken invariant ends the child: that is finding it, too. */
        bool found = !finish(children[i], &stats) || stats.failures > 0;
        uint64_t mutant = nth_mutant(options->part, i);
        char sentence[200];
        snprintf(sentence, sizeof sentence, "%s: %s (%s, %" PRIu64 " seeds)",
                 mutant == TEN_MUTANT_NONE ? "nothing is found where there is nothing" : "found",
                 mutant_sentences[mutant], mutant_names[mutant], stats.seeds);
        good &= report((unsigned)i + 1, found == (mutant != TEN_MUTANT_NONE), sentence);
        if (i + options->jobs < count)
            children[i + options->jobs] = begin(hunt, options, i + options->jobs);
    }
    return good ? 0 : 1;
}

/* ---- scenarios */

static void run_scenario(const struct options *options, uint64_t part, struct sim_stats *stats) {
    (void)sim_run_scenario(&options->part->scenarios[part], options->first, stats, options->verbose,
                           ten_mutant == TEN_MUTANT_NONE ? NULL : mutant_names[ten_mutant]);
}

static int all_scenarios(const struct options *options) {
    bool good = true;
    unsigned ran = 0;
    for (uint64_t i = 0; i < *options->part->scenario_count; i++) {
        struct sim_stats stats = {0};
        if (options->part->scenarios[i].large && !options->large)
            continue;
        bool complete = finish(begin(run_scenario, options, i), &stats);
        good &= report(++ran, complete && stats.failures == 0, options->part->scenarios[i].name);
    }
    printf("1..%u\n", ran);
    return good ? 0 : 1;
}

/* ---- the command line */

static uint64_t number_after(char **argv, int argc, int *at) {
    char *end = NULL;
    uint64_t number = *at + 1 < argc ? strtoull(argv[*at + 1], &end, 10) : 0;
    if (!end || *end || end == argv[*at + 1]) {
        fprintf(stderr, "sim: %s needs a number\n", argv[*at]);
        exit(2);
    }
    (*at)++;
    return number;
}

static void set_mutant(const char *name) {
    for (int i = 0; i < TEN_MUTANT_COUNT; i++) {
        if (strcmp(mutant_names[i], name) == 0) {
            ten_mutant = (enum ten_mutant)i;
            return;
        }
    }
    fprintf(stderr, "sim: there is no mutant '%s'; tests/mutants/mutants.h lists them\n", name);
    exit(2);
}

/* "200x20000", with --real N */
static int run_scale(const struct options *options) {
    unsigned instances = 0, targets = 0;
    if (sscanf(options->scale, "%ux%u", &instances, &targets) != 2 || instances == 0 || targets == 0) {
        fputs("sim: --scale wants INSTANCESxTARGETS, for example 200x20000\n", stderr);
        return 2;
    }
    uint32_t real = options->real ? (uint32_t)ten_min_u64(options->real, instances) : instances;
    printf("1..1\n# %u instances, %u of them real, %u targets, seed %llu\n", instances, real, targets,
           (unsigned long long)options->first);
    bool done = sim_scale(instances, targets, real, real == instances && instances >= 4, options->first);
    printf("%s 1 - a large fleet settles, and nothing has two holders\n", done ? "ok" : "not ok");
    return !done;
}

/* ---- crontabs */

static const struct {
    enum ten_mutant mutant;
    const char *name;
    const char *sentence;
} cron_mutants[] = {{TEN_MUTANT_NONE, "NONE", "the jobs as they are"},
#define X(name, what) {TEN_MUTANT_##name, #name, what},
                    TEN_CRON_MUTANTS(X)
#undef X
};

static void run_cron(const struct options *options, uint64_t part, struct sim_stats *stats) {
    struct sim_cron_stats found = {0};
    for (uint64_t i = part; i < options->seeds; i += options->jobs) {
        stats->seeds++;
        stats->failures += !sim_cron_run(options->first + i, options->verbose, &found);
    }
    stats->works = found.starts;
    stats->crashes = found.crashes;
    stats->takeovers = found.takeovers;
    stats->keeps = found.withdrawn;
    stats->losses = found.lost;
    stats->pauses = found.clocks_set;
}

static void hunt_in_cron(const struct options *options, uint64_t part, struct sim_stats *stats) {
    struct sim_cron_stats found = {0};
    ten_mutant = cron_mutants[part].mutant;
    uint64_t most = ten_mutant == TEN_MUTANT_NONE ? 20 : 1000;
    if (!freopen("/dev/null", "w", stdout)) /* what a bug breaks is not of interest */
        return;
    for (uint64_t i = 0; i < most && stats->failures == 0; i++) {
        stats->seeds++;
        stats->failures += !sim_cron_run(options->first + i, false, &found);
    }
}

static int cron_mutant_runs(const struct options *options) {
    bool good = true;
    printf("1..%zu\n", TEN_COUNT(cron_mutants));
    fflush(stdout);
    for (uint64_t i = 0; i < TEN_COUNT(cron_mutants); i++) {
        struct sim_stats stats = {0};
        char sentence[200];
        bool found = !finish(begin(hunt_in_cron, options, i), &stats) || stats.failures > 0;
        bool none = cron_mutants[i].mutant == TEN_MUTANT_NONE;
        snprintf(sentence, sizeof sentence, "%s: %s (%s, %" PRIu64 " seeds)",
                 none ? "nothing is found where there is nothing" : "found", cron_mutants[i].sentence,
                 cron_mutants[i].name, stats.seeds);
        good &= report((unsigned)i + 1, found != none, sentence);
        fflush(stdout);
    }
    return good ? 0 : 1;
}

static int cron_runs(const struct options *options) {
    struct child children[16];
    struct sim_stats sum = {0};
    bool complete = true;
    if (options->mutants)
        return cron_mutant_runs(options);
    fflush(stdout);
    for (uint64_t j = 0; j < options->jobs; j++)
        children[j] = begin(run_cron, options, j);
    for (uint64_t j = 0; j < options->jobs; j++) {
        struct sim_stats stats = {0};
        complete &= finish(children[j], &stats);
        sum.failures += stats.failures;
        sum.works += stats.works;
        sum.crashes += stats.crashes;
        sum.takeovers += stats.takeovers;
        sum.keeps += stats.keeps;
        sum.losses += stats.losses;
        sum.pauses += stats.pauses;
    }
    printf("# %" PRIu64 " runs, %" PRIu64 " crashes, %" PRIu64 " takeovers, %" PRIu64 " clocks set, %" PRIu64
           " claims taken back, %" PRIu64 " lost with their host or lease\n1..2\n",
           sum.works, sum.crashes, sum.takeovers, sum.pauses, sum.keeps, sum.losses);
    bool good = report(1, complete && sum.failures == 0, "no instant of a job runs twice, and none is missing");
    bool enough = sum.works > 100 * options->seeds && sum.crashes > options->seeds && sum.takeovers > options->seeds &&
                  (options->seeds < 20 || (sum.keeps > 0 && sum.losses > 0 && sum.pauses > 0));
    return report(2, enough, "the runs exercised enough to mean something") && good ? 0 : 1;
}

int main(int argc, char **argv) {
    struct options options = {.part = &fleets, .seeds = 100, .first = 1, .jobs = 2};
    share_out_mutants();
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--seeds") == 0)
            options.seeds = number_after(argv, argc, &i);
        else if (strcmp(argv[i], "--first") == 0)
            options.first = number_after(argv, argc, &i);
        else if (strcmp(argv[i], "--jobs") == 0)
            options.jobs = ten_max_u64(1, ten_min_u64(number_after(argv, argc, &i), 16));
        else if (strcmp(argv[i], "--mutant") == 0 && i + 1 < argc)
            set_mutant(argv[++i]);
        else if (strcmp(argv[i], "--verbose") == 0)
            options.verbose = true;
        else if (strcmp(argv[i], "--digests") == 0)
            sim_prints_digests = true;
        else if (strcmp(argv[i], "--mutants") == 0)
            options.mutants = true;
        else if (strcmp(argv[i], "--scenarios") == 0)
            options.scenarios = true;
        else if (strcmp(argv[i], "--large") == 0)
            options.large = true;
        else if (strcmp(argv[i], "--scale") == 0 && i + 1 < argc)
            options.scale = argv[++i];
        else if (strcmp(argv[i], "--real") == 0)
            options.real = number_after(argv, argc, &i);
        else if (strcmp(argv[i], "--elections") == 0)
            options.part = &elections;
        else if (strcmp(argv[i], "--leases") == 0)
            options.part = &leases;
        else if (strcmp(argv[i], "--cron") == 0)
            options.cron = true;
        else {
            fputs("usage: sim [--elections | --leases | --cron] [--seeds N] [--first S] [--jobs N] [--mutant NAME] "
                  "[--verbose] [--digests] | "
                  "--mutants | --scenarios [--large] | --scale INSTANCESxTARGETS [--real N] [--first S]\n",
                  stderr);
            return 2;
        }
    }
    if (options.verbose)
        setvbuf(stdout, NULL, _IOLBF, 0); /* so that nothing is missing should an invariant break */
    if (options.cron)
        return cron_runs(&options);
    if (options.scale)
        return run_scale(&options);
    if (options.mutants)
        return all_mutants(&options);
    return options.scenarios ? all_scenarios(&options) : random_runs(&options);
}
