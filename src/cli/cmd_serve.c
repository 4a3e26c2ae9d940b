/*
 * tenure serve: the lease manager over REST.
 */
#include "agent/common/store_wait.h"
#include "cli/commands.h"
#include "server/server.h"

static ten_option_list hosts;
static ten_server_config config = {.listen = "127.0.0.1:7480",
                                   .store_wait_ms = TEN_STORE_WAIT_FOR_EVER,
                                   .request_ms = 30000,
                                   .namespaces = 1000,
                                   .ttl_max_ms = 86400000,
                                   .hosts = hosts.items};
static const ten_option options[] = {
    TEN_OPT_STORE_WAIT(&config.store_wait_ms),
    TEN_OPT_ENV(TEN_OPTION_TEXT, "listen", "ADDR", &config.listen, "TENURE_LISTEN",
                "PORT (of 127.0.0.1), ADDR:PORT or unix:PATH; default 127.0.0.1:7480"),
    TEN_OPT_TEXT("auth-file", "F", &config.auth_file,
                 "a line: NAME ROLE NS-GLOB HOLDER-GLOB SHA256HEX; read again at SIGHUP"),
    TEN_OPT_TEXT("tls-cert", "F", &config.tls_cert, "certificate chain, PEM"),
    TEN_OPT_TEXT("tls-key", "F", &config.tls_key, "its key, PEM"),
    TEN_OPT_TEXT("client-ca", "F", &config.client_ca, "only clients with a certificate of this CA"),
    TEN_OPT_LIST("host", "NAME", &hosts, "a name by which it may be called; may be repeated"),
    TEN_OPT_PERIOD("request-timeout", "D", &config.request_ms,
                   "how long a request may take to arrive, and its answer to be taken; default 30s"),
    TEN_OPT_NUMBER("max-namespaces", "N", &config.namespaces,
                   "how many namespaces may be written to at the same time; default 1000"),
    TEN_OPT_ENV(TEN_OPTION_PERIOD, "max-ttl", "D", &config.ttl_max_ms, "TENURE_MAX_TTL",
                "the longest TTL of a lease or a heartbeat; default 24h"),
    TEN_OPT_FLAG("insecure", &config.insecure, "listen where others can reach it, without TLS and auth"),
    TEN_OPT_END,
};

static void say_ready(const char *address) {
    printf("%s\n", address);
    fflush(stdout);
}

static int check(ten_arguments *arguments) {
    const ten_rule rules[] = {{arguments->count != 0, "serve takes no arguments, only options"},
                              {!config.tls_cert != !config.tls_key, "--tls-cert and --tls-key go together"},
                              {config.client_ca && !config.tls_cert, "--client-ca goes with --tls-cert"}};
    int exit_code = TEN_CHECK_RULES(arguments, rules);
    return exit_code ? exit_code : ten_arguments_check(arguments);
}

static int run(ten_arguments *arguments) {
    ten_error error = {0};
    ten_timing_defaults(&arguments->timing);
    config.store = arguments->store;
    config.host_count = hosts.count;
    config.ttl_ms = arguments->timing.ttl_ms;
    config.timeout_ms = arguments->timing.timeout_ms;
    config.log_format = (enum ten_log_format)arguments->log_format;
    config.log_level = (enum ten_log_level)arguments->log_level;
    int r = ten_server_run(&config, say_ready, &error);
    if (r < 0)
        ten_say(error.message);
    return ten_exit_code(r);
}

const ten_command ten_cmd_serve = {TEN_HELP_serve, .reloads = true, .options = options, .check = check, .run = run};
