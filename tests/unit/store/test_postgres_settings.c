/*
 * The URLs of PostgreSQL stores: what libpq is given, what is ours alone, what is refused with the reason, and that no
 * message shows a password.
 */
#include "unit/unit.h"

#include "base/alloc.h"
#include "store/postgres/postgres_link.h"

static int make(const char *text, ten_postgres_settings **settings, ten_error *error) {
    ten_url url;
    int r = ten_url_parse(text, &url, error);
    if (r == TENURE_OK) {
        r = ten_postgres_settings_make(&url, settings, error);
        ten_url_free(&url);
    }
    return r;
}

static ten_postgres_settings *must_make(const char *text) {
    ten_postgres_settings *settings = NULL;
    ten_error error = {0};
    if (make(text, &settings, &error) != TENURE_OK)
        fail_msg("'%s' was refused: %s", text, error.message);
    return settings;
}

static void assert_refused(const char *text, const char *reason) {
    ten_postgres_settings *settings = NULL;
    ten_error error = {0};
    int r = make(text, &settings, &error);
    if (r != TENURE_E_INVALID)
        fail_msg("'%s' gave %s", text, tenure_error_name(r));
    assert_null(settings);
    assert_contains(error.message, reason);
    assert_null(strstr(error.message, "secret"));
}

/* The last value counts, as it does for libpq. */
static const char *parameter(const ten_postgres_settings *settings, const ten_postgres_place *place,
                             const char *keyword) {
    const char *keywords[TEN_POSTGRES_KEYWORDS_MAX];
    const char *values[TEN_POSTGRES_KEYWORDS_MAX];
    const char *found = NULL;
    ten_postgres_parameters(settings, place, NULL, keywords, values);
    for (size_t i = 0; keywords[i]; i++)
        if (strcmp(keywords[i], keyword) == 0)
            found = values[i];
    return found;
}

static void assert_parameter(const char *text, const char *keyword, const char *expected) {
    ten_postgres_settings *settings = must_make(text);
    ten_postgres_place place = {0};
    const char *value = parameter(settings, &place, keyword);
    if (expected)
        assert_string_equal(value, expected);
    else
        assert_null(value);
    ten_postgres_settings_free(settings);
}

TEST(a_url_is_libpqs_own_with_its_names_and_its_escapes) {
    assert_parameter("postgres://db.example/jobs", "host", "db.example");
    assert_parameter("postgresql://db.example:5433/jobs", "port", "5433");
    assert_parameter("postgres://me@db.example/jobs", "user", "me");
    assert_parameter("postgres://me:s%2Fe%40%25@db.example/jobs", "password", "s/e@%");
    assert_parameter("postgres://db.example/a%2Fb", "dbname", "a/b");
    assert_parameter("postgres://%2Frun%2Fpostgresql/jobs", "host", "/run/postgresql");
    assert_parameter("postgres:///jobs?host=/run/postgresql", "host", "/run/postgresql");
    assert_parameter("postgres://[::1]:7/jobs", "host", "::1");
    assert_parameter("postgres:///jobs?sslmode=verify-full", "sslmode", "verify-full");
    assert_parameter("postgres:///?service=jobs", "service", "jobs");
}

TEST(what_a_url_does_not_say_has_a_safe_value) {
    assert_parameter("postgres://h/d", "target_session_attrs", "read-write");
    assert_parameter("postgres://h/d?target_session_attrs=any", "target_session_attrs", "any");
    assert_parameter("postgres://h/d", "client_encoding", "UTF8");
    assert_parameter("postgres://h/d?client_encoding=LATIN1", "client_encoding", "UTF8");
    assert_parameter("postgres://h/d?ca_file=/dev/null", "sslrootcert", "/dev/null");
    assert_parameter("postgres://h/d?ca_file=/dev/null", "sslmode", "verify-full");
    assert_parameter("postgres://h/d?ca_file=/dev/null&sslmode=verify-ca", "sslmode", "verify-ca");
}

static void assert_sslmode(const char *text, const char *expected) {
    ten_postgres_settings *settings = must_make(text);
    ten_postgres_place places[TEN_POSTGRES_PLACES_MAX];
    size_t count = 0;
    ten_error error;
    assert_int_equal(ten_postgres_places(settings, UINT64_MAX, places, &count, &error), TENURE_OK);
    const char *value = parameter(settings, &places[count - 1], "sslmode");
    if (!value || !expected)
        assert_ptr_equal(value, expected);
    else
        assert_string_equal(value, expected);
    ten_postgres_settings_free(settings);
}

