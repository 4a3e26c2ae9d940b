/*
 * Targets from a list that a server answers with. Called by source.c.
 */
#include "agent/sources/source.h"

#include <jansson.h>
#include <string.h>

#include "agent/sources/http_page.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/duration.h"

#define EVERY_MS    10000u
#define TIMEOUT_MS  10000u /* of a page */
#define BACKOFF_MS  10000u
#define PAGES_MAX   10000u
#define TARGETS_MAX 1000000u
#define LIMIT       "1000"
#define SHOWN_MAX   100u

typedef struct target_http {
    ten_source source;
    char *url; /* without our options */
    ten_url_files endpoint;
    uint64_t timeout_ms;
    ten_http_page_client *client; /* these are the thread's */
    char *etag;                   /* of the list as it was read last; NULL: read it whatever it is */
    size_t shown;                 /* targets in this pass */
} target_http;

/* ---- a page */

/* What counts of an object, as a line of a file: the holder of the target, and until when, changes all the time. */
static json_t *make_line(const json_t *object) {
    static const char *const members[] = {"url", "exec", "every", "paused", "spec"};
    json_t *line = json_object();
    json_t *id = json_object_get(object, "id");
    bool made = line && json_object_set(line, "id", id ? id : json_object_get(object, "scene_id")) == 0;
    for (size_t i = 0; made && i < TEN_COUNT(members); i++) {
        json_t *value = json_object_get(object, members[i]);
        if (value && !json_is_null(value))
            made = json_object_set(line, members[i], value) == 0;
    }
    if (made)
        return line;
    json_decref(line);
    return NULL;
}

static int refuse(target_http *source, const json_t *entry, const char *problem, ten_error *error) {
    char *text = json_dumps(entry, JSON_COMPACT | JSON_ENCODE_ANY);
    if (!text)
        return ten_fail_memory(error, "the targets");
    ten_source_feed_refuse(&source->source.feed, "", text, ten_min_u64(strlen(text), SHOWN_MAX), 0, problem);
    free(text);
    return TENURE_OK;
}

static int take_entry(target_http *source, const json_t *entry, ten_error *error) {
    const json_t *id = json_object_get(entry, "id");
    const json_t *scene = json_object_get(entry, "scene_id");
    if (!json_is_object(entry) || (!id && !scene))
        return refuse(source, entry, "it is not an object with an \"id\"", error);
    if (id && scene && !json_equal(id, scene))
        return refuse(source, entry, "\"id\" and \"scene_id\" differ", error);
    if (++source->shown > TARGETS_MAX)
        return ten_fail(error, TENURE_E_STORE, "the list has more than %u targets", TARGETS_MAX);
    json_t *line = make_line(entry);
    char *text = line ? json_dumps(line, JSON_COMPACT) : NULL;
    int r = text ? ten_source_feed_line(&source->source.feed, text, strlen(text), error)
                 : ten_fail_memory(error, "the targets");
    json_decref(line);
    free(text);
    return r;
}

/* A NUL in a text is the trouble of its entry alone. */
static int take_page(target_http *source, const ten_buf *body, ten_error *error) {
    json_error_t problem;
    json_t *list = json_loadb(ten_buf_string(body), body->size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &problem);
    int r = TENURE_OK;
    if (!list)
        r = ten_fail(error, TENURE_E_STORE, "the answer is not JSON: %.100s (line %d)", problem.text, problem.line);
    else if (!json_is_array(list))
        r = ten_fail(error, TENURE_E_STORE, "the answer is not a JSON array of targets");
    for (size_t i = 0; r == TENURE_OK && i < json_array_size(list); i++)
        r = take_entry(source, json_array_get(list, i), error);
    json_decref(list);
    return r;
}

/* ---- a pass */

/* The tag of a list that is in one page stands for all of it. While something is missing from it, the list is looked at
 * again, changed or not: only then does it count as gone. */
static void keep_etag(target_http *source, const ten_http_page *first, bool one_page) {
    bool settled = source->source.feed.list.targets.count == source->shown;
    ten_free(source->etag);
    source->etag = one_page && settled && first->etag.size > 0 ? ten_strdup(first->etag.data) : NULL;
}

/* The pages after the first. */
static int take_rest(target_http *source, const ten_http_page *first, ten_error *error) {
    TEN_CLEANUP(ten_buf_free) ten_buf url = {0};
    int r = TENURE_OK;
    ten_buf_text(&url, ten_buf_string(&first->next));
    for (unsigned pages = 1; r == TENURE_OK && url.size > 0; pages++) {
        ten_http_page page = {0};
        if (pages == PAGES_MAX)
            r = ten_fail(error, TENURE_E_STORE, "the list has more than %u pages", PAGES_MAX);
        else
            r = ten_http_page_client_get(source->client, &source->source.thread, url.data, NULL, source->timeout_ms,
                                         &page, error);
        TEN_STEP(r, take_page(source, &page.body, error));
        if (r == TENURE_OK && page.next.size > 0 && strcmp(page.next.data, url.data) == 0)
            r = ten_fail(error, TENURE_E_STORE, "the list's next page is the same again: %.100s", url.data);
        ten_buf_clear(&url);
        ten_buf_text(&url, ten_buf_string(&page.next));
        ten_http_page_free(&page);
    }
    return r == TENURE_OK && url.failed ? ten_fail_memory(error, "the targets") : r;
}

