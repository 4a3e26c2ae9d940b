/*
 * See dial.h. Called by redis.c and postgres.c.
 */
#include "store/common/dial.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/random.h"

#define BACKOFF_FIRST_MS 10u
#define BACKOFF_MOST_MS  500u

int ten_dial_wait(const ten_dial *dial, const char *server, uint64_t deadline_ms, ten_error *error) {
    uint64_t now_ms = ten_now_ms();
    if (dial->next_ms <= now_ms)
        return TENURE_OK;
    if (dial->next_ms >= deadline_ms)
        return ten_fail(error, TENURE_E_UNREACHABLE, "%s: still backing off after a failed connection", server);
    ten_sleep_us((dial->next_ms - now_ms) * 1000);
    return TENURE_OK;
}

void ten_dial_note(ten_dial *dial, int r) {
    if (r == TENURE_OK) {
        *dial = (ten_dial){0};
        return;
    }
    uint64_t backoff_ms = dial->backoff_ms ? ten_min_u64(dial->backoff_ms * 2, BACKOFF_MOST_MS) : BACKOFF_FIRST_MS;
    dial->backoff_ms = backoff_ms;
    dial->next_ms = ten_now_ms() + backoff_ms / 2 + ten_random_u64() % (backoff_ms / 2 + 1);
}

void ten_dial_spread(ten_dial *dial) {
    dial->next_ms = ten_now_ms() + ten_random_u64() % BACKOFF_FIRST_MS;
}

bool ten_dial_worth_another(int error, bool was_connected, uint64_t deadline_ms) {
    return error == TENURE_E_UNREACHABLE && was_connected && ten_now_ms() < deadline_ms;
}
