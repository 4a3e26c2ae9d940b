/*
 * What `tenure doctor` says of a store's place: on which networks leases go in clear.
 */
#include "unit/unit.h"

#include "base/host.h"
#include "store/common/report.h"

static enum tenure_check_level found_level;

static void note(enum tenure_check_level level, const char *check, const char *found, const char *advice,
                 void *userdata) {
    (void)userdata;
    assert_string_equal(check, "encryption");
    assert_true(found[0] != '\0');
    assert_int_equal(advice[0] != '\0', level != TENURE_CHECK_OK);
    found_level = level;
}

static enum tenure_check_level level_of(bool tls, const char *host) {
    ten_report report = {.each = note};
    ten_report_encryption(&report, tls, host, "use TLS");
    return found_level;
}

TEST(a_network_without_tls_is_warned_about) {
    assert_int_equal(level_of(false, "cache-1:6379"), TENURE_CHECK_WARN);
    assert_int_equal(level_of(false, "10.0.0.7:7480/base"), TENURE_CHECK_WARN);
    assert_int_equal(level_of(false, "127.0.0.1.evil.example"), TENURE_CHECK_WARN);
    assert_int_equal(level_of(false, "evil.example//127.0.0.1"), TENURE_CHECK_WARN);
    assert_int_equal(level_of(true, "cache-1:6379"), TENURE_CHECK_OK);
    assert_int_equal(level_of(false, "127.0.0.1:6379"), TENURE_CHECK_OK);
    assert_int_equal(level_of(false, "localhost"), TENURE_CHECK_OK);
    assert_int_equal(level_of(false, "[::1]:2379/"), TENURE_CHECK_OK);
    assert_int_equal(level_of(false, NULL), TENURE_CHECK_OK);
}

TEST(only_a_hosts_own_names_are_loopback) {
    static const char *const ours[] = {"localhost", "LocalHost:80", "127.0.0.1", "127.9.9.9:1", "[::1]", "[::1]:7480"};
    static const char *const others[] = {"",          "localhost.evil", "127.0.0.1.nip.io", "127.evil", "[::2]",
                                         "::1",       "localhost:80x",  "[::1]evil",        "[::1",     "0.0.0.0",
                                         "localhosts"};
    for (size_t i = 0; i < TEN_COUNT(ours); i++)
        assert_true(ten_host_is_loopback(ours[i]));
    for (size_t i = 0; i < TEN_COUNT(others); i++)
        assert_false(ten_host_is_loopback(others[i]));
}
