/*
 * Targets from a Redis: passes of SCAN or SSCAN, values by MGET, differences for the agent's loop.
 *
 * SCAN walks all keys of the database, so there is a budget: 1,000 keys a step, ten steps a second, less when the
 * server is slow, and one pass in two seconds (in one, when a step is enough). A step's new and changed targets are
 * told at once. SCAN shows what was there from the beginning of the pass to its end; a pass in which something failed
 * or the connection was lost is begun anew and removes nothing. A server that is another run than before, or that was
 * flushed since, has the list in doubt (target_list.h).
 */
#include "agent/target_redis.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>

#include "agent/redis_thread.h"
#include "agent/target_list.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/id.h"
#include "base/io.h"
#include "base/random.h"

#define STEP_COUNT      "1000"
#define STEP_MS         100u
#define STEP_REST       20u /* a step that took a while is followed by a rest of so many times that */
#define STEP_MAX_MS     5000u
#define SHORT_PASS_MS   1000u
#define PASS_MS         2000u
#define BATCH           100u /* values of one MGET */
#define BAD_TOLD_MAX    50u  /* in one pass, each in a line of its own */
#define ENTRY_SHOWN     120u
#define REASON_ABSENT   UINT64_C(1)
#define FLUSHES_UNKNOWN UINT64_MAX

struct ten_target_redis {
    ten_redis_thread thread;
    ten_target_list list; /* this and what follows is the thread's */
    char *set;            /* NULL: all keys */
    char *prefix;         /* NULL: the members are all there is */
    char *pattern;        /* of SCAN */
    char run_id[48];      /* of the server that was read last */
    uint64_t flushes;     /* that it had had then */
    int problem;          /* the one that was told; 0: none */
    unsigned bad_told;    /* in this pass */
    uint64_t bad_untold;
    char ids[BATCH][TENURE_TARGET_MAX + 1]; /* whose values are asked for next */
    size_t id_count;
    int news_fd;
    ten_source_news *first_news; /* these under the thread's lock */
    ten_source_news **last_news;
};

static uint64_t now_ms(void) {
    return ten_boot_ms(&ten_system_clock);
}

static int no_memory(ten_error *error) {
    return ten_fail(error, TENURE_E_NOMEM, "out of memory for the targets");
}

/* ---- news for the loop */

static void free_news(ten_source_news *news) {
    ten_target_line_free(news->storage);
    ten_free(news->entry);
    ten_free(news->problem);
    ten_free(news);
}

/* Takes over `storage`. False: out of memory. */
static bool leave_news(ten_target_redis *source, const ten_source_news *given, const char *entry, const char *problem) {
    ten_source_news *news = ten_malloc(sizeof *news);
    if (!news) {
        ten_target_line_free(given->storage);
        return false;
    }
    *news = *given;
    news->entry = entry ? ten_strdup(entry) : NULL;
    news->problem = problem ? ten_strdup(problem) : NULL;
    if (!news->entry != !entry || !news->problem != !problem) {
        free_news(news);
        return false;
    }
    if (news->kind == TEN_SOURCE_GONE)
        news->target.id = news->entry;
    uint64_t one = 1;
    pthread_mutex_lock(&source->thread.lock);
    *source->last_news = news;
    source->last_news = &news->next;
    pthread_mutex_unlock(&source->thread.lock);
    (void)ten_write_all(source->news_fd, &one, sizeof one);
    return true;
}

static ten_source_news *take_first(ten_target_redis *source) {
    pthread_mutex_lock(&source->thread.lock);
    ten_source_news *news = source->first_news;
    if (news)
        source->first_news = news->next;
    if (!source->first_news)
        source->last_news = &source->first_news;
    pthread_mutex_unlock(&source->thread.lock);
    return news;
}

