/*
 * "Did you mean": small slips are recognised, and what is far from everything gets no bad advice.
 */
#include "unit/unit.h"

#include "base/suggest.h"

static const char *const words[] = {"acquire", "renew", "release", "show", "ls", "watch", "doctor"};

static void assert_meant(const char *typed, const char *expected) {
    const char *found = ten_suggest(typed, words, TEN_COUNT(words));
    if (!found || strcmp(found, expected) != 0)
        fail_msg("'%s' suggests '%s', expected '%s'", typed, found ? found : "nothing", expected);
}

TEST(a_missing_an_extra_a_wrong_and_two_swapped_letters_are_recognised) {
    assert_meant("aquire", "acquire");
    assert_meant("rennew", "renew");
    assert_meant("relaase", "release");
    assert_meant("acqiure", "acquire");
    assert_meant("watch", "watch");
    assert_meant("sl", "ls");
}

TEST(the_nearest_word_wins) {
    static const char *const near[] = {"abcdef", "abcxef", "abcxyf"};
    assert_string_equal(ten_suggest("abcxyz", near, 3), "abcxyf");
    assert_string_equal(ten_suggest("abcxef", near, 3), "abcxef");
}

TEST(what_is_far_from_everything_gets_nothing) {
    assert_null(ten_suggest("xylophone", words, TEN_COUNT(words)));
    assert_null(ten_suggest("qqq", words, TEN_COUNT(words)));
    assert_null(ten_suggest("renew", words, 0));
    assert_null(ten_suggest("", words, TEN_COUNT(words)));
}

TEST(a_very_long_word_gets_nothing) {
    char text[1000];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_null(ten_suggest(text, words, TEN_COUNT(words)));
    const char *const long_words[] = {text};
    assert_null(ten_suggest("aaa", long_words, 1));
}
