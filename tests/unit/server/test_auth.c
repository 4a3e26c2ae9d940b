/*
 * The auth file: its form, what is wrong with one and where, and who may do what by it.
 */
#include "unit/unit.h"

#include "server/auth.h"

#include <sys/stat.h>

/* SHA-256 of "abc", of two other tokens, and of nothing. */
#define ABC   "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define OTHER "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ae"
#define THIRD "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015af"
#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static ten_auth parsed(const char *text) {
    ten_auth auth = {0};
    ten_error error = {0};
    if (ten_auth_parse(text, &auth, &error) != TENURE_OK)
        fail_msg("refused: %s", error.message);
    return auth;
}

static void assert_refused(const char *text, const char *part) {
    ten_auth auth = {.count = 77};
    ten_error error = {0};
    if (ten_auth_parse(text, &auth, &error) != TENURE_E_INVALID)
        fail_msg("'%.100s' was accepted", text);
    assert_contains(error.message, part);
    assert_int_equal(auth.count, 77); /* untouched on failure */
}

TEST(a_line_is_a_principal) {
    ten_auth auth = parsed("fleet hold scenes tracker-* " ABC "\n");
    assert_int_equal(auth.count, 1);
    const ten_principal *found = ten_auth_find(&auth, "abc");
    assert_non_null(found);
    assert_string_equal(found->name, "fleet");
    assert_int_equal(found->role, TEN_ROLE_HOLD);
    ten_auth_free(&auth);
}

TEST(comments_blank_lines_tabs_and_returns_are_nothing) {
    ten_auth auth = parsed("# a comment\n\n   \t\r\n  # another\r\n\tone\tread  * *\t" ABC "\r\n\n# end");
    assert_int_equal(auth.count, 1);
    assert_string_equal(ten_auth_find(&auth, "abc")->name, "one");
    ten_auth_free(&auth);
}

TEST(a_file_without_a_principal_is_refused) {
    assert_refused("", "it names no principal");
    assert_refused("\n# a comment\n\n", "it names no principal");
}

TEST(a_token_on_two_lines_is_refused_with_both_numbers) {
    assert_refused("a read x * " ABC "\n# x\nb hold y * " ABC "\n", "line 3: the token is that of line 1");
}

TEST(a_wrong_line_is_named_by_its_number) {
    assert_refused("nonsense", "line 1");
    assert_refused("a\xff read * * " ABC, "line 1: a name must be UTF-8");
    assert_refused("# x\n\na read * * " ABC "\nb read * *\n", "line 4");
    assert_refused("a read * * " ABC " more\n", "line 1");
    assert_refused("a read * * " ABC "\n\nb write * * " ABC, "line 3: a role is read, hold or admin, not 'write'");
    assert_refused("a READ * * " ABC, "line 1");
    assert_refused("a read * * abc", "64 hexadecimal digits");
    assert_refused("a read * * " ABC "0", "64 hexadecimal digits");
    assert_refused("a read * * g" ABC, "line 1");
    assert_refused("a read * * xa7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", "64 hexadecimal");
    assert_refused("abc", "line 1");
}

TEST(words_that_are_too_long_are_refused_not_cut) {
    char text[2000];
    char word[400];
    memset(word, 'x', sizeof word);
    snprintf(text, sizeof text, "%.63s read %.63s %.255s " ABC, word, word, word);
    ten_auth auth = parsed(text);
    assert_int_equal(strlen(auth.principals[0].holders), 255);
    ten_auth_free(&auth);
    snprintf(text, sizeof text, "%.64s read * * " ABC, word);
    assert_refused(text, "too long");
    snprintf(text, sizeof text, "a read %.64s * " ABC, word);
    assert_refused(text, "too long");
    snprintf(text, sizeof text, "a read * %.256s " ABC, word);
    assert_refused(text, "too long");
}

TEST(only_the_whole_token_is_found) {
    ten_auth auth = parsed("a read * * " ABC "\n");
    assert_non_null(ten_auth_find(&auth, "abc"));
    assert_null(ten_auth_find(&auth, "ab"));
    assert_null(ten_auth_find(&auth, "abcd"));
    assert_null(ten_auth_find(&auth, "ABC"));
    assert_null(ten_auth_find(&auth, ""));
    assert_null(ten_auth_find(&auth, ABC));
    ten_auth_free(&auth);
    auth = parsed("a read * * BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD\n");
    assert_non_null(ten_auth_find(&auth, "abc"));
    ten_auth_free(&auth);
}

TEST(roles_include_the_lesser_ones) {
    ten_auth auth = parsed("r read * * " ABC "\nh hold * * " OTHER "\na admin * * " THIRD "\n");
    for (size_t i = 0; i < 3; i++)
        for (int role = TEN_ROLE_READ; role <= TEN_ROLE_ADMIN; role++)
            assert_int_equal(ten_principal_may(&auth.principals[i], (enum ten_role)role, "ns"), (int)i + 1 >= role);
    ten_auth_free(&auth);
}

