/*
 * Renewals as a fleet member does them, all leases of an instance in one request: the job `many` of
 * elections_pair.h, for peers_rates.c. Arguments: URL.
 */
#include <stdio.h>

#include "base/clock.h"
#include "ground.h"
#include "peers/jobs.h"

#define LEASES 1000u

struct batch {
    ten_store *store;
    ground_leases leases;
};

static unsigned renew_all(void *arg) {
    struct batch *batch = arg;
    return ground_apply(batch->store, batch->leases.ops, batch->leases.results, batch->leases.count) ? LEASES : 0;
}

int main(int argc, char **argv) {
    char line[64];
    struct batch batch = {0};
    ten_error error = {0};
    if (argc != 2)
        return 2;
    if (ten_store_open(argv[1], &(ten_store_config){.clock = &ten_system_clock}, &batch.store, &error) < 0) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    if (!ground_acquire(batch.store, 1, LEASES, &batch.leases))
        return 1;
    while (fgets(line, sizeof line, stdin))
        jobs_run(renew_all, &batch, jobs_is(line, "many"));
    ground_free(&batch.leases);
    ten_store_close(batch.store);
    return 0;
}
