/*
 * Durations: text to milliseconds and back. Called for options, URLs and target specs.
 */
#include "base/duration.h"

#include <string.h>

static const struct {
    const char *name;
    uint64_t ms;
} units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};

int ten_duration_parse(const char *text, uint64_t *ret_ms, ten_error *error) {
    const char *at = text;
    uint64_t number = 0;
    while (*at >= '0' && *at <= '9') {
        if (number > (UINT64_MAX - 9) / 10)
            return ten_fail(error, TENURE_E_INVALID, "duration '%.40s' is too large", text);
        number = number * 10 + (uint64_t)(*at - '0');
        at++;
    }
    if (at == text)
        return ten_fail(error, TENURE_E_INVALID,
                        "'%.40s' is not a duration: write a whole number and a unit, such as 500ms, 30s, 5m, 2h or 1d",
                        text);
    if (*at == '\0')
        return ten_fail(error, TENURE_E_INVALID, "duration '%.40s' has no unit: write %.40ss or %.40sms", text, text,
                        text);
    for (size_t i = 0; i < TEN_COUNT(units); i++) {
        if (strcmp(at, units[i].name) != 0)
            continue;
        if (number > UINT64_MAX / units[i].ms)
            return ten_fail(error, TENURE_E_INVALID, "duration '%.40s' is too large", text);
        *ret_ms = number * units[i].ms;
        return TENURE_OK;
    }
    return ten_fail(error, TENURE_E_INVALID,
                    "'%.40s' is not a duration: after the whole number comes one unit of ms, s, m, h, d", text);
}

void ten_duration_show(uint64_t ms, char text[TEN_DURATION_SIZE]) {
    unsigned long long s = ms / 1000;
    if (ms < 1000)
        snprintf(text, TEN_DURATION_SIZE, "%ums", (unsigned)ms);
    else if (s < 60)
        snprintf(text, TEN_DURATION_SIZE, "%llu.%us", s, (unsigned)(ms % 1000 / 100));
    else if (s < 3600)
        snprintf(text, TEN_DURATION_SIZE, "%llum%02us", s / 60, (unsigned)(s % 60));
    else if (s < 86400)
        snprintf(text, TEN_DURATION_SIZE, "%lluh%02um", s / 3600, (unsigned)(s % 3600 / 60));
    else
        snprintf(text, TEN_DURATION_SIZE, "%llud%02uh", s / 86400, (unsigned)(s % 86400 / 3600));
}