TEST(globs_say_where_and_for_whom) {
    ten_auth auth = parsed("a admin scenes tracker-[0-9]* " ABC "\nb hold s?enes* * " OTHER "\n");
    const ten_principal *a = &auth.principals[0];
    const ten_principal *b = &auth.principals[1];
    assert_true(ten_principal_may(a, TEN_ROLE_ADMIN, "scenes"));
    assert_false(ten_principal_may(a, TEN_ROLE_READ, "scenes2"));
    assert_false(ten_principal_may(a, TEN_ROLE_READ, ""));
    assert_true(ten_principal_may(b, TEN_ROLE_READ, "scenes-2"));
    assert_true(ten_principal_owns(a, "tracker-0"));
    assert_true(ten_principal_owns(a, "tracker-0/x"));
    assert_false(ten_principal_owns(a, "tracker-x"));
    assert_false(ten_principal_owns(a, "xtracker-0"));
    assert_true(ten_principal_owns(b, ".hidden/x y"));
    ten_auth_free(&auth);
}

TEST(a_file_is_read_and_one_that_cannot_be_trusted_is_not) {
    char directory[256];
    char path[300];
    ten_auth auth = {0};
    ten_error error = {0};
    directory_make(directory);
    snprintf(path, sizeof path, "%s/auth", directory);
    assert_int_equal(ten_auth_read(path, &auth, &error), TENURE_E_INVALID);
    assert_contains(error.message, path);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs("# x\na read * * " ABC "\n", file);
    fclose(file);
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(ten_auth_read(path, &auth, &error), TENURE_OK);
    assert_int_equal(auth.count, 1);
    ten_auth_free(&auth);
    assert_int_equal(chmod(path, 0646), 0);
    assert_int_equal(ten_auth_read(path, &auth, &error), TENURE_E_INVALID);
    assert_contains(error.message, "chmod g-w,o-w");
    assert_int_equal(chmod(path, 0600), 0);
    /* Lines behind a NUL would be passed over, and with them whom they let in, or no longer do. */
    file = fopen(path, "we");
    assert_non_null(file);
    fwrite("a read * * " ABC "\n\0b", 1, strlen("a read * * " ABC "\n") + 2, file);
    fclose(file);
    assert_int_equal(ten_auth_read(path, &auth, &error), TENURE_E_INVALID);
    assert_contains(error.message, "NUL");
    file = fopen(path, "we");
    assert_non_null(file);
    for (int i = 0; i < 70000; i++)
        fputs("# sixteen bytes\n", file);
    fclose(file);
    assert_int_equal(ten_auth_read(path, &auth, &error), TENURE_E_INVALID);
    assert_contains(error.message, "1 MiB");
    directory_remove(directory);
}

/* Whatever the file holds: it is refused with a line that it has, or every principal is whole. */
TEST(random_files_do_no_harm) {
    static const char *const parts[] = {
        "a", "read", "hold", "admin", "*",  ABC,  EMPTY, " ", " ",  " ",
        " ", "\n",   "\n",   "#",     "\t", "\r", "x",   "[", "\\", "a read * * " ABC "\n"};
    unsigned seed = (unsigned)ten_boot_us();
    print_message("# seed %u\n", seed);
    srand(seed);
    size_t accepted = 0;
    for (int round = 0; round < 20000; round++) {
        char text[4096] = "";
        size_t at = 0;
        int count = rand() % 24;
        for (int i = 0; i < count && at + 100 < sizeof text; i++) {
            if (rand() % 16 == 0)
                text[at++] = (char)(rand() % 255 + 1);
            else
                at += (size_t)snprintf(text + at, sizeof text - at, "%s", parts[(size_t)rand() % TEN_COUNT(parts)]);
        }
        text[at] = '\0';
        ten_auth auth = {0};
        ten_error error = {0};
        if (ten_auth_parse(text, &auth, &error) < 0) {
            assert_contains(error.message, "line ");
            continue;
        }
        accepted += auth.count > 0;
        for (size_t i = 0; i < auth.count; i++) {
            assert_in_range(auth.principals[i].role, TEN_ROLE_READ, TEN_ROLE_ADMIN);
            assert_true(auth.principals[i].name[0] != '\0');
            (void)ten_principal_may(&auth.principals[i], TEN_ROLE_READ, "ns");
            (void)ten_principal_owns(&auth.principals[i], text);
        }
        (void)ten_auth_find(&auth, text);
        ten_auth_free(&auth);
    }
    assert_true(accepted > 10);
}
