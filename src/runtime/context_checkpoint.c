/*
 * Checkpoints in the C API: one call on the store each, for a lease's handle or for a program that kept only its target
 * and token. Those of a fleet member are core/checkpoints.h's, because its loop must not wait.
 */
#include <string.h>

#include "base/utf8.h"
#include "runtime/context_state.h"
#include "runtime/lease_state.h"

/* The message is said about `handle`, which is the context or a lease of it. */
static int check_value(const void *handle, const char *value, size_t size) {
    if (!value && size > 0)
        return ten_last_error_say(handle, TENURE_E_INVALID, "no checkpoint was given");
    if (size > TENURE_CHECKPOINT_MAX)
        return ten_last_error_say(handle, TENURE_E_INVALID, "a checkpoint has at most %u bytes, and this has %zu",
                                  TENURE_CHECKPOINT_MAX, size);
    if (!ten_utf8_is_text(value, size))
        return ten_last_error_say(
            handle, TENURE_E_INVALID,
            "a checkpoint must be UTF-8 without a NUL: encode binary data, as base64 for example");
    return TENURE_OK;
}

static int say_lost(const void *handle, const ten_op *op, const ten_result *result, const char *holder) {
    unsigned long long token = op->token;
    if (result->recovering)
        return ten_last_error_say(handle, TENURE_E_HELD,
                                  "the store is recovering, and writes no checkpoint for %llu ms",
                                  (unsigned long long)result->remaining_ms);
    if (holder[0] && result->token != op->token)
        return ten_last_error_say(handle, TENURE_E_LOST,
                                  "token %llu of %s is stale: %s holds it with token %llu; nothing was written", token,
                                  op->target, holder, (unsigned long long)result->token);
    return ten_last_error_say(handle, TENURE_E_LOST, "%s is not held with token %llu; nothing was written", op->target,
                              token);
}

/* One operation; the checkpoint that it brings along goes to the buffer, before another thread uses the store. */
static int apply(tenure_context *context, const void *handle, const ten_op *op, ten_result *result, char *holder,
                 char *buffer) {
    ten_store *store;
    int r = ten_context_enter(context, NULL, &store);
    if (r == TENURE_OK) {
        r = ten_store_apply(store, op, result, 1, context->timing.timeout_ms);
        if (r == TENURE_OK && result->outcome == TEN_ERROR)
            r = result->error;
        if (r == TENURE_OK)
            snprintf(holder, TENURE_HOLDER_MAX + 1, "%s", result->holder ? result->holder : "");
        if (r == TENURE_OK && buffer)
            snprintf(buffer, TENURE_CHECKPOINT_MAX + 1, "%s", result->checkpoint ? result->checkpoint : "");
        r = ten_context_leave(context, NULL, r);
    }
    return r < 0 && handle != context ? ten_last_error_say(handle, r, "%s", tenure_message(context)) : r;
}

static int write_value(tenure_context *context, const void *handle, const char *target, const char *holder,
                       uint64_t token, const char *value, size_t size) {
    char text[TENURE_CHECKPOINT_MAX + 1];
    char found[TENURE_HOLDER_MAX + 1];
    int r = check_value(handle, value, size);
    if (r < 0)
        return r;
    if (size > 0)
        memcpy(text, value, size);
    text[size] = '\0';
    ten_op op = {.kind = TEN_OP_CHECKPOINT,
                 .namespace_name = context->namespace_name,
                 .target = target,
                 .holder = holder,
                 .token = token,
                 .checkpoint = text};
    ten_result result;
    r = apply(context, handle, &op, &result, found, NULL);
    return r < 0 || result.outcome == TEN_OK ? r : say_lost(handle, &op, &result, found);
}

int tenure_token_checkpoint(tenure_context *context, const char *target, uint64_t token, const char *value,
                            size_t size) {
    int r = ten_context_check_token(context, target, token);
    return r < 0 ? r : write_value(context, context, target, NULL, token, value, size);
}

int tenure_target_checkpoint(tenure_context *context, const char *target, char *buffer, size_t *ret_size,
                             uint64_t *ret_token) {
    int r = ten_context_check_named(context, target);
    if (r == TENURE_OK && (!buffer || !ret_size))
        r = ten_last_error_say(context, TENURE_E_INVALID, "there is no place for the checkpoint");
    if (r < 0)
        return r;
    ten_op op = {.kind = TEN_OP_READ,
                 .flags = TEN_OP_REQUIRE_TARGET | TEN_OP_WITH_CHECKPOINT,
                 .namespace_name = context->namespace_name,
                 .target = target};
    ten_result result;
    char holder[TENURE_HOLDER_MAX + 1];
    char text[TENURE_CHECKPOINT_MAX + 1];
    r = apply(context, context, &op, &result, holder, text);
    if (r < 0)
        return r;
    if (result.outcome == TEN_UNKNOWN)
        return ten_context_say_unknown(context, target);
    *ret_size = strlen(text);
    memcpy(buffer, text, *ret_size + 1);
    if (ret_token)
        *ret_token = result.checkpoint_token;
    return TENURE_OK;
}

/* ---- of a lease */

/* The token of a lease that this process believes in, or that is uncertain: the store decides. 0: the error is said. */
static uint64_t token_of(tenure_lease *lease) {
    if (tenure_lease_remaining_ms(lease) > 0)
        return tenure_lease_token(lease);
    (void)ten_last_error_say(lease, TENURE_E_LOST, "the lease on %s is not held now", lease->target);
    return 0;
}

int tenure_checkpoint_write(tenure_lease *lease, const char *value, size_t size) {
    int r = ten_object_check_waiting(lease, TEN_OBJECT_LEASE);
    if (r < 0)
        return r;
    tenure_context *context = atomic_load(&lease->object.context);
    uint64_t token = token_of(lease);
    return token ? write_value(context, lease, lease->target, context->instance, token, value, size) : TENURE_E_LOST;
}

int tenure_checkpoint_read(tenure_lease *lease, char *buffer, size_t *ret_size) {
    int r = ten_object_check_waiting(lease, TEN_OBJECT_LEASE);
    if (r == TENURE_OK && (!buffer || !ret_size))
        r = ten_last_error_say(lease, TENURE_E_INVALID, "there is no place for the checkpoint");
    if (r < 0)
        return r;
    tenure_context *context = atomic_load(&lease->object.context);
    uint64_t token = token_of(lease);
    if (!token)
        return TENURE_E_LOST;
    ten_op op = {.kind = TEN_OP_READ,
                 .flags = TEN_OP_WITH_CHECKPOINT,
                 .namespace_name = context->namespace_name,
                 .target = lease->target,
                 .token = token};
    ten_result result;
    char holder[TENURE_HOLDER_MAX + 1];
    char text[TENURE_CHECKPOINT_MAX + 1];
    r = apply(context, lease, &op, &result, holder, text);
    if (r < 0)
        return r;
    /* That of a later holder would be of no use. */
    if (result.token != token || strcmp(holder, context->instance) != 0)
        return ten_last_error_say(lease, TENURE_E_LOST, "the lease on %s is not held any more", lease->target);
    *ret_size = strlen(text);
    memcpy(buffer, text, *ret_size + 1);
    return TENURE_OK;
}
