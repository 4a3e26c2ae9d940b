/*
 * tenure version: the version, and the stores of this build.
 */
#include <stdio.h>

#include "base/buf.h"
#include "base/json.h"
#include "cli/commands.h"
#include "store/backends.h"

int ten_cmd_version(const ten_command *command, int argc, char **argv) {
    ten_arguments arguments;
    int exit_code;
    if (!ten_arguments_parse(&arguments, command, NULL, argc, argv, &exit_code))
        return exit_code;
    ten_buf stores = {0};
    for (size_t i = 0; ten_backend_name(i); i++)
        ten_buf_format(&stores, "%s%s", i ? " " : "", ten_backend_name(i));
    if (arguments.json) {
        ten_buf line = {0};
        ten_json_open(&line);
        ten_json_text(&line, "version", tenure_version());
        ten_json_text(&line, "stores", ten_buf_string(&stores));
        ten_json_close(&line);
        puts(ten_buf_string(&line));
        ten_buf_free(&line);
    } else {
        printf("tenure %s (stores: %s)\n", tenure_version(), ten_buf_string(&stores));
    }
    ten_buf_free(&stores);
    return fflush(stdout) == 0 ? TEN_EXIT_DONE : TEN_EXIT_FAILED;
}
