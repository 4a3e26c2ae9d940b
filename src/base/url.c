/*
 * Store URLs. Called by the store opener, and by code that prints a URL. It knows no scheme: which options and hosts
 * make sense is the backend's business.
 */
#include "base/url.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/encode.h"
#include "base/suggest.h"

static int bad(ten_error *error, const char *url, const char *rule) {
    char shown[200];
    ten_url_redact(url, shown, sizeof shown);
    return ten_fail(error, TENURE_E_INVALID, "the URL '%s' is not valid: %s", shown, rule);
}

static int decode(const char *url, const char *from, size_t size, char **ret_text, ten_error *error) {
    char *text = ten_malloc(size + 1);
    if (!text)
        return ten_fail_memory(error, "a URL");
    size_t used = 0;
    for (size_t i = 0; i < size; i++) {
        char c = from[i];
        if (c == '%') {
            int byte = size - i > 2 ? ten_percent_byte(from + i) : -1;
            if (byte < 0) {
                ten_free(text);
                return bad(error, url, "a '%' is followed by two hexadecimal digits");
            }
            c = (char)byte;
            i += 2;
        }
        if ((unsigned char)c < 0x20 || c == 0x7f) {
            ten_free(text);
            return bad(error, url, "it has a control character");
        }
        text[used++] = c;
    }
    text[used] = '\0';
    *ret_text = text;
    return TENURE_OK;
}

static int parse_scheme(const char *text, ten_url *url, const char **ret_rest, ten_error *error) {
    size_t size = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.");
    if (size == 0 || text[size] != ':')
        return bad(error, text, "it starts with a scheme and a colon, such as sqlite:/var/lib/jobs.db");
    url->scheme = ten_malloc(size + 1);
    if (!url->scheme)
        return ten_fail_memory(error, "a URL");
    for (size_t i = 0; i < size; i++)
        url->scheme[i] = (char)(text[i] >= 'A' && text[i] <= 'Z' ? text[i] - 'A' + 'a' : text[i]);
    url->scheme[size] = '\0';
    *ret_rest = text + size + 1;
    return TENURE_OK;
}

/* Each host of "h1:1,[::1]:2" may have a port. What else is wrong with a host, its store knows better. */
static bool are_ports_good(const char *hosts) {
    for (const char *host = hosts; *host; host += strspn(host, ",")) {
        size_t size = strcspn(host, ",");
        const char *bracket = memchr(host, ']', size);
        const char *from = bracket ? bracket : host;
        const char *colon = memchr(from, ':', size - (size_t)(from - host));
        host += size;
        if (!colon || memchr(colon + 1, ':', (size_t)(host - colon - 1)))
            continue;
        size_t digits = strspn(colon + 1, "0123456789");
        unsigned long port = strtoul(colon + 1, NULL, 10);
        if (colon + 1 + digits != host || port < 1 || port > UINT16_MAX)
            return false;
    }
    return true;
}

static int parse_authority(const char *text, const char *from, size_t size, ten_url *url, ten_error *error) {
    const char *hosts = from;
    for (const char *at = from; at < from + size; at++)
        if (*at == '@')
            hosts = at + 1;
    int r = decode(text, hosts, (size_t)(from + size - hosts), &url->hosts, error);
    if (r == 0 && !are_ports_good(url->hosts))
        r = bad(error, text, "a port is a number between 1 and 65535");
    if (r < 0 || hosts == from)
        return r;
    size_t login = (size_t)(hosts - from) - 1;
    const char *colon = memchr(from, ':', login);
    size_t user = colon ? (size_t)(colon - from) : login;
    r = decode(text, from, user, &url->user, error);
    if (r == 0 && colon)
        r = decode(text, colon + 1, login - user - 1, &url->password, error);
    return r;
}

static int parse_option(const char *text, const char *from, size_t size, ten_url *url, ten_error *error) {
    const char *equals = memchr(from, '=', size);
    if (!equals || equals == from)
        return bad(error, text, "each option is written key=value");
    if (url->option_count == TEN_URL_OPTIONS_MAX)
        return bad(error, text, "it has more than 16 options");
    size_t key = (size_t)(equals - from);
    size_t place = url->option_count++;
    int r = decode(text, from, key, &url->options[place].key, error);
    if (r == 0)
        r = decode(text, equals + 1, size - key - 1, &url->options[place].value, error);
    for (size_t i = 0; r == 0 && i < place; i++)
        if (strcmp(url->options[i].key, url->options[place].key) == 0)
            r = bad(error, text, "an option is given twice");
    return r;
}

