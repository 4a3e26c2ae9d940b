/*
 * From a URL to libpq's parameters. The URL is libpq's own but for our options, which are taken out; host names are
 * looked up here, because libpq would wait for the resolver without end.
 */
#include "store/postgres/postgres_link.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/encode.h"

#define POSTGRES_PORT 5432u

/* Our words for what libpq calls otherwise; NULL: none of its business. */
static const struct {
    const char *ours;
    const char *theirs;
} own_options[] = {
    {"timeout", NULL},          {"listen_url", NULL},     {"password_file", NULL},
    {"ca_file", "sslrootcert"}, {"cert_file", "sslcert"}, {"key_file", "sslkey"},
};

/* What a URL may change. Read-write: a standby is no place for leases. A server that vanished is noticed by the calls'
 * own deadlines; the rest is for the connection that only listens. */
static const struct {
    const char *keyword;
    const char *value;
} defaults[] = {
    {"target_session_attrs", "read-write"},
    {"fallback_application_name", "tenure"},
    {"keepalives_idle", "10"},
    {"keepalives_interval", "5"},
    {"keepalives_count", "3"},
    {"tcp_user_timeout", "10000"},
};

/* ---- the URL, once more as text ------------------------------------------------------------------------ */

/* What libpq calls the option; NULL: it is ours alone. */
static const char *name_of_option(const char *key) {
    for (size_t i = 0; i < TEN_COUNT(own_options); i++)
        if (strcmp(own_options[i].ours, key) == 0)
            return own_options[i].theirs;
    return key;
}

static void write_url(ten_buf *text, const ten_url *url) {
    ten_buf_text(text, "postgresql://");
    if (url->user)
        ten_percent_encode(text, url->user, "");
    if (url->password) {
        ten_buf_char(text, ':');
        ten_percent_encode(text, url->password, "");
    }
    if (url->user || url->password)
        ten_buf_char(text, '@');
    ten_percent_encode(text, url->hosts ? url->hosts : "", ":,[]");
    ten_buf_char(text, '/');
    ten_percent_encode(text, url->path[0] == '/' ? url->path + 1 : url->path, "");
    char before = '?';
    for (size_t i = 0; i < url->option_count; i++) {
        const char *name = name_of_option(url->options[i].key);
        if (!name)
            continue;
        ten_buf_char(text, before);
        ten_percent_encode(text, name, "");
        ten_buf_char(text, '=');
        ten_percent_encode(text, url->options[i].value, "");
        before = '&';
    }
    /* Who names an authority wants the server to be the one that it vouches for. */
    if (ten_url_option(url, "ca_file") && !ten_url_option(url, "sslmode")) {
        ten_buf_char(text, before);
        ten_buf_text(text, "sslmode=verify-full");
    }
}

static int parse(const ten_url *url, ten_postgres_settings *settings, ten_error *error) {
    ten_buf text = {0};
    char *why = NULL;
    write_url(&text, url);
    if (!text.failed)
        settings->options = PQconninfoParse(text.data, &why);
    if (text.data)
        explicit_bzero(text.data, text.size);
    int r = text.failed         ? ten_fail_memory(error, "the settings of a PostgreSQL connection")
            : settings->options ? TENURE_OK
                                : ten_fail(error, TENURE_E_INVALID, "the %s: URL is not valid: %.200s", url->scheme,
                                           why ? why : "out of memory");
    for (char *end = error->message + strlen(error->message); r < 0 && end > error->message && end[-1] == '\n';)
        *--end = '\0';
    ten_buf_free(&text);
    PQfreemem(why);
    return r;
}

/* ---- files */

static int take_files(const ten_url *url, ten_postgres_settings *settings, ten_error *error) {
    int r = ten_url_files_read(url, "password_file", &settings->files, error);
    bool in_url = url->password || ten_url_option(url, "password");
    return r < 0 ? r : ten_url_files_check_password(&settings->files, in_url, error);
}

