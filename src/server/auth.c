/*
 * The auth file. Called by request.c for each request, and by server.c at the start and at SIGHUP.
 */
#include "server/auth.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/utf8.h"

#define FILE_MAX ((size_t)1024 * 1024)

static bool parse_hash(const char *text, unsigned char hash[TEN_TOKEN_HASH_SIZE]) {
    if (strlen(text) != 2 * (size_t)TEN_TOKEN_HASH_SIZE || strspn(text, "0123456789abcdefABCDEF") != strlen(text))
        return false;
    for (size_t i = 0; i < TEN_TOKEN_HASH_SIZE; i++) {
        char pair[3] = {text[2 * i], text[2 * i + 1], '\0'};
        hash[i] = (unsigned char)strtoul(pair, NULL, 16);
    }
    return true;
}

static const char *const roles[] = {
    [TEN_ROLE_NONE] = "none", [TEN_ROLE_READ] = "read", [TEN_ROLE_HOLD] = "hold", [TEN_ROLE_ADMIN] = "admin"};

const char *ten_auth_role_name(enum ten_role role) {
    return roles[role];
}

static enum ten_role parse_role(const char *word) {
    for (size_t i = TEN_ROLE_READ; i < TEN_COUNT(roles); i++)
        if (strcmp(word, roles[i]) == 0)
            return (enum ten_role)i;
    return TEN_ROLE_NONE;
}

static int parse_line(char *line, size_t number, ten_principal *principal, ten_error *error) {
    char *words[6] = {0};
    size_t count = 0;
    char *rest = NULL;
    for (char *word = strtok_r(line, " \t\r", &rest); word && count < TEN_COUNT(words);
         word = strtok_r(NULL, " \t\r", &rest))
        words[count++] = word;
    if (count != 5)
        return ten_fail(error, TENURE_E_INVALID,
                        "line %zu: a line must have five words: NAME ROLE NS-GLOB HOLDER-GLOB SHA256HEX", number);
    if (strlen(words[0]) >= sizeof principal->name || strlen(words[2]) >= sizeof principal->namespaces ||
        strlen(words[3]) >= sizeof principal->holders)
        return ten_fail(error, TENURE_E_INVALID, "line %zu: a word is too long", number);
    if (!ten_utf8_is_printable(words[0], strlen(words[0])))
        return ten_fail(error, TENURE_E_INVALID, "line %zu: a name must be UTF-8 without control characters", number);
    principal->role = parse_role(words[1]);
    if (principal->role == TEN_ROLE_NONE)
        return ten_fail(error, TENURE_E_INVALID, "line %zu: a role is read, hold or admin, not '%.40s'", number,
                        words[1]);
    if (!parse_hash(words[4], principal->hash))
        return ten_fail(
            error, TENURE_E_INVALID,
            "line %zu: the last word is the SHA-256 of the token, 64 hexadecimal digits (printf %%s TOKEN | "
            "sha256sum | cut -d' ' -f1)",
            number);
    unsigned char nothing[TEN_TOKEN_HASH_SIZE];
    SHA256((const unsigned char *)"", 0, nothing);
    if (memcmp(nothing, principal->hash, sizeof nothing) == 0)
        return ten_fail(error, TENURE_E_INVALID,
                        "line %zu: this is the SHA-256 of an empty token; was the variable with the token set?",
                        number);
    principal->line = number;
    snprintf(principal->name, sizeof principal->name, "%s", words[0]);
    snprintf(principal->namespaces, sizeof principal->namespaces, "%s", words[2]);
    snprintf(principal->holders, sizeof principal->holders, "%s", words[3]);
    return TENURE_OK;
}

/* Two principals with one token: a request names neither. */
static int check_last(const ten_auth *auth, ten_error *error) {
    const ten_principal *last = &auth->principals[auth->count - 1];
    for (const ten_principal *other = auth->principals; other < last; other++)
        if (memcmp(other->hash, last->hash, sizeof last->hash) == 0)
            return ten_fail(
                error, TENURE_E_INVALID,
                "line %zu: the token is that of line %zu; give each line a token of its own, or remove one of them",
                last->line, other->line);
    return TENURE_OK;
}

