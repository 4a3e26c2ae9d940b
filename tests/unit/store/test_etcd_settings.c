/*
 * The URLs of etcd clusters: what is understood, what is refused with the reason, and that no message shows a password.
 */
#include "unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "store/etcd/etcd_settings.h"

static int read_url(const char *text, ten_etcd_settings *settings, ten_error *error) {
    ten_url url;
    *settings = (ten_etcd_settings){0};
    int r = ten_url_parse(text, &url, error);
    if (r == TENURE_OK) {
        r = ten_etcd_settings_read(&url, settings, error);
        ten_url_free(&url);
    }
    return r;
}

static ten_etcd_settings must_read(const char *text) {
    ten_etcd_settings settings;
    ten_error error = {0};
    if (read_url(text, &settings, &error) != TENURE_OK)
        fail_msg("'%s' was refused: %s", text, error.message);
    return settings;
}

static void assert_refused(const char *text, const char *reason) {
    ten_etcd_settings settings;
    ten_error error = {0};
    int r = read_url(text, &settings, &error);
    if (r != TENURE_E_INVALID)
        fail_msg("'%s' gave %s", text, tenure_error_name(r));
    assert_contains(error.message, reason);
    if (strstr(error.message, "sesame"))
        fail_msg("'%s' shows its password: %s", text, error.message);
    ten_etcd_settings_free(&settings);
}

/* One endpoint and the prefix. */
static void assert_place(const char *text, const char *endpoint, const char *prefix) {
    ten_etcd_settings settings = must_read(text);
    assert_int_equal(settings.endpoint_count, 1);
    assert_string_equal(settings.endpoints[0], endpoint);
    assert_string_equal(settings.prefix, prefix);
    ten_etcd_settings_free(&settings);
}

TEST(a_host_a_port_and_a_prefix_have_their_usual_values) {
    assert_place("etcd://store", "http://store:2379", "tenure");
    assert_place("etcd://store:1/", "http://store:1", "tenure");
    assert_place("etcd://store/fleets", "http://store:2379", "fleets");
    assert_place("etcd://store/a/b//", "http://store:2379", "a/b");
    assert_place("etcd://[::1]", "http://[::1]:2379", "tenure");
    assert_place("etcd://[fe80::1]:7/x", "http://[fe80::1]:7", "x");
    assert_place("etcds://store", "https://store:2379", "tenure");
}

TEST(files_for_tls_mean_tls) {
    assert_place("etcd://store?ca_file=/dev/null", "https://store:2379", "tenure");
    ten_etcd_settings settings = must_read("etcds://store?ca_file=/dev/null&cert_file=/dev/zero&key_file=/dev/full");
    assert_string_equal(settings.endpoints[0], "https://store:2379");
    assert_string_equal(settings.files.ca_file, "/dev/null");
    assert_string_equal(settings.files.cert_file, "/dev/zero");
    assert_string_equal(settings.files.key_file, "/dev/full");
    ten_etcd_settings_free(&settings);
    assert_refused("etcds://store?ca_file=/no/such/file", "/no/such/file");
}

TEST(several_members_keep_their_order) {
    ten_etcd_settings settings = must_read("etcd://a:1,b,[::1]:3,d:4/fleets?timeout=2s");
    const char *const endpoints[] = {"http://a:1", "http://b:2379", "http://[::1]:3", "http://d:4"};
    assert_int_equal(settings.endpoint_count, TEN_COUNT(endpoints));
    for (size_t i = 0; i < TEN_COUNT(endpoints); i++)
        assert_string_equal(settings.endpoints[i], endpoints[i]);
    assert_string_equal(settings.prefix, "fleets");
    ten_etcd_settings_free(&settings);
}

TEST(no_host_an_empty_one_and_too_many_are_refused) {
    assert_refused("etcd://", "which etcd");
    assert_refused("etcd:///fleets", "which etcd");
    assert_refused("etcd://a:1,,b:2", "empty host");
    assert_refused("etcd://a:1,", "empty host");
    char text[200] = "etcd://a0";
    for (unsigned i = 1; i <= TEN_ETCD_ENDPOINTS_MAX; i++) {
        size_t size = strlen(text);
        if (i == TEN_ETCD_ENDPOINTS_MAX) {
            ten_etcd_settings settings = must_read(text);
            assert_int_equal(settings.endpoint_count, TEN_ETCD_ENDPOINTS_MAX);
            ten_etcd_settings_free(&settings);
        }
        snprintf(text + size, sizeof text - size, ",a%u", i);
    }
    assert_refused(text, "at most 16 hosts");
}

TEST(a_prefix_that_is_too_long_is_refused) {
    char text[200] = "etcd://store/";
    size_t size = strlen(text);
    memset(text + size, 'x', TEN_ETCD_PREFIX_MAX);
    ten_etcd_settings settings = must_read(text);
    assert_int_equal(strlen(settings.prefix), TEN_ETCD_PREFIX_MAX);
    ten_etcd_settings_free(&settings);
    text[size + TEN_ETCD_PREFIX_MAX] = 'x';
    assert_refused(text, "128 bytes");
}

TEST(a_user_has_a_password_in_the_url_or_in_a_file) {
    char path[] = "/tmp/test-etcd-settings-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "open sesame\n", 12), 12);
    close(fd);
    char text[200];
    snprintf(text, sizeof text, "etcd://me@store?password_file=%s", path);
    ten_etcd_settings settings = must_read(text);
    assert_string_equal(settings.user, "me");
    assert_string_equal(settings.password, "open sesame");
    ten_etcd_settings_free(&settings);
    unlink(path);
    assert_refused(text, path);
    settings = must_read("etcd://me:p%40ss@store");
    assert_string_equal(settings.password, "p@ss");
    ten_etcd_settings_free(&settings);
    settings = must_read("etcd://store");
    assert_null(settings.user);
    ten_etcd_settings_free(&settings);
}

TEST(half_of_an_identity_is_refused) {
    assert_refused("etcd://me@store", "password_file");
    assert_refused("etcd://:sesame@store", "names its user");
    assert_refused("etcd://store?password_file=/dev/null", "names its user");
}

TEST(an_option_that_it_does_not_have_is_refused) {
    assert_refused("etcd://store?colour=red", "colour");
    assert_refused("etcd://store?ca_flie=x", "ca_file");
    assert_refused("etcd://me:sesame@store?fresh=1", "fresh");
}