static int parse_rest(const char *text, const char *rest, ten_url *url, ten_error *error) {
    int r = TENURE_OK;
    if (strncmp(rest, "//", 2) == 0) {
        rest += 2;
        size_t size = strcspn(rest, "/?");
        r = parse_authority(text, rest, size, url, error);
        rest += size;
    }
    size_t path = strcspn(rest, "?");
    if (r == 0)
        r = decode(text, rest, path, &url->path, error);
    if (rest[path] == '\0')
        return r;
    for (const char *at = rest + path + 1; r == 0;) {
        size_t size = strcspn(at, "&");
        r = parse_option(text, at, size, url, error);
        if (at[size] == '\0')
            break;
        at += size + 1;
    }
    return r;
}

int ten_url_parse(const char *text, ten_url *url, ten_error *error) {
    *url = (ten_url){0};
    const char *rest = text;
    int r = parse_scheme(text, url, &rest, error);
    if (r == 0)
        r = parse_rest(text, rest, url, error);
    if (r < 0)
        ten_url_free(url);
    return r;
}

void ten_url_free(ten_url *url) {
    ten_free(url->scheme);
    ten_free(url->user);
    ten_free(url->password);
    ten_free(url->hosts);
    ten_free(url->path);
    for (size_t i = 0; i < url->option_count; i++) {
        ten_free(url->options[i].key);
        ten_free(url->options[i].value);
    }
    *url = (ten_url){0};
}

const char *ten_url_option(const ten_url *url, const char *key) {
    for (size_t i = 0; i < url->option_count; i++)
        if (strcmp(url->options[i].key, key) == 0)
            return url->options[i].value;
    return NULL;
}

int ten_url_check_options(const ten_url *url, const char *const *known, ten_error *error) {
    for (size_t i = 0; i < url->option_count; i++) {
        const char *key = url->options[i].key;
        size_t count = 0;
        while (known[count] && strcmp(known[count], key) != 0)
            count++;
        if (known[count])
            continue;
        const char *meant = ten_suggest(key, known, count);
        return ten_fail(error, TENURE_E_INVALID, "the %s: URL has no option '%.40s'%s%s%s", url->scheme, key,
                        meant ? "; did you mean '" : "", meant ? meant : "", meant ? "'?" : "");
    }
    return TENURE_OK;
}

static bool names_a_secret(const char *key, size_t size) {
    return (size >= 8 && strncasecmp(key + size - 8, "password", 8) == 0) ||
           (size >= 5 && strncasecmp(key + size - 5, "token", 5) == 0) ||
           (size >= 4 && strncasecmp(key + size - 4, "_url", 4) == 0); /* a URL may have a password of its own */
}

/* Works on text that does not parse, too: it is what the message about it shows. */
void ten_url_redact(const char *text, char *shown, size_t size) {
    ten_buf buf = {0};
    const char *authority = strstr(text, "//");
    const char *end = authority ? authority + 2 + strcspn(authority + 2, "/?") : text;
    const char *at_sign = authority ? memrchr(authority, '@', (size_t)(end - authority)) : NULL;
    /* A slash or question mark that somebody forgot to escape ends the authority in the middle of the password. Better
     * to hide too much. */
    if (authority && !at_sign && memchr(authority + 2, ':', (size_t)(end - authority) - 2))
        at_sign = strrchr(end, '@');
    const char *colon = at_sign ? memchr(authority + 2, ':', (size_t)(at_sign - authority) - 2) : NULL;
    const char *from = text;
    if (colon) {
        ten_buf_add(&buf, text, (size_t)(colon - text) + 1);
        ten_buf_text(&buf, "***");
        from = at_sign;
    }
    const char *query = strchr(from, '?');
    ten_buf_add(&buf, from, query ? (size_t)(query - from) : strlen(from));
    for (const char *at = query; at && *at;) {
        size_t key = strcspn(at + 1, "=&") + 1;
        size_t option = strcspn(at + 1, "&") + 1;
        bool hide = names_a_secret(at, key) && at[key] == '=';
        ten_buf_add(&buf, at, hide ? key + 1 : option);
        if (hide)
            ten_buf_text(&buf, "***");
        at += option;
    }
    snprintf(shown, size, "%s", buf.failed ? "(out of memory)" : ten_buf_string(&buf));
    for (char *at = shown; *at; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            *at = '?';
    ten_buf_free(&buf);
}
