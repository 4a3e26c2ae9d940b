/*
 * Thousands of polls whose worker is stopped: the warden ends them. The time runs from the start of the grace to the
 * last process gone, and the reference is the grace itself: what takes longer has not ended by its deadline. Each form
 * of isolation that this machine allows is measured; endings.py lets it happen.
 */
#include <string.h>

#include "ground.h"
#include "measures.h"

bool endings_measure(bench_report *report, const char *directory) {
    char command[2 * GROUND_PATH_SIZE + 64], form[32];
    double polls, grace_ms, ms, cpu_ms;
    snprintf(command, sizeof command, BENCH_PYTHON " " BENCH_DIRECTORY "/endings.py \"$TENURE\" %s", directory);
    FILE *said = popen(command, "re");
    while (said && fscanf(said, "%31s %lf %lf %lf %lf", form, &polls, &grace_ms, &ms, &cpu_ms) == 5) {
        bench_row head = {.name = bench_keep_text("endings/%s-%.0f", form, polls),
                          .against = "the grace",
                          .kind = BENCH_WAIT,
                          .goal = grace_ms};
        if (ms < 0)
            printf("%s: NOT MEASURED: this form of isolation cannot be had here\n", head.name);
        else if (bench_add_one(report, head, ms, grace_ms))
            printf("    processor time of the warden: %.0f ms\n", cpu_ms);
    }
    return (said && pclose(said) == 0) || bench_could_not("the end of the polls");
}