void ten_target_redis_take(ten_target_redis *source, size_t limit, ten_source_news_fn each, void *userdata) {
    uint64_t count;
    ten_source_news *news = NULL;
    (void)ten_read_some(source->news_fd, &count, sizeof count);
    for (; limit > 0 && (news = take_first(source)); limit--) {
        each(news, userdata);
        free_news(news);
    }
    count = 1;
    if (news)
        (void)ten_write_all(source->news_fd, &count, sizeof count);
}

/* ---- entries that cannot be used */

static void show(const char *prefix, const char *entry, size_t size, char shown[ENTRY_SHOWN]) {
    size_t used = (size_t)snprintf(shown, ENTRY_SHOWN / 2, "%s", prefix);
    used = ten_min_u64(used, ENTRY_SHOWN / 2 - 1);
    for (size_t i = 0; i < size && used + 8 < ENTRY_SHOWN; i++) {
        unsigned char c = (unsigned char)entry[i];
        if (c < 0x20 || c >= 0x7f)
            used += (size_t)snprintf(shown + used, ENTRY_SHOWN - used, "\\x%02x", c);
        else
            shown[used++] = (char)c;
    }
    shown[used] = '\0';
}

/* `entry` is fit to be shown. */
static void refuse(ten_target_redis *source, const char *entry, uint64_t reason, const char *problem) {
    if (!ten_target_list_refuse(&source->list, entry, reason))
        return;
    /* However many there are, the log is for people. */
    if (++source->bad_told > BAD_TOLD_MAX)
        source->bad_untold++;
    else
        (void)leave_news(source, &(ten_source_news){.kind = TEN_SOURCE_BAD}, entry, problem);
}

static void tell_rest(ten_target_redis *source) {
    if (source->bad_untold)
        (void)leave_news(source, &(ten_source_news){.kind = TEN_SOURCE_MORE_BAD, .count = source->bad_untold}, NULL,
                         NULL);
}

/* ---- a target */

static int put(ten_target_redis *source, const tenure_target *target, ten_target_line *storage, const char *text,
               size_t size, ten_error *error) {
    char id[TENURE_TARGET_MAX + 1];
    snprintf(id, sizeof id, "%s", target->id);
    ten_source_news news = {.kind = TEN_SOURCE_PUT, .target = *target, .storage = storage};
    if (!leave_news(source, &news, NULL, NULL) || !ten_target_list_keep(&source->list, id, text, size))
        return no_memory(error);
    return TENURE_OK;
}

static int take_value(ten_target_redis *source, const char *id, const char *text, size_t size, ten_error *error) {
    tenure_target target;
    ten_target_line *storage;
    ten_error problem;
    if (ten_target_list_look(&source->list, id, text, size) == TEN_LISTED_SAME)
        return TENURE_OK;
    int done = ten_target_session_parse(id, text, size, &target, &storage, &problem);
    if (done == TENURE_OK)
        return put(source, &target, storage, text, size, error);
    if (done == TENURE_E_NOMEM)
        return no_memory(error);
    char shown[ENTRY_SHOWN];
    show(source->prefix, id, strlen(id), shown);
    refuse(source, shown, ten_hash_text(problem.message), problem.message);
    return TENURE_OK;
}

/* A member of the set that is all there is to its target. */
static int take_member(ten_target_redis *source, const char *text, size_t size, ten_error *error) {
    tenure_target target;
    ten_target_line *storage;
    ten_error problem;
    int done = strlen(text) == size ? ten_target_line_parse(text, &target, &storage, &problem)
                                    : ten_fail(&problem, TENURE_E_INVALID, "it has a NUL");
    if (done == TENURE_E_NOMEM)
        return no_memory(error);
    enum ten_listed listed =
        done == TENURE_OK ? ten_target_list_look(&source->list, target.id, text, size) : TEN_LISTED_CHANGED;
    if (done == TENURE_OK && listed == TEN_LISTED_CHANGED)
        return put(source, &target, storage, text, size, error);
    if (done == TENURE_OK && listed == TEN_LISTED_TWICE)
        ten_fail(&problem, TENURE_E_INVALID, "another member of the set has the same id");
    if (done < 0 || listed == TEN_LISTED_TWICE) {
        char shown[ENTRY_SHOWN];
        show("", text, size, shown);
        refuse(source, shown, ten_hash_text(problem.message), problem.message);
    }
    if (done == TENURE_OK)
        ten_target_line_free(storage);
    return TENURE_OK;
}