static int read_targets(ten_source *self, ten_error *error) {
    target_http *source = (target_http *)self;
    ten_http_page first = {0};
    int r = source->client ? TENURE_OK : ten_http_page_client_open(&source->endpoint, &source->client, error);
    TEN_STEP(r, ten_http_page_client_get(source->client, &self->thread, source->url, source->etag, source->timeout_ms,
                                         &first, error));
    if (r == TENURE_OK && first.status == 200) {
        ten_source_feed_begin(&source->source.feed);
        source->shown = 0;
        r = take_page(source, &first.body, error);
        TEN_STEP(r, take_rest(source, &first, error));
        ten_source_feed_end(&source->source.feed, r == TENURE_OK, ten_now_ms());
        keep_etag(source, &first, r == TENURE_OK && first.next.size == 0);
    } else if (r == TENURE_OK && !source->etag) {
        r = ten_fail(error, TENURE_E_STORE, "HTTP status 304, although nothing was known");
    }
    ten_http_page_free(&first);
    return r;
}

/* ---- the kind */

/* Whether `option`, up to an = or &, has that name. */
static bool is_named(const char *option, const char *name) {
    size_t size = strcspn(option, "=&");
    return strlen(name) == size && memcmp(option, name, size) == 0;
}

/* The text without the options that are ours, and with a limit. */
static char *make_url(const char *text) {
    static const char *const ours[] = {"every", "timeout", "token_file", "ca_file", "cert_file", "key_file"};
    ten_buf url = {0};
    bool limited = false;
    size_t size = strcspn(text, "?#");
    const char *query = text[size] == '?' ? text + size + 1 : "";
    char separator = '?';
    ten_buf_add(&url, text, size);
    for (const char *at = query; *at; at += size + (at[size] == '&')) {
        size = strcspn(at, "&");
        size_t i = 0;
        while (i < TEN_COUNT(ours) && !is_named(at, ours[i]))
            i++;
        if (i < TEN_COUNT(ours))
            continue;
        limited |= is_named(at, "limit");
        ten_buf_char(&url, separator);
        ten_buf_add(&url, at, size);
        separator = '&';
    }
    if (!limited)
        ten_buf_format(&url, "%climit=" LIMIT, separator);
    if (url.failed)
        ten_buf_free(&url);
    return url.data;
}

static int read_duration(const ten_url *url, const char *option, uint64_t otherwise_ms, uint64_t *ret_ms,
                         ten_error *error) {
    const char *text = ten_url_option(url, option);
    *ret_ms = otherwise_ms;
    int r = text ? ten_duration_parse(text, ret_ms, error) : TENURE_OK;
    if (r == TENURE_OK && (*ret_ms == 0 || *ret_ms > TENURE_TTL_MAX_MS))
        r = ten_fail(error, TENURE_E_INVALID, "the URL's %s is at least 1ms, and at most 366 days", option);
    return r;
}

static int read_url(target_http *source, const char *text, ten_error *error) {
    TEN_CLEANUP(ten_url_free) ten_url url = {0};
    int r = ten_url_parse(text, &url, error);
    if (r == TENURE_OK && (!url.hosts || url.hosts[0] == '\0'))
        r = ten_fail(error, TENURE_E_INVALID, "the target source %s: names no host: write %s://HOST/PATH", url.scheme,
                     url.scheme);
    if (r == TENURE_OK && url.user)
        r = ten_fail(error, TENURE_E_INVALID, "a target source is asked with a token, not as a user: token_file=PATH");
    TEN_STEP(r, ten_endpoint_read(&url, strcmp(url.scheme, "https") == 0, "token_file", &source->endpoint, error));
    TEN_STEP(r, read_duration(&url, "every", EVERY_MS, &source->source.every_ms, error));
    TEN_STEP(r, read_duration(&url, "timeout", TIMEOUT_MS, &source->timeout_ms, error));
    if (r == TENURE_OK && !(source->url = make_url(text)))
        r = ten_fail_memory(error, "the targets");
    return r;
}

static int open_source(ten_source *self, const ten_agent_config *config, ten_error *error) {
    self->thread.backoff_max_ms = BACKOFF_MS;
    return read_url((target_http *)self, config->targets, error);
}

static void free_source(ten_source *self) {
    target_http *source = (target_http *)self;
    ten_http_page_client_close(source->client);
    ten_url_files_free(&source->endpoint);
    ten_free(source->url);
    ten_free(source->etag);
}

const ten_source_ops ten_target_http_ops = {
    .size = sizeof(target_http), .open = open_source, .free = free_source, .read = read_targets};