int ten_auth_parse(const char *text, ten_auth *auth, ten_error *error) {
    ten_auth parsed = {0};
    TEN_CLEANUP(ten_free_string) char *copy = ten_strdup(text);
    size_t lines = 1;
    for (const char *at = text; (at = strchr(at, '\n')); at++)
        lines++;
    parsed.principals = ten_calloc(lines, sizeof *parsed.principals);
    int r = copy && parsed.principals ? TENURE_OK : ten_fail_memory(error, "the auth file");
    size_t number = 1;
    for (char *line = copy; r == TENURE_OK && line; number++) {
        char *end = strchr(line, '\n');
        if (end)
            *end++ = '\0';
        size_t blank = strspn(line, " \t\r");
        if (line[blank] != '\0' && line[blank] != '#') {
            r = parse_line(line, number, &parsed.principals[parsed.count++], error);
            r = r == TENURE_OK ? check_last(&parsed, error) : r;
        }
        line = end;
    }
    /* No client could do anything. A reader finds such a file while another program writes it anew. */
    if (r == TENURE_OK && parsed.count == 0)
        r = ten_fail(error, TENURE_E_INVALID,
                     "it names no principal; add a line NAME ROLE NS-GLOB HOLDER-GLOB SHA256HEX");
    if (r < 0) {
        ten_auth_free(&parsed);
        return r;
    }
    *auth = parsed;
    return TENURE_OK;
}

int ten_auth_read(const char *path, ten_auth *auth, ten_error *error) {
    struct stat about;
    TEN_CLEANUP(ten_close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &about) != 0)
        return ten_fail_errno(error, TENURE_E_INVALID, errno, "cannot read the auth file %s", path);
    if (about.st_mode & (S_IWOTH | S_IWGRP))
        return ten_fail(error, TENURE_E_INVALID, "the auth file %s can be written by %s: chmod g-w,o-w %s", path,
                        about.st_mode & S_IWOTH ? "everybody" : "its group", path);
    TEN_CLEANUP(ten_free_string) char *text = ten_malloc(FILE_MAX + 1);
    ssize_t size = text ? ten_pread_all(fd, text, FILE_MAX, 0) : -ENOMEM;
    if (size < 0 || (size_t)size == FILE_MAX)
        return ten_fail(error, TENURE_E_INVALID, "cannot read the auth file %s: %s", path,
                        size < 0 ? strerrordesc_np((int)-size) : "it is over 1 MiB");
    text[size] = '\0';
    if (strlen(text) != (size_t)size)
        return ten_fail(error, TENURE_E_INVALID, "the auth file %s has a NUL in it: is it a text file?", path);
    ten_error inner;
    int r = ten_auth_parse(text, auth, &inner);
    return r < 0 ? ten_fail(error, r, "the auth file %s: %s", path, inner.message) : r;
}

void ten_auth_free(ten_auth *auth) {
    ten_free(auth->principals);
    *auth = (ten_auth){0};
}

/* All of them are compared, so that the time says nothing. */
const ten_principal *ten_auth_find(const ten_auth *auth, const char *token) {
    unsigned char hash[TEN_TOKEN_HASH_SIZE];
    const ten_principal *found = NULL;
    SHA256((const unsigned char *)token, strlen(token), hash);
    for (size_t i = 0; i < auth->count; i++)
        if (CRYPTO_memcmp(hash, auth->principals[i].hash, sizeof hash) == 0)
            found = &auth->principals[i];
    return found;
}

bool ten_principal_may(const ten_principal *principal, enum ten_role role, const char *namespace_name) {
    return principal->role >= role && fnmatch(principal->namespaces, namespace_name, 0) == 0;
}

bool ten_auth_still_may(const ten_auth *auth, const ten_principal *principal, enum ten_role role,
                        const char *namespace_name) {
    for (size_t i = 0; i < auth->count; i++) {
        const ten_principal *now = &auth->principals[i];
        if (strcmp(now->name, principal->name) == 0 && memcmp(now->hash, principal->hash, sizeof now->hash) == 0)
            return ten_principal_may(now, role, namespace_name);
    }
    return false;
}

bool ten_principal_owns(const ten_principal *principal, const char *holder) {
    return fnmatch(principal->holders, holder, 0) == 0;
}
