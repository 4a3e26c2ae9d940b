/*
 * Names and tokens. What is accepted has no byte that could mean something in a key, a path, a statement or a log, and
 * comes through a REST path unchanged; what is refused is shown without control characters.
 */
#include "base/id.h"
#include "fuzz.h"
#include "server/route.h"

static void check_refusal(const ten_error *error) {
    FUZZ_CHECK(error->message[0] != '\0');
    FUZZ_CHECK(!fuzz_has_control(error->message, strlen(error->message)));
}

static void check_path(const char *id) {
    char path[3 * TENURE_TARGET_MAX + 64] = "/api/v1/poll/";
    size_t at = strlen(path);
    for (; *id; id++)
        at += (size_t)snprintf(path + at, sizeof path - at, "%%%02X", (unsigned char)*id);
    snprintf(path + at, sizeof path - at, "/lease");
    ten_route route;
    ten_route_parse(path, &route);
    FUZZ_CHECK(route.kind == TEN_ROUTE_LEASE);
    FUZZ_CHECK(strlen(route.id) == (at - strlen("/api/v1/poll/")) / 3);
}

static void check_target(const char *text) {
    ten_error error = {0};
    if (ten_id_check_target(text, &error) < 0) {
        check_refusal(&error);
        return;
    }
    FUZZ_CHECK(strlen(text) <= TENURE_TARGET_MAX && !fuzz_has_control(text, strlen(text)));
    FUZZ_CHECK(strcspn(text, " '\"\\%*?[]{}<>&#\n") == strlen(text) && !strstr(text, "//"));
    FUZZ_CHECK(text[0] != '/' && strcmp(text, "..") != 0 && strncmp(text, "../", 3) != 0 && !strstr(text, "/../"));
    if (!ten_route_is_reserved(text))
        check_path(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = fuzz_text(data, size);
    ten_error error = {0};
    uint64_t token = 0;
    check_target(text);
    if (ten_id_check_namespace(text, &error) < 0)
        check_refusal(&error);
    else
        FUZZ_CHECK(strcmp(text, "tenure") != 0 && strcspn(text, "/:{} ") == strlen(text));
    if (ten_id_check_holder(text, &error) < 0)
        check_refusal(&error);
    else
        FUZZ_CHECK(strlen(text) <= TENURE_HOLDER_MAX && !fuzz_has_control(text, strlen(text)));
    if (ten_id_check_instance_name(text, &error) < 0)
        check_refusal(&error);
    if (ten_id_parse_token(text, &token, &error) < 0)
        check_refusal(&error);
    else
        FUZZ_CHECK(token >= 1 && token <= TENURE_TOKEN_MAX && strspn(text, "0123456789") == strlen(text));
    free(text);
    return 0;
}