/* The value that the URL gives to a keyword of libpq, or NULL. */
static const char *option_of(const ten_postgres_settings *settings, const char *keyword) {
    for (const PQconninfoOption *at = settings->options; at->keyword; at++)
        if (strcmp(at->keyword, keyword) == 0)
            return at->val && at->val[0] ? at->val : NULL;
    return NULL;
}

static int make_name(const ten_url *url, ten_postgres_settings *settings, ten_error *error) {
    const char *host = option_of(settings, "host");
    const char *port = option_of(settings, "port");
    const char *database = option_of(settings, "dbname");
    const char *hosts = url->hosts && url->hosts[0] ? url->hosts : host ? host : "";
    ten_buf name = {0};
    ten_buf_format(&name, "postgres://%s", hosts);
    if (hosts == host && host && port)
        ten_buf_format(&name, ":%s", port);
    ten_buf_format(&name, "/%s", database ? database : "");
    settings->name = name.data;
    return name.failed ? ten_fail_memory(error, "the settings of a PostgreSQL connection") : TENURE_OK;
}

int ten_postgres_settings_make(const ten_url *url, ten_postgres_settings **ret_settings, ten_error *error) {
    ten_postgres_settings *settings = ten_calloc(1, sizeof *settings);
    ten_error here = {0};
    if (!settings)
        return ten_fail_memory(error, "the settings of a PostgreSQL connection");
    int r = parse(url, settings, &here);
    if (r == TENURE_OK)
        r = take_files(url, settings, &here);
    if (r == TENURE_OK)
        r = make_name(url, settings, &here);
    if (r < 0) {
        ten_postgres_settings_free(settings);
        return ten_fail(error, r, "%s", here.message);
    }
    *ret_settings = settings;
    return TENURE_OK;
}

void ten_postgres_settings_free(ten_postgres_settings *settings) {
    if (!settings)
        return;
    for (PQconninfoOption *at = settings->options; at && at->keyword; at++)
        if (at->val && strcmp(at->keyword, "password") == 0)
            explicit_bzero(at->val, strlen(at->val));
    PQconninfoFree(settings->options);
    ten_free(settings->name);
    ten_url_files_free(&settings->files);
    ten_free(settings);
}

/* ---- places -------------------------------------------------------------------------------------------- */

/* The nth of a list with commas; the last one counts for all that follow, as with libpq's ports. False: it is that. */
static bool take_nth(const char *list, size_t nth, char *text, size_t size) {
    const char *at = list ? list : "";
    size_t length = strcspn(at, ",");
    for (; nth > 0 && at[length] == ','; nth--) {
        at += length + 1;
        length = strcspn(at, ",");
    }
    snprintf(text, size, "%.*s", (int)length, at);
    return nth == 0;
}

static bool is_socket(const char *host) {
    return host[0] == '\0' || host[0] == '/' || host[0] == '@';
}

static bool is_loopback(const struct sockaddr *address) {
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *four = (const void *)address;
        return ntohl(four->sin_addr.s_addr) >> 24 == 127;
    }
    const struct sockaddr_in6 *six = (const void *)address;
    return address->sa_family == AF_INET6 &&
           (IN6_IS_ADDR_LOOPBACK(&six->sin6_addr) ||
            (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr) && six->sin6_addr.s6_addr[12] == 127));
}

/* Of a host as text, which is not looked up: whatever is no loopback address may be anywhere. */
static bool is_remote_text(const char *host) {
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    if (is_socket(host) || strcmp(host, "localhost") == 0)
        return false;
    bool loopback = getaddrinfo(host, NULL, &hints, &found) == 0 && found && is_loopback(found->ai_addr);
    if (found)
        freeaddrinfo(found);
    return !loopback;
}

/* One of a list with commas is. */
static bool is_remote_list(const char *hosts) {
    char host[256];
    for (size_t i = 0; take_nth(hosts, i, host, sizeof host); i++)
        if (is_remote_text(host))
            return true;
    return false;
}