/* ---- asking */

static int receive(ten_target_redis *source, const char *what, redisReply **ret_reply, ten_error *error) {
    redisReply *reply = NULL;
    int done =
        ten_redis_link_receive(source->thread.link, ten_redis_thread_deadline_ms(&source->thread), &reply, error);
    if (done < 0)
        return done;
    if (reply->type == REDIS_REPLY_ERROR) {
        done = ten_redis_refusal(reply, what, error);
        freeReplyObject(reply);
        return done;
    }
    *ret_reply = reply;
    return TENURE_OK;
}

static int strange(const char *what, ten_error *error) {
    return ten_fail(error, TENURE_E_STORE, "%s: this is not the answer of a Redis", what);
}

/* Sends `command` with the keys of `count` ids. */
static int ask_of_keys(ten_target_redis *source, const char *command, size_t first, size_t count, ten_error *error) {
    const char *words[BATCH + 1] = {command};
    size_t sizes[BATCH + 1] = {strlen(command)};
    ten_buf keys = {0};
    for (size_t i = 0; i < count; i++) {
        size_t before = keys.size;
        ten_buf_text(&keys, source->prefix);
        ten_buf_text(&keys, source->ids[first + i]);
        sizes[i + 1] = keys.size - before;
    }
    size_t at = 0;
    for (size_t i = 0; i < count && !keys.failed; at += sizes[++i])
        words[i + 1] = keys.data + at;
    int done =
        keys.failed ? no_memory(error) : ten_redis_link_send(source->thread.link, count + 1, words, sizes, error);
    ten_buf_free(&keys);
    return done;
}

/* A key without a value that MGET could show: of another type, or gone since SCAN saw it, or never there (the member of
 * a set). Asked once; as long as it stays so it is known. */
static int take_absent(ten_target_redis *source, size_t number, ten_error *error) {
    const char *id = source->ids[number];
    char shown[ENTRY_SHOWN];
    redisReply *reply = NULL;
    show(source->prefix, id, strlen(id), shown);
    if (ten_target_list_is_refused(&source->list, shown, REASON_ABSENT))
        return TENURE_OK;
    int done = ask_of_keys(source, "TYPE", number, 1, error);
    if (done == TENURE_OK)
        done = receive(source, "asking for the type of a key", &reply, error);
    if (done < 0)
        return done;
    const char *type = reply->type == REDIS_REPLY_STATUS ? reply->str : "";
    if (strcmp(type, "none") == 0 && source->set) {
        refuse(source, shown, REASON_ABSENT, "the set has this member, but there is no such key");
    } else if (strcmp(type, "none") != 0 && strcmp(type, "string") != 0) {
        char problem[80];
        snprintf(problem, sizeof problem, "the key is a %.20s, not a string", type);
        refuse(source, shown, REASON_ABSENT, problem);
    }
    freeReplyObject(reply);
    return TENURE_OK;
}

/* The values of the ids that have been collected. */
static int take_values(ten_target_redis *source, ten_error *error) {
    static const char what[] = "reading the values of targets";
    redisReply *reply = NULL;
    size_t count = source->id_count;
    source->id_count = 0;
    if (count == 0)
        return TENURE_OK;
    int done = ask_of_keys(source, "MGET", 0, count, error);
    if (done == TENURE_OK)
        done = receive(source, what, &reply, error);
    if (done < 0)
        return done;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != count)
        done = strange(what, error);
    for (size_t i = 0; done == TENURE_OK && i < count; i++) {
        const redisReply *value = reply->element[i];
        done = value->type == REDIS_REPLY_STRING ? take_value(source, source->ids[i], value->str, value->len, error)
                                                 : take_absent(source, i, error);
    }
    freeReplyObject(reply);
    return done;
}

