/*
 * Store URLs: `scheme:rest?key=value`, with or without an authority. Parsed and checked in this one place; printed
 * without their passwords.
 */
#ifndef TEN_BASE_URL_H
#define TEN_BASE_URL_H

#include <stddef.h>

#include "base/error.h"

#define TEN_URL_OPTIONS_MAX 16u

typedef struct ten_url {
    char *scheme;   /* lower case */
    char *user;     /* NULL: none */
    char *password; /* NULL: none */
    char *hosts;    /* the authority without user and password, as written ("h1:1,h2:2"); NULL: no authority */
    char *path;     /* percent-decoded; "" when there is none */
    struct {
        char *key;
        char *value;
    } options[TEN_URL_OPTIONS_MAX]; /* percent-decoded */
    size_t option_count;
} ten_url;

/* Parses into *url, which is to be freed with ten_url_free(). TENURE_E_INVALID names the (redacted) URL and the rule.
 */
int ten_url_parse(const char *text, ten_url *url, ten_error *error);
void ten_url_free(ten_url *url);

/* The value of an option, or NULL. */
const char *ten_url_option(const ten_url *url, const char *key);
/* TENURE_E_INVALID when an option is not in the NULL-terminated list, with what was perhaps meant. */
int ten_url_check_options(const ten_url *url, const char *const *known, ten_error *error);

/* The URL for people: the password, and every option whose name ends in password, token or _url, replaced by ***. */
void ten_url_redact(const char *text, char *shown, size_t size);

#endif