TEST(a_server_on_another_host_has_to_prove_who_it_is_unless_somebody_says_otherwise) {
    assert_int_equal(unsetenv("PGSSLMODE"), 0);
    assert_sslmode("postgres://192.0.2.1/d", "verify-full");
    assert_sslmode("postgres://[2001:db8::1]/d", "verify-full");
    assert_sslmode("postgres://127.0.0.1,192.0.2.1/d", "verify-full");
    assert_sslmode("postgres:///d?hostaddr=192.0.2.1", "verify-full");
    assert_sslmode("postgres://db.example/d?hostaddr=192.0.2.1", "verify-full");
    assert_sslmode("postgres://192.0.2.1/d?sslmode=require", "require");
    assert_sslmode("postgres://192.0.2.1/d?sslmode=disable", "disable");
    assert_sslmode("postgres://192.0.2.1/d?ca_file=/dev/null&sslmode=verify-ca", "verify-ca");
    assert_sslmode("postgres://192.0.2.1/d?service=jobs", NULL);
    /* This host. */
    assert_sslmode("postgres://127.0.0.1/d", NULL);
    assert_sslmode("postgres://127.1.2.3/d", NULL);
    assert_sslmode("postgres://192.0.2.1,127.0.0.1/d", NULL);
    assert_sslmode("postgres://[::1]/d", NULL);
    assert_sslmode("postgres://[::ffff:127.0.0.1]/d", NULL);
    assert_sslmode("postgres:///d?hostaddr=127.0.0.1", NULL);
    assert_sslmode("postgres:///d?host=/run/postgresql", NULL);
    assert_sslmode("postgres:///d", NULL);
    /* The environment. */
    assert_int_equal(setenv("PGHOST", "db.example", 1), 0);
    assert_sslmode("postgres:///d", "verify-full");
    assert_int_equal(setenv("PGSSLMODE", "prefer", 1), 0);
    assert_sslmode("postgres:///d", NULL);
    assert_sslmode("postgres://192.0.2.1/d", NULL);
    assert_int_equal(unsetenv("PGSSLMODE"), 0);
    assert_int_equal(setenv("PGHOST", "/run/postgresql", 1), 0);
    assert_sslmode("postgres:///d", NULL);
    assert_int_equal(unsetenv("PGHOST"), 0);
}

TEST(our_own_options_are_not_libpqs) {
    const char *text = "postgres://h/d?timeout=1s&listen_url=postgres%3A%2F%2Fh%2Fd&password_file=/dev/null";
    assert_parameter(text, "timeout", NULL);
    assert_parameter(text, "listen_url", NULL);
    assert_parameter(text, "password_file", NULL);
    assert_refused("postgres://h/d?tiemout=1s", "tiemout");
    assert_refused("postgres://h/d?password_file=/nonexistent", "password_file=/nonexistent");
    assert_refused("postgres://u:secret@h/d?password_file=/dev/null", "one of them");
}

TEST(several_hosts_are_several_places) {
    ten_postgres_settings *settings = must_make("postgres://u:secret@127.0.0.1:1,[::1]:2,%2Frun/jobs");
    ten_postgres_place places[TEN_POSTGRES_PLACES_MAX];
    size_t count = 0;
    ten_error error;
    assert_int_equal(ten_postgres_places(settings, UINT64_MAX, places, &count, &error), TENURE_OK);
    assert_int_equal(count, 3);
    assert_string_equal(places[0].address, "127.0.0.1");
    assert_string_equal(places[0].port, "1");
    assert_string_equal(places[1].address, "::1");
    assert_string_equal(places[1].port, "2");
    assert_string_equal(places[2].host, "/run");
    assert_string_equal(places[2].address, "");
    assert_string_equal(parameter(settings, &places[1], "host"), "::1");
    assert_string_equal(parameter(settings, &places[1], "hostaddr"), "::1");
    assert_null(strstr(settings->name, "secret"));
    ten_postgres_settings_free(settings);
}

TEST(no_allocation_that_fails_leaves_anything_behind) {
    for (long skip = 0;; skip++) {
        ten_postgres_settings *settings = NULL;
        ten_error error = {0};
        ten_alloc_fail_after(skip);
        int r = make("postgres://u:p@h:1/d?timeout=1s&password_file=/dev/null", &settings, &error);
        bool failed = ten_alloc_has_failed();
        ten_alloc_fail_after(-1);
        if (!failed) {
            ten_postgres_settings_free(settings);
            break;
        }
        assert_true(r == TENURE_E_NOMEM || r == TENURE_E_INVALID);
        assert_null(settings);
    }
}
