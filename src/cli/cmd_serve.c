/*
 * tenure serve: the lease manager over REST.
 */
#include <stdio.h>
#include <string.h>

#include "agent/common/store_wait.h"
#include "cli/commands.h"
#include "cli/visible.h"
#include "server/server.h"

static void say_ready(const char *address) {
    printf("%s\n", address);
    fflush(stdout);
}

static int check(const ten_arguments *arguments, const ten_server_config *config) {
    if (arguments->count != 0)
        return ten_arguments_usage(arguments, "serve takes no arguments, only options");
    if (!config->tls_cert != !config->tls_key)
        return ten_arguments_usage(arguments, "--tls-cert and --tls-key go together");
    if (config->client_ca && !config->tls_cert)
        return ten_arguments_usage(arguments, "--client-ca goes with --tls-cert");
    return TEN_EXIT_DONE;
}

int ten_cmd_serve(const ten_command *command, int argc, char **argv) {
    ten_arguments arguments;
    ten_server_config config = {
        .listen = "127.0.0.1:7480", .request_ms = 30000, .namespaces = 1000, .ttl_max_ms = 86400000};
    ten_option_list hosts = {0};
    config.store_wait_ms = TEN_STORE_WAIT_FOR_EVER;
    const ten_option options[] = {
        {"store-wait", TEN_OPTION_DURATION, &config.store_wait_ms, "D", TEN_STORE_WAIT_HELP, "TENURE_STORE_WAIT", NULL},
        {"listen", TEN_OPTION_TEXT, &config.listen, "ADDR",
         "PORT (of 127.0.0.1), ADDR:PORT or unix:PATH; default 127.0.0.1:7480", "TENURE_LISTEN", NULL},
        {"auth-file", TEN_OPTION_TEXT, &config.auth_file, "F",
         "a line: NAME ROLE NS-GLOB HOLDER-GLOB SHA256HEX; read again at SIGHUP", NULL, NULL},
        {"tls-cert", TEN_OPTION_TEXT, &config.tls_cert, "F", "certificate chain, PEM", NULL, NULL},
        {"tls-key", TEN_OPTION_TEXT, &config.tls_key, "F", "its key, PEM", NULL, NULL},
        {"client-ca", TEN_OPTION_TEXT, &config.client_ca, "F", "only clients with a certificate of this CA", NULL,
         NULL},
        {"host", TEN_OPTION_LIST, &hosts, "NAME", "a name by which it may be called; may be repeated", NULL, NULL},
        {"request-timeout", TEN_OPTION_PERIOD, &config.request_ms, "D",
         "how long a request may take to arrive, and its answer to be taken; default 30s", NULL, NULL},
        {"max-namespaces", TEN_OPTION_NUMBER, &config.namespaces, "N",
         "how many namespaces may be written to at the same time; default 1000", NULL, NULL},
        {"max-ttl", TEN_OPTION_PERIOD, &config.ttl_max_ms, "D",
         "the longest TTL of a lease or a heartbeat; default 24h", "TENURE_MAX_TTL", NULL},
        {"insecure", TEN_OPTION_FLAG, &config.insecure, NULL, "listen where others can reach it, without TLS and auth",
         NULL, NULL},
        {.name = NULL},
    };
    int exit_code;
    ten_command_hold_hangup();
    if (!ten_arguments_parse(&arguments, command, options, argc, argv, &exit_code))
        return exit_code;
    exit_code = check(&arguments, &config);
    if (exit_code || !ten_arguments_check(&arguments, &exit_code))
        return exit_code;
    ten_timing_defaults(&arguments.timing);
    config.store = arguments.store;
    config.hosts = hosts.items;
    config.host_count = hosts.count;
    config.ttl_ms = arguments.timing.ttl_ms;
    config.timeout_ms = arguments.timing.timeout_ms;
    config.log_format = (enum ten_log_format)arguments.log_format;
    config.log_level = (enum ten_log_level)arguments.log_level;
    ten_error error = {0};
    int r = ten_server_run(&config, say_ready, &error);
    if (r < 0)
        ten_say(error.message);
    return ten_exit_code(r);
}