/* ---- a pass */

static int collect_id(ten_target_redis *source, const char *text, size_t size, ten_error *error) {
    ten_error problem;
    int done =
        strlen(text) == size ? ten_target_check(text, &problem) : ten_fail(&problem, TENURE_E_INVALID, "it has a NUL");
    if (done < 0) {
        char shown[ENTRY_SHOWN];
        show(source->prefix, text, size, shown);
        refuse(source, shown, ten_hash_text(problem.message), problem.message);
        return TENURE_OK;
    }
    memcpy(source->ids[source->id_count++], text, size + 1);
    return source->id_count == BATCH ? take_values(source, error) : TENURE_OK;
}

static int take_entry(ten_target_redis *source, const redisReply *entry, ten_error *error) {
    if (!source->prefix)
        return take_member(source, entry->str, entry->len, error);
    if (source->set)
        return collect_id(source, entry->str, entry->len, error);
    size_t prefix = strlen(source->prefix);
    if (entry->len < prefix || memcmp(entry->str, source->prefix, prefix) != 0)
        return TENURE_OK;
    return collect_id(source, entry->str + prefix, entry->len - prefix, error);
}

/* One step: from the cursor to the next, which is "0" at the end. */
static int step(ten_target_redis *source, char cursor[24], ten_error *error) {
    const char *keys[] = {"SCAN", cursor, "MATCH", source->pattern, "COUNT", STEP_COUNT};
    const char *members[] = {"SSCAN", source->set, cursor, "COUNT", STEP_COUNT};
    const char *what = source->set ? "reading the set of targets" : "looking for the keys of targets";
    redisReply *reply = NULL;
    ten_redis_link *link = source->thread.link;
    int done = ten_redis_link_ask(link, ten_redis_thread_deadline_ms(&source->thread), &reply, error,
                                  source->set ? members : keys, source->set ? TEN_COUNT(members) : TEN_COUNT(keys));
    if (done < 0)
        return done;
    bool fits = reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
                reply->element[0]->type == REDIS_REPLY_STRING && reply->element[0]->len < 24 &&
                reply->element[1]->type == REDIS_REPLY_ARRAY;
    for (size_t i = 0; fits && i < reply->element[1]->elements; i++)
        fits = reply->element[1]->element[i]->type == REDIS_REPLY_STRING;
    if (!fits)
        done = strange(what, error);
    for (size_t i = 0; done == TENURE_OK && i < reply->element[1]->elements; i++)
        done = take_entry(source, reply->element[1]->element[i], error);
    if (done == TENURE_OK)
        snprintf(cursor, 24, "%s", reply->element[0]->str);
    freeReplyObject(reply);
    return done == TENURE_OK ? take_values(source, error) : done;
}

static uint64_t calls_of(const char *statistics, const char *command) {
    const char *at = strstr(statistics, command);
    return at ? strtoull(at + strlen(command), NULL, 10) : 0;
}

/* How often the server has been flushed. One that does not tell is asked for nothing more. */
static int look_for_flush(ten_target_redis *source, ten_error *error) {
    const char *words[] = {"INFO", "commandstats"};
    redisReply *reply = NULL;
    uint64_t flushes = FLUSHES_UNKNOWN;
    int done = ten_redis_link_send(source->thread.link, 2, words, (const size_t[]){4, 12}, error);
    if (done == TENURE_OK)
        done =
            ten_redis_link_receive(source->thread.link, ten_redis_thread_deadline_ms(&source->thread), &reply, error);
    if (done < 0)
        return done;
    if (reply->type == REDIS_REPLY_STRING)
        flushes = calls_of(reply->str, "cmdstat_flushall:calls=") + calls_of(reply->str, "cmdstat_flushdb:calls=");
    if (flushes != source->flushes && source->flushes != FLUSHES_UNKNOWN)
        ten_target_list_doubt(&source->list, now_ms());
    source->flushes = flushes;
    freeReplyObject(reply);
    return TENURE_OK;
}

