/*
 * REST paths. Whatever route a path has, its namespace and its id are names that the rest of the server may use.
 */
#include "base/encode.h"
#include "base/id.h"
#include "fuzz.h"
#include "server/route.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *path = fuzz_text(data, size);
    ten_route route;
    ten_error error;
    ten_route_parse(path, &route);
    FUZZ_CHECK(ten_route_name(route.kind)[0] != '\0');
    (void)ten_route_methods(route.kind);
    (void)ten_method_parse(path);
    if (route.kind == TEN_ROUTE_BAD_PATH) {
        FUZZ_CHECK(route.error.message[0] != '\0');
        FUZZ_CHECK(!fuzz_has_control(route.error.message, strlen(route.error.message)));
    } else if (route.kind != TEN_ROUTE_NOT_FOUND && route.kind != TEN_ROUTE_REDIRECT) {
        if (route.namespace_name[0] != '\0')
            FUZZ_CHECK(ten_id_check_namespace(route.namespace_name, &error) == TENURE_OK);
        if (route.kind == TEN_ROUTE_NODE)
            FUZZ_CHECK(ten_id_check_holder(route.id, &error) == TENURE_OK);
        else if (route.id[0] != '\0' && route.kind != TEN_ROUTE_PAGE) /* a file's name, which is only compared */
            FUZZ_CHECK(ten_id_check_target(route.id, &error) == TENURE_OK && !ten_route_is_reserved(route.id));
    }
    char *decoded = fuzz_text(data, size);
    size_t before = strlen(decoded);
    if (ten_percent_decode(decoded, true))
        FUZZ_CHECK(strlen(decoded) <= before);
    free(decoded);
    free(path);
    return 0;
}
