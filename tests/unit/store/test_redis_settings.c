/*
 * The URLs of Redis connections: what is understood, what is refused with the reason, and that no message shows a
 * password, not even a part of one that somebody forgot to escape.
 */
#include "unit/unit.h"

#include "base/alloc.h"
#include "store/redis/redis_link_state.h"

static int make(const char *text, ten_redis_settings **settings, ten_error *error) {
    ten_url url;
    int r = ten_url_parse(text, &url, error);
    if (r == TENURE_OK) {
        r = ten_redis_settings_make(&url, settings, error);
        ten_url_free(&url);
    }
    return r;
}

static ten_redis_settings *must_make(const char *text) {
    ten_redis_settings *settings = NULL;
    ten_error error = {0};
    if (make(text, &settings, &error) != TENURE_OK)
        fail_msg("'%s' was refused: %s", text, error.message);
    return settings;
}

static void assert_refused(const char *text, const char *reason) {
    ten_redis_settings *settings = NULL;
    ten_error error = {0};
    int r = make(text, &settings, &error);
    if (r != TENURE_E_INVALID)
        fail_msg("'%s' gave %s", text, tenure_error_name(r));
    assert_null(settings);
    assert_contains(error.message, reason);
}

static void assert_place(const char *text, const char *host, unsigned port, uint64_t database, const char *name) {
    ten_redis_settings *settings = must_make(text);
    assert_int_equal(settings->host_count, 1);
    assert_string_equal(settings->hosts[0].name, host);
    assert_int_equal(settings->hosts[0].port, port);
    assert_int_equal(settings->database, database);
    assert_string_equal(ten_redis_settings_name(settings), name);
    ten_redis_settings_free(settings);
}

TEST(a_host_a_port_and_a_database_have_their_usual_values) {
    assert_place("redis://cache", "cache", 6379, 0, "redis://cache:6379/0");
    assert_place("redis://cache:1/", "cache", 1, 0, "redis://cache:1/0");
    assert_place("redis://cache/3", "cache", 6379, 3, "redis://cache:6379/3");
    assert_place("redis://cache?db=3", "cache", 6379, 3, "redis://cache:6379/3");
    assert_place("redis://cache/3?db=3", "cache", 6379, 3, "redis://cache:6379/3");
    assert_place("rediss://u:p@10.0.0.1:65535/0", "10.0.0.1", 65535, 0, "rediss://10.0.0.1:65535/0");
    assert_place("redis:///2", "127.0.0.1", 6379, 2, "redis://127.0.0.1:6379/2");
    assert_place("redis://:7000", "127.0.0.1", 7000, 0, "redis://127.0.0.1:7000/0");
    assert_place("redis://[::1]", "::1", 6379, 0, "redis://[::1]:6379/0");
    assert_place("redis://[fe80::1]:7/1", "fe80::1", 7, 1, "redis://[fe80::1]:7/1");
}

TEST(a_unix_socket_has_a_path_a_database_and_a_user) {
    ten_redis_settings *settings = must_make("redis+unix://me:pw@/run/re@dis.sock?db=4");
    assert_string_equal(settings->socket_path, "/run/re@dis.sock");
    assert_string_equal(settings->user, "me");
    assert_string_equal(settings->password, "pw");
    assert_int_equal(settings->database, 4);
    assert_false(settings->tls);
    assert_string_equal(ten_redis_settings_name(settings), "redis+unix:///run/re@dis.sock");
    ten_redis_settings_free(settings);
    assert_refused("redis+unix:relative", "redis+unix:///");
    assert_refused("redis+unix://host/path", "redis+unix:///");
    char text[300] = "redis+unix:///";
    memset(text + strlen(text), 'x', 120);
    assert_refused(text, "too long");
}

TEST(sentinels_are_several_hosts_and_the_name_of_a_master) {
    ten_redis_settings *settings = must_make("redis+sentinel://:pw@s1,s2:7,[::1]:8/mymaster/5");
    assert_int_equal(settings->host_count, 3);
    assert_int_equal(settings->hosts[0].port, 26379);
    assert_string_equal(settings->hosts[2].name, "::1");
    assert_int_equal(settings->hosts[2].port, 8);
    assert_string_equal(settings->master, "mymaster");
    assert_int_equal(settings->database, 5);
    assert_null(settings->user);
    assert_string_equal(ten_redis_settings_name(settings), "redis+sentinel://s1:26379,s2:7,[::1]:8/mymaster/5");
    ten_redis_settings_free(settings);
    settings = must_make("redis+sentinel://s1/my?db=2");
    assert_int_equal(settings->database, 2);
    ten_redis_settings_free(settings);
    assert_refused("redis+sentinel://s1", "names the master");
    assert_refused("redis+sentinel://s1/", "names the master");
    assert_refused("redis+sentinel:mymaster", "redis+sentinel://host:26379/mymaster");
    assert_refused("redis+sentinel://s1,,s2/m", "comma");
    assert_refused("redis+sentinel://s1,/m", "comma");
    assert_refused("redis+sentinel://1,2,3,4,5,6,7,8,9/m", "more than 8");
    assert_refused("redis+sentinel://s1/m/x", "'x' is not the number of a database");
}