static bool tell_gone(const char *id, void *userdata) {
    return leave_news(userdata, &(ten_source_news){.kind = TEN_SOURCE_GONE}, id, NULL);
}

/* *ret_steps 0: it was told to stop in the middle. */
static int run_pass(ten_target_redis *source, unsigned *ret_steps, ten_error *error) {
    char cursor[24] = "0";
    unsigned steps = 0;
    ten_target_list_begin(&source->list);
    source->id_count = 0;
    source->bad_told = 0;
    source->bad_untold = 0;
    int done = look_for_flush(source, error);
    while (done == TENURE_OK) {
        uint64_t start_ms = now_ms();
        done = step(source, cursor, error);
        steps++;
        if (done < 0 || strcmp(cursor, "0") == 0)
            break;
        uint64_t rest_ms = ten_min_u64(ten_max_u64(STEP_MS, (now_ms() - start_ms) * STEP_REST), STEP_MAX_MS);
        ten_redis_thread_pause(&source->thread, start_ms + rest_ms);
        if (ten_redis_thread_is_stopping(&source->thread))
            return TENURE_OK;
    }
    tell_rest(source);
    if (done < 0)
        return done;
    ten_target_list_end(&source->list, now_ms(), tell_gone, source);
    *ret_steps = steps;
    return TENURE_OK;
}

/* ---- the thread */

static int connect_source(ten_target_redis *source, ten_error *error) {
    int done = ten_redis_thread_connect(&source->thread, error);
    if (done < 0)
        return done;
    const ten_redis_server *server = ten_redis_link_server(source->thread.link);
    if (server->is_cluster && !source->set)
        return ten_fail(
            error, TENURE_E_UNSUPPORTED,
            "the keys of a Redis Cluster are on many servers, and redis-keys: looks at one: use redis-set:");
    if (strcmp(source->run_id, server->run_id) == 0)
        return TENURE_OK;
    if (source->run_id[0] != '\0')
        ten_target_list_doubt(&source->list, now_ms());
    snprintf(source->run_id, sizeof source->run_id, "%s", server->run_id);
    source->flushes = FLUSHES_UNKNOWN; /* it counts from its start */
    return TENURE_OK;
}

static void tell_state(ten_target_redis *source, int done, const ten_error *error) {
    int problem = done == TENURE_E_TIMEOUT ? TENURE_E_UNREACHABLE : done; /* a server that goes away is both in turn */
    if (problem == source->problem)
        return;
    source->problem = problem;
    if (problem < 0)
        (void)leave_news(source, &(ten_source_news){.kind = TEN_SOURCE_FAILED}, NULL, error->message);
    else
        (void)leave_news(source, &(ten_source_news){.kind = TEN_SOURCE_OK, .count = source->list.targets.count}, NULL,
                         NULL);
}

static void *run(void *arg) {
    ten_target_redis *source = arg;
    ten_redis_thread *thread = &source->thread;
    while (!ten_redis_thread_is_stopping(thread)) {
        ten_error error;
        unsigned steps = 0;
        uint64_t start_ms = now_ms();
        int done = connect_source(source, &error);
        if (done == TENURE_OK)
            done = run_pass(source, &steps, &error);
        if (ten_redis_thread_is_stopping(thread))
            break;
        tell_state(source, done, &error);
        if (done < 0) {
            ten_redis_thread_back_off(thread);
            continue;
        }
        thread->failures = 0;
        uint64_t pass_ms = steps == 1 ? SHORT_PASS_MS : PASS_MS;
        ten_redis_thread_pause(thread, start_ms + pass_ms - ten_random_u64() % (pass_ms / 10));
    }
    ten_redis_thread_end(thread);
    return NULL;
}

