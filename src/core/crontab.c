/*
 * Lines of crontabs. See crontab.h.
 */
#include "core/crontab.h"

#include <string.h>

#include "base/duration.h"
#include "base/id.h"
#include "base/utf8.h"
#include "base/util.h"

struct place {
    const char *start;
    ten_cron_mistake *mistake;
};

#define wrong(place, at, ...) ten_cron_fail((place)->mistake, (place)->start, (at), __VA_ARGS__)

static const char *skip_blanks(const char *at) {
    return at + strspn(at, " \t");
}

/* ---- the keys */

static bool is_zone_name(const char *text) {
    return text[0] != '/' && !strstr(text, "..") &&
           strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-/") == strlen(text);
}

static bool take_duration(const struct place *place, const char *at, const char *value, uint64_t *ret_ms) {
    ten_error error;
    if (ten_duration_parse(value, ret_ms, &error) < 0)
        return wrong(place, at, "%.110s", error.message);
    return *ret_ms <= TENURE_TTL_MAX_MS || wrong(place, at, "a duration is at most 366d");
}

static bool take_choice(const struct place *place, const char *at, const char *value, const char *const *words,
                        int *ret_choice) {
    for (int i = 0; words[i]; i++) {
        if (strcmp(value, words[i]) == 0) {
            *ret_choice = i;
            return true;
        }
    }
    return wrong(place, at, "'%.20s' is not one of %s, %s%s%s", value, words[0], words[1], words[2] ? ", " : "",
                 words[2] ? words[2] : "");
}

static bool take_key(const struct place *place, const char *at, const char *key, const char *value,
                     ten_crontab_line *line) {
    static const char *const missed[] = {"latest", "skip", "all", NULL};
    static const char *const overlap[] = {"skip", "wait", NULL};
    int choice = 0;
    const char *behind = at + strlen(key) + 1;
    if (strcmp(key, "tz") == 0) {
        if (!value[0] || strlen(value) > TEN_CRON_ZONE_MAX || !is_zone_name(value))
            return wrong(place, behind, "'%.40s' is no name of a time zone, such as Europe/Berlin", value);
        snprintf(line->zone, sizeof line->zone, "%s", value);
        line->zone_at = (size_t)(behind - place->start);
        return true;
    }
    if (strcmp(key, "missed") == 0) {
        bool good = take_choice(place, behind, value, missed, &choice);
        line->policy.missed = (enum ten_cron_missed)choice;
        return good;
    }
    if (strcmp(key, "overlap") == 0) {
        bool good = take_choice(place, behind, value, overlap, &choice);
        line->policy.overlap = (enum ten_cron_overlap)choice;
        return good;
    }
    if (strcmp(key, "max-late") == 0) /* no command starts at the very instant */
        return take_duration(place, behind, value, &line->policy.max_late_ms) &&
               (line->policy.max_late_ms >= 1000 || wrong(place, behind, "max-late is at least 1s"));
    if (strcmp(key, "jitter") == 0)
        return take_duration(place, behind, value, &line->policy.jitter_ms);
    if (strcmp(key, "timeout") == 0)
        return take_duration(place, behind, value, &line->policy.timeout_ms);
    return wrong(place, at, "there is no key '%.30s': tz, missed, max-late, overlap, jitter or timeout", key);
}

/* Whether a key is in the words between the two. */
static bool was_given(const char *from, const char *until, const char *key) {
    size_t size = strlen(key);
    for (const char *at = from; (at = strstr(at, key)) && at < until; at++)
        if ((at == from || at[-1] == ' ' || at[-1] == '\t') && at[size] == '=')
            return true;
    return false;
}

