/*
 * tenure version: the version, and the stores of this build.
 */
#include "base/buf.h"
#include "cli/commands.h"
#include "store/backends.h"

static int run(ten_arguments *arguments) {
    TEN_CLEANUP(ten_buf_free) ten_buf stores = {0};
    for (size_t i = 0; ten_backend_name(i); i++)
        ten_buf_format(&stores, "%s%s", i ? " " : "", ten_backend_name(i));
    if (arguments->json)
        TEN_PRINT_ROW(true, {NULL, "version", .text = tenure_version()},
                      {NULL, "stores", .text = ten_buf_string(&stores)});
    else
        printf("tenure %s (stores: %s)\n", tenure_version(), ten_buf_string(&stores));
    return fflush(stdout) == 0 ? TEN_EXIT_DONE : TEN_EXIT_FAILED;
}

const ten_command ten_cmd_version = {TEN_HELP_version, .run = run};