TEST(mistakes_are_told) {
    assert_refused("redis:host", "redis://host:6379/0");
    assert_refused("redis://a,b", "redis+sentinel://");
    assert_refused("redis://h:0", "a port is a number");
    assert_refused("redis://h:65536", "a port is a number");
    assert_refused("redis://h:99999999999999999999", "a port is a number");
    assert_refused("redis://h:", "a port is a number");
    assert_refused("redis://h:-1", "a port is a number");
    assert_refused("redis://h:port", "a port is a number");
    assert_refused("redis://::1", "[::1]:6379");
    assert_refused("redis://[::1", "[::1]:6379");
    assert_refused("redis://[]:6379", "[::1]:6379");
    assert_refused("redis://[::1]6379", "[::1]:6379");
    assert_refused("redis://h/first", "'first' is not the number of a database");
    assert_refused("redis://h/-1", "'-1' is not the number of a database");
    assert_refused("redis://h/100001", "0 to 100000");
    assert_refused("redis://h?db=x", "'x' is not the number of a database");
    assert_refused("redis://h/1?db=2", "two databases");
    assert_refused("redis://h/0?db=2", "two databases");
    char text[400] = "redis://";
    memset(text + strlen(text), 'x', 256);
    assert_refused(text, "too long");
    memset(text + strlen(text), 'x', 100);
    assert_refused(text, "too long");
}

TEST(users_passwords_and_files_fit_together) {
    char directory[256];
    char file[300];
    char text[1000];
    directory_make(directory);
    snprintf(file, sizeof file, "%s/file", directory);
    fclose(fopen(file, "w"));
    assert_refused("redis://me@h", "no password");
    snprintf(text, sizeof text, "redis://:secret@h?password_file=%s", file);
    assert_refused(text, "one of them");
    snprintf(text, sizeof text, "redis://me@h?password_file=%s", file);
    ten_redis_settings *settings = must_make(text);
    assert_string_equal(settings->user, "me");
    assert_string_equal(settings->files.secret_file, file);
    ten_redis_settings_free(settings);
    snprintf(text, sizeof text, "redis://h?ca_file=%s", file);
    assert_refused(text, "rediss://");
    snprintf(text, sizeof text, "redis+sentinel://h/m?ca_file=%s", file);
    assert_refused(text, "rediss://");
    snprintf(text, sizeof text, "rediss://h?cert_file=%s", file);
    assert_refused(text, "both cert_file and key_file");
    snprintf(text, sizeof text, "rediss://h?ca_file=%s&cert_file=%s&key_file=%s", file, file, file);
    settings = must_make(text);
    assert_true(settings->tls);
    assert_string_equal(settings->files.key_file, file);
    ten_redis_settings_free(settings);
    assert_refused("rediss://h?ca_file=/no/such/file", "ca_file=/no/such/file cannot be read: No such file");
    assert_refused("redis://h?password_file=/no/such/file", "password_file=/no/such/file");
    directory_remove(directory);
}

/* A slash, a question mark or a colon that is not escaped cuts a password into what looks like a host, a port, a path.
 */
TEST(no_part_of_a_password_is_shown) {
    static const char *const urls[] = {
        "redis://me:sec/ret@h",          "redis://:sec/ret@h:1/0",   "redis://me:123/sec@h",   "redis://me:sec@ret/x@h",
        "redis+sentinel://:sec/ret@h/m", "rediss://me:sec/1?db=2@h", "redis://me:sec:ret/1@h",
    };
    for (size_t i = 0; i < TEN_COUNT(urls); i++) {
        ten_redis_settings *settings = NULL;
        ten_error error = {0};
        int r = make(urls[i], &settings, &error);
        if (r == TENURE_OK)
            fail_msg("'%s' was accepted", urls[i]);
        assert_lacks(error.message, "sec");
        assert_lacks(error.message, "ret");
    }
    ten_redis_settings *settings = must_make("redis://me:secret@h");
    assert_lacks(ten_redis_settings_name(settings), "secret");
    assert_lacks(ten_redis_settings_name(settings), "me");
    ten_redis_settings_free(settings);
}

TEST(every_allocation_that_fails_is_told_and_leaves_nothing) {
    char directory[256];
    char file[300];
    char texts[3][1600];
    directory_make(directory);
    snprintf(file, sizeof file, "%s/file", directory);
    fclose(fopen(file, "w"));
    snprintf(texts[0], sizeof texts[0], "rediss://me@h/1?ca_file=%s&cert_file=%s&key_file=%s&password_file=%s", file,
             file, file, file);
    snprintf(texts[1], sizeof texts[1], "redis+sentinel://:pw@a,b/mymaster/3");
    snprintf(texts[2], sizeof texts[2], "redis+unix://u:p@/run/x?db=1");
    for (size_t i = 0; i < TEN_COUNT(texts); i++) {
        ten_url url;
        ten_error error;
        assert_int_equal(ten_url_parse(texts[i], &url, &error), TENURE_OK);
        for (long skip = 0;; skip++) {
            ten_redis_settings *settings = NULL;
            ten_alloc_fail_after(skip);
            int r = ten_redis_settings_make(&url, &settings, &error);
            bool failed = ten_alloc_has_failed();
            ten_alloc_fail_after(-1);
            if (!failed) {
                assert_int_equal(r, TENURE_OK);
                assert_true(skip >= 4);
                ten_redis_settings_free(settings);
                break;
            }
            assert_int_equal(r, TENURE_E_NOMEM);
            assert_null(settings);
        }
        ten_url_free(&url);
    }
    directory_remove(directory);
}