/* ---- the handle */

static void free_source(ten_redis_thread *thread) {
    ten_target_redis *source = (ten_target_redis *)thread;
    for (ten_source_news *news; (news = take_first(source));)
        free_news(news);
    ten_target_list_free(&source->list);
    ten_close_fd(&source->news_fd);
    ten_free(source->set);
    ten_free(source->prefix);
    ten_free(source->pattern);
    ten_redis_thread_close(thread);
    ten_free(source);
}

/* The prefix, with what SCAN's MATCH would take for more than itself made plain. */
static char *make_pattern(const char *prefix) {
    ten_buf pattern = {0};
    for (; *prefix; prefix++) {
        if (strchr("*?[]\\", *prefix))
            ten_buf_char(&pattern, '\\');
        ten_buf_char(&pattern, *prefix);
    }
    ten_buf_char(&pattern, '*');
    if (pattern.failed)
        ten_buf_free(&pattern);
    return pattern.data;
}

static int parse(ten_target_redis *source, const char *text, ten_error *error) {
    bool keys = strncmp(text, "redis-keys:", 11) == 0;
    const char *rest = strchr(text, ':') + 1;
    const char *comma = keys ? NULL : strchr(rest, ',');
    if (rest[0] == '\0' || rest == comma)
        return ten_fail(error, TENURE_E_INVALID, "%s: write redis-keys:PREFIX, redis-set:KEY or redis-set:KEY,PREFIX",
                        text);
    if (keys) {
        source->prefix = ten_strdup(rest);
        source->pattern = make_pattern(rest);
        return source->prefix && source->pattern ? TENURE_OK : no_memory(error);
    }
    source->set = ten_strdup(rest);
    if (source->set && comma) {
        source->set[comma - rest] = '\0';
        source->prefix = ten_strdup(comma + 1);
    }
    return source->set && (source->prefix || !comma) ? TENURE_OK : no_memory(error);
}

static int make(const ten_agent_config *config, ten_target_redis **ret_source, ten_error *error) {
    ten_target_redis *source = ten_calloc(1, sizeof *source);
    if (!source)
        return no_memory(error);
    source->list.ttl_ms = config->manager.ttl_ms;
    source->flushes = FLUSHES_UNKNOWN;
    source->last_news = &source->first_news;
    source->news_fd = -1;
    int done = ten_redis_thread_open(&source->thread, config, config->targets, error);
    if (done == TENURE_OK)
        done = parse(source, config->targets, error);
    if (done < 0)
        free_source(&source->thread);
    else
        *ret_source = source;
    return done;
}

int ten_target_redis_check(const ten_agent_config *config, ten_error *error) {
    ten_target_redis *source = NULL;
    int done = make(config, &source, error);
    if (done == TENURE_OK)
        free_source(&source->thread);
    return done;
}

int ten_target_redis_open(const ten_agent_config *config, ten_target_redis **ret_source, ten_error *error) {
    ten_target_redis *source = NULL;
    int done = make(config, &source, error);
    if (done < 0)
        return done;
    source->news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    done = source->news_fd < 0 ? ten_fail_errno(error, TENURE_E_SYSTEM, errno, "cannot read %s", config->targets)
                               : ten_redis_thread_start(&source->thread, run, free_source, error);
    if (done < 0)
        free_source(&source->thread);
    else
        *ret_source = source;
    return done;
}

void ten_target_redis_close(ten_target_redis *source) {
    if (!source)
        return;
    ten_redis_thread_stop(&source->thread, 0);
    ten_redis_thread_let_go(&source->thread);
}

int ten_target_redis_fd(const ten_target_redis *source) {
    return source->news_fd;
}
