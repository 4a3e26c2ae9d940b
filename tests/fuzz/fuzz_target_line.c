/*
 * A line of a target file (which is also the body of a PUT, and an entry of an HTTP list), and a session's JSON object.
 * What is accepted has a good id, and texts that can be kept and written again.
 */
#include "agent/sources/target_file.h"
#include "base/id.h"
#include "fuzz.h"

static void check_target(const tenure_target *target) {
    ten_error error;
    FUZZ_CHECK(target->id && ten_id_check_target(target->id, &error) == TENURE_OK);
    if (target->spec)
        FUZZ_CHECK(fuzz_is_json(target->spec, strlen(target->spec)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = fuzz_text(data, size);
    tenure_target target = {0};
    ten_target_line *storage = NULL;
    ten_error error = {0};
    if (ten_target_file_line_parse(text, &target, &storage, &error) == TENURE_OK)
        check_target(&target);
    else
        FUZZ_CHECK(error.message[0] != '\0');
    ten_target_file_line_free(storage);
    storage = NULL;
    target = (tenure_target){0};
    if (ten_target_file_session_parse("session-1", text, size, &target, &storage, &error) == TENURE_OK)
        check_target(&target);
    ten_target_file_line_free(storage);
    free(text);
    return 0;
}