/* Words with a `=` that begin with a letter, up to the schedule. */
static bool take_keys(const struct place *place, const char **at, ten_crontab_line *line) {
    for (const char *first = *at;;) {
        char word[160];
        *at = skip_blanks(*at);
        size_t size = strcspn(*at, " \t");
        if (!((**at | 0x20) >= 'a' && (**at | 0x20) <= 'z'))
            return true;
        if (size >= sizeof word)
            return wrong(place, *at, "this word is too long for a key with its value");
        memcpy(word, *at, size);
        word[size] = '\0';
        char *equals = strchr(word, '=');
        if (!equals)
            return wrong(place, *at, "'%.40s' is neither a key=value nor a schedule", word);
        *equals = '\0';
        if (was_given(first, *at, word))
            return wrong(place, *at, "%.30s is given twice", word);
        if (!take_key(place, *at, word, equals + 1, line))
            return false;
        *at += size;
    }
}

/* ---- the line */

static bool take_name(const struct place *place, const char **at, ten_crontab_line *line) {
    ten_error error;
    size_t size = strcspn(*at, " \t");
    if (size > TENURE_TARGET_MAX)
        return wrong(place, *at, "the name of a job has at most %u bytes", TENURE_TARGET_MAX);
    memcpy(line->name, *at, size);
    line->name[size] = '\0';
    if (line->name[0] == '*' || line->name[0] == '@')
        return wrong(place, *at, "a line begins with the name of the job: NAME [key=value...] SCHEDULE COMMAND");
    if (ten_id_check_target(line->name, &error) < 0)
        return wrong(place, *at, "the name of the job: %.100s", error.message);
    *at += size;
    return true;
}

bool ten_crontab_parse(const char *text, ten_crontab_line *ret_line, ten_cron_mistake *mistake) {
    struct place place = {text, mistake};
    ten_crontab_line line = {.policy = {.max_late_ms = UINT64_C(3600000)}};
    const char *at = skip_blanks(text);
    size_t size = 0;
    if (!ten_utf8_is_text(text, strlen(text)))
        return wrong(&place, text, "the line is not UTF-8");
    if (!take_name(&place, &at, &line) || !take_keys(&place, &at, &line))
        return false;
    if (!ten_cron_parse(at, &line.schedule, &size, mistake)) {
        mistake->at += (size_t)(at - text);
        return false;
    }
    line.command = skip_blanks(at + size);
    if (line.command[0] == '\0')
        return wrong(&place, line.command, "the command is missing");
    if (line.command[0] == '*' && strchr(" \t/", line.command[1]))
        return wrong(&place, line.command,
                     "the command begins with '*': a schedule has five fields, and none of seconds");
    if (strlen(line.command) > TEN_CRON_COMMAND_MAX)
        return wrong(&place, line.command, "the command has more than %u bytes", TEN_CRON_COMMAND_MAX);
    *ret_line = line;
    return true;
}

/* ---- a user's crontab */

bool ten_crontab_import(const char *line, const char *name, char *text, size_t size, ten_cron_mistake *mistake) {
    struct place place = {line, mistake};
    ten_cron_schedule schedule;
    size_t length = 0;
    const char *at = skip_blanks(line);
    size_t word = strcspn(at, " \t");
    const char *equals = memchr(at, '=', word);
    if (!ten_utf8_is_text(line, strlen(line)))
        return wrong(&place, line, "the line is not UTF-8");
    if (equals && ((*at | 0x20) >= 'a' && (*at | 0x20) <= 'z'))
        return wrong(&place, at, "a variable is not taken over: set it in the command or in the environment");
    if (strncmp(at, "@reboot", 7) == 0)
        return wrong(&place, at, "@reboot is not taken over: a fleet has no start");
    if (!ten_cron_parse(at, &schedule, &length, mistake)) {
        mistake->at += (size_t)(at - line);
        return false;
    }
    const char *command = skip_blanks(at + length);
    if (command[0] == '\0')
        return wrong(&place, command, "the command is missing");
    for (const char *c = command; *c; c++)
        if (*c == '%' && (c == command || c[-1] != '\\'))
            return wrong(&place, c, "a %% ends the command in a user's crontab: write \\%% or use printf");
    int made = snprintf(text, size, "%s %.*s ", name, (int)length, at);
    for (const char *c = command; *c && (size_t)made + 2 < size; c++)
        if (!(c[0] == '\\' && c[1] == '%'))
            text[made++] = *c;
    text[made] = '\0';
    return true;
}