static const char *environment(const char *name) {
    const char *value = getenv(name);
    return value ? value : "";
}

/* Where libpq goes by itself. What a service file says is not known here. */
static bool is_remote_by_itself(const ten_postgres_settings *settings) {
    const char *address = option_of(settings, "hostaddr");
    if (!address)
        address = environment("PGHOSTADDR");
    return is_remote_list(address[0] ? address : environment("PGHOST"));
}

bool ten_postgres_verifies_by_default(const ten_postgres_settings *settings, const ten_postgres_place *place) {
    return place->remote && !option_of(settings, "sslmode") && !environment("PGSSLMODE")[0] &&
           !option_of(settings, "service") && !environment("PGSERVICE")[0];
}

static int add_addresses(const ten_postgres_place *named, uint64_t deadline_ms, ten_postgres_place *places,
                         size_t *count, ten_error *error) {
    ten_addresses found;
    uint16_t port = (uint16_t)(named->port[0] ? strtoul(named->port, NULL, 10) : POSTGRES_PORT);
    int r = ten_resolve(named->host, port, deadline_ms, &found, error);
    for (size_t i = 0; r == TENURE_OK && i < found.count && *count < TEN_POSTGRES_PLACES_MAX; i++) {
        ten_postgres_place *place = &places[(*count)++];
        *place = *named;
        place->remote = !is_loopback((const struct sockaddr *)&found.at[i].address);
        if (getnameinfo((const struct sockaddr *)&found.at[i].address, found.at[i].size, place->address,
                        sizeof place->address, NULL, 0, NI_NUMERICHOST) != 0)
            --*count;
    }
    return r;
}

int ten_postgres_places(const ten_postgres_settings *settings, uint64_t deadline_ms, ten_postgres_place *places,
                        size_t *ret_count, ten_error *error) {
    const char *hosts = option_of(settings, "host");
    bool by_itself = !hosts || option_of(settings, "hostaddr");
    ten_postgres_place place = {0};
    size_t count = 0;
    int failed = TENURE_OK;
    if (by_itself)
        places[count++] = (ten_postgres_place){.remote = is_remote_by_itself(settings)};
    for (size_t i = 0; !by_itself && count < TEN_POSTGRES_PLACES_MAX; i++) {
        if (!take_nth(hosts, i, place.host, sizeof place.host))
            break;
        (void)take_nth(option_of(settings, "port"), i, place.port, sizeof place.port);
        if (is_socket(place.host))
            places[count++] = place;
        else
            failed = add_addresses(&place, deadline_ms, places, &count, error);
    }
    *ret_count = count;
    return count > 0 ? TENURE_OK : failed; /* one that is known is enough */
}

struct parameters {
    const char **keywords;
    const char **values;
    size_t count;
};

static void add_parameter(struct parameters *to, const char *keyword, const char *value) {
    if (!value || !value[0] || to->count + 1 >= TEN_POSTGRES_KEYWORDS_MAX)
        return;
    to->keywords[to->count] = keyword;
    to->values[to->count++] = value;
}

void ten_postgres_parameters(const ten_postgres_settings *settings, const ten_postgres_place *place,
                             const char *password, const char **keywords, const char **values) {
    struct parameters to = {keywords, values, 0};
    for (size_t i = 0; i < TEN_COUNT(defaults); i++)
        add_parameter(&to, defaults[i].keyword, defaults[i].value);
    if (ten_postgres_verifies_by_default(settings, place))
        add_parameter(&to, "sslmode", "verify-full");
    for (const PQconninfoOption *at = settings->options; at->keyword; at++)
        add_parameter(&to, at->keyword, at->val);
    add_parameter(&to, "host", place->host);
    add_parameter(&to, "hostaddr", place->address);
    add_parameter(&to, "port", place->port);
    add_parameter(&to, "password", password);
    add_parameter(&to, "client_encoding", "UTF8");
    keywords[to.count] = values[to.count] = NULL;
}
