/*
 * The rules for names, and the making of instance ids. Called at every door through which a name comes in.
 */
#include "base/id.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/random.h"
#include "base/utf8.h"

#define INSTANCE_NAME_MAX 64u /* what Linux allows for a host's name */

/* A hostile value must not write into the terminal that shows the message. */
static const char *shown(const char *value, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (const unsigned char *at = (const unsigned char *)value; *at; at++) {
        if (used + 8 > size) {
            snprintf(text + used, size - used, "...");
            break;
        }
        if (*at < 0x20 || *at >= 0x7f)
            used += (size_t)snprintf(text + used, size - used, "\\x%02x", *at);
        else
            text[used++] = (char)*at;
        text[used] = '\0';
    }
    return text;
}

static int refuse(ten_error *error, const char *what, const char *value, const char *rule) {
    char text[80];
    return ten_fail(error, TENURE_E_INVALID, "%s '%s' is not valid: %s", what, shown(value, text, sizeof text), rule);
}

static bool is_word(char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool made_of(const char *text, const char *also) {
    for (; *text; text++)
        if (!is_word(*text) && !strchr(also, *text))
            return false;
    return true;
}

int ten_id_check_namespace(const char *name, ten_error *error) {
    size_t size = strlen(name);
    if (size == 0 || size > TENURE_NAMESPACE_MAX)
        return refuse(error, "namespace", name, "it has 1 to 63 bytes");
    if (!made_of(name, "._-"))
        return refuse(error, "namespace", name, "it is made of A-Z a-z 0-9 . _ -");
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) /* programs that normalize URLs would change the path */
        return refuse(error, "namespace", name, "it is not . or ..");
    if (strcmp(name, "tenure") == 0)
        return refuse(error, "namespace", name, "this name is kept for Tenure itself");
    return TENURE_OK;
}

/* Empty, `.` and `..` segments would be paths somewhere else once an id becomes part of a URL or a file name. */
static bool segments_are_plain(const char *id) {
    for (;;) {
        size_t size = strcspn(id, "/");
        if (size == 0 || (size == 1 && id[0] == '.') || (size == 2 && id[0] == '.' && id[1] == '.'))
            return false;
        if (id[size] == '\0')
            return true;
        id += size + 1;
    }
}

static int check_target(const char *what, const char *id, ten_error *error) {
    size_t size = strlen(id);
    if (size == 0 || size > TENURE_TARGET_MAX)
        return refuse(error, what, id, "it has 1 to 255 bytes");
    if (!made_of(id, "._~:@+-/"))
        return refuse(error, what, id, "it is made of A-Z a-z 0-9 . _ ~ : @ + - /");
    if (!segments_are_plain(id))
        return refuse(error, what, id, "no part between slashes may be empty, '.' or '..'");
    return TENURE_OK;
}

int ten_id_check_target(const char *id, ten_error *error) {
    return check_target("target", id, error);
}

int ten_id_check_role(const char *role, ten_error *error) {
    return check_target("role", role, error);
}

int ten_id_check_holder(const char *id, ten_error *error) {
    size_t size = strlen(id);
    if (size == 0 || size > TENURE_HOLDER_MAX)
        return refuse(error, "holder", id, "it has 1 to 255 bytes");
    if (!ten_utf8_is_printable(id, size))
        return refuse(error, "holder", id, "it is UTF-8 without control characters");
    return TENURE_OK;
}

int ten_id_check_instance_name(const char *name, ten_error *error) {
    size_t size = strlen(name);
    if (size == 0 || size > INSTANCE_NAME_MAX)
        return refuse(error, "instance name", name, "it has 1 to 64 bytes");
    if (!made_of(name, "._-"))
        return refuse(error, "instance name", name, "it is made of A-Z a-z 0-9 . _ -");
    return TENURE_OK;
}

int ten_id_parse_token(const char *text, uint64_t *ret_token, ten_error *error) {
    uint64_t token = 0;
    size_t size = strlen(text);
    bool fits = size > 0 && size <= 16;
    for (const char *at = text; fits && *at; at++) {
        fits = *at >= '0' && *at <= '9';
        token = token * 10 + (uint64_t)(*at - '0');
    }
    if (!fits || token == 0 || token > TENURE_TOKEN_MAX)
        return refuse(error, "token", text, "it is a whole number from 1 to 9007199254740991");
    *ret_token = token;
    return TENURE_OK;
}

/* The host's name with whatever is not allowed in an instance name replaced: a strange host must still be able to
 * start. */
static void host_name(char name[INSTANCE_NAME_MAX + 1]) {
    if (gethostname(name, INSTANCE_NAME_MAX + 1) != 0)
        name[0] = '\0';
    name[INSTANCE_NAME_MAX] = '\0';
    for (char *at = name; *at; at++)
        if (!is_word(*at) && !strchr("._-", *at))
            *at = '_';
    if (name[0] == '\0')
        snprintf(name, INSTANCE_NAME_MAX + 1, "host");
}

int ten_id_make_instance(const char *name, char id[TENURE_HOLDER_MAX + 1], ten_error *error) {
    char host[INSTANCE_NAME_MAX + 1];
    if (name) {
        int checked = ten_id_check_instance_name(name, error);
        if (checked < 0)
            return checked;
    } else {
        host_name(host);
        name = host;
    }
    struct timespec now;
    TEN_INVARIANT(clock_gettime(CLOCK_REALTIME, &now) == 0);
    unsigned long long nanoseconds = (unsigned long long)now.tv_sec * 1000000000u + (unsigned long long)now.tv_nsec;
    snprintf(id, TENURE_HOLDER_MAX + 1, "%.64s-%llu-%08x", name, nanoseconds, (unsigned)ten_random_u64());
    return TENURE_OK;
}

/* The parts of an instance id; false: it is no such id. */
static bool split_instance(const char *id, size_t *ret_name, const char **ret_hex) {
    const char *hex = strrchr(id, '-');
    if (!hex || strlen(hex + 1) != 8 || strspn(hex + 1, "0123456789abcdef") != 8)
        return false;
    const char *start = hex;
    while (start > id && start[-1] >= '0' && start[-1] <= '9')
        start--;
    size_t digits = (size_t)(hex - start);
    if (digits < 16 || digits > 20 || start - id < 2 || start[-1] != '-')
        return false;
    *ret_name = (size_t)(start - 1 - id);
    *ret_hex = hex + 1;
    return true;
}

void ten_id_shorten(const char *id, char text[TENURE_HOLDER_MAX + 1]) {
    size_t name;
    const char *hex;
    if (split_instance(id, &name, &hex))
        snprintf(text, TENURE_HOLDER_MAX + 1, "%.*s %.4s", (int)name, id, hex);
    else
        snprintf(text, TENURE_HOLDER_MAX + 1, "%s", id);
}
