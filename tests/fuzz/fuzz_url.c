/*
 * Store URLs, and what the backends and sinks make of them without connecting. A password is in no message and in no
 * shown URL. Options that name files are left out: the files of the machine are no input.
 */
#include "agent/common/mqtt_settings.h"
#include "base/url.h"
#include "fuzz.h"
#include "store/redis/redis_layout.h"
#include "store/redis/redis_link.h"

static const char *given;

static void check_shown(const char *shown, const ten_url *url) {
    FUZZ_CHECK(!fuzz_has_control(shown, strlen(shown)));
    /* A password of few letters, or that is there twice, may be a part of something else, too. */
    const char *at = url && url->password && strlen(url->password) >= 12 ? strstr(given, url->password) : NULL;
    if (at && !strstr(at + 1, url->password))
        FUZZ_CHECK(!strstr(shown, url->password));
}

static void check_redis(const ten_url *url) {
    ten_redis_settings *settings = NULL;
    ten_redis_layout layout = {0};
    const ten_redis_space *space;
    ten_error error = {0};
    if (ten_redis_settings_make(url, &settings, &error) == TENURE_OK)
        check_shown(ten_redis_settings_name(settings), url);
    else
        check_shown(error.message, url);
    ten_redis_settings_free(settings);
    if (ten_redis_layout_make(url, &layout, &error) == TENURE_OK &&
        ten_redis_space_get(&layout, "poll", &space, &error) == TENURE_OK)
        FUZZ_CHECK(space->lease.before[0] != '\0' || space->lease.after[0] != '\0');
    ten_redis_layout_free(&layout);
}

static void check_mqtt(const char *text) {
    ten_mqtt_settings settings = {0};
    ten_error error = {0};
    if (ten_mqtt_settings_read(text, false, 30000, &settings, &error) == TENURE_OK) {
        ten_message message = {.namespace_name = "poll", .target = "room/+1", .instance = "a-1-0a1b2c3d"};
        ten_buf topic = {0};
        ten_mqtt_topic(&settings, &message, &topic);
        FUZZ_CHECK(strcspn(ten_buf_string(&topic), "+#") == topic.size);
        ten_buf_free(&topic);
        FUZZ_CHECK(settings.host[0] != '\0' && settings.port > 0 && settings.port <= 65535);
    }
    ten_mqtt_settings_free(&settings);
    settings = (ten_mqtt_settings){0};
    (void)ten_mqtt_settings_read(text, true, 30000, &settings, &error);
    ten_mqtt_settings_free(&settings);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const options[] = {TEN_REDIS_LINK_OPTIONS, TEN_REDIS_LAYOUT_OPTIONS, NULL};
    char *text = fuzz_text(data, size);
    char shown[512];
    ten_url url = {0};
    ten_error error = {0};
    given = text;
    ten_url_redact(text, shown, sizeof shown);
    int r = ten_url_parse(text, &url, &error);
    check_shown(shown, r == TENURE_OK ? &url : NULL);
    if (r < 0) {
        check_shown(error.message, NULL);
    } else {
        FUZZ_CHECK(url.scheme[0] != '\0' && url.option_count <= TEN_URL_OPTIONS_MAX);
        (void)ten_url_check_options(&url, options, &error);
        bool has_file = false;
        for (size_t i = 0; i < url.option_count; i++) {
            FUZZ_CHECK(ten_url_option(&url, url.options[i].key) != NULL);
            has_file |= strstr(url.options[i].key, "_file") != NULL;
        }
        if (!has_file) {
            check_redis(&url);
            check_mqtt(text);
        }
        ten_url_free(&url);
    }
    free(text);
    return 0;
}
