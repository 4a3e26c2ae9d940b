/*
 * The auth file, then the globs that it brought, against names as they come in requests.
 */
#include "fuzz.h"
#include "server/auth.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = fuzz_text(data, size);
    ten_auth auth = {0};
    ten_error error = {0};
    if (ten_auth_parse(text, &auth, &error) == TENURE_OK) {
        for (size_t i = 0; i < auth.count; i++) {
            const ten_principal *principal = &auth.principals[i];
            FUZZ_CHECK(principal->role > TEN_ROLE_NONE && principal->role <= TEN_ROLE_ADMIN);
            FUZZ_CHECK(principal->name[0] != '\0' && principal->namespaces[0] != '\0' && principal->holders[0] != '\0');
            if (ten_principal_may(principal, TEN_ROLE_ADMIN, "scenes"))
                FUZZ_CHECK(ten_principal_may(principal, TEN_ROLE_READ, "scenes"));
            (void)ten_principal_owns(principal, "tracker-1-1700000000000000000-0a1b2c3d");
        }
        (void)ten_auth_find(&auth, text);
        ten_auth_free(&auth);
    } else {
        FUZZ_CHECK(error.message[0] != '\0');
    }
    free(text);
    return 0;
}
