/*
 * Where the next page of a list is, by its header Link.
 */
#include "unit/unit.h"

#include "agent/sources/http_page.h"

static char shown[512];

/* The next page of http://h:1/a/list?limit=2, or the error. */
static const char *next_of(const char *value) {
    static const char base[] = "http://h:1/a/list?limit=2";
    ten_buf next = {0};
    ten_error error;
    int r = ten_http_page_next_link(base, base, value, &next, &error);
    snprintf(shown, sizeof shown, "%s", r == TENURE_OK ? ten_buf_string(&next) : error.message);
    ten_buf_free(&next);
    return shown;
}

TEST(a_link_that_says_next_is_the_next_page) {
    assert_string_equal(next_of("<http://h:1/b?after=x>; rel=\"next\""), "http://h:1/b?after=x");
    assert_string_equal(next_of("</b?after=x%2Fy>; rel=next"), "http://h:1/b?after=x%2Fy");
    assert_string_equal(next_of("<?after=x>;rel=\"NEXT\""), "http://h:1/a/list?after=x");
    assert_string_equal(next_of("<b>; title=\"x; y\"; rel=\"prefetch next\""), "http://h:1/a/b");
}

TEST(it_is_found_among_others) {
    assert_string_equal(next_of("</p>; rel=\"prev\", </n>; rel=\"next\", </l>; rel=\"last\""), "http://h:1/n");
    assert_string_equal(next_of("</p?a,b>; rel=prev; title=\"a, b\", </n>; rel=next"), "http://h:1/n");
}

TEST(other_links_are_none) {
    assert_string_equal(next_of(""), "");
    assert_string_equal(next_of("</p>; rel=\"prev\""), "");
    assert_string_equal(next_of("</p>; rel=\"nextish\""), "");
    assert_string_equal(next_of("</p>"), "");
    assert_string_equal(next_of("</p"), "");
    assert_string_equal(next_of("; rel=\"next\""), "");
    assert_string_equal(next_of("</p>; rel"), "");
    assert_string_equal(next_of("<,;\"=,,"), "");
}

TEST(a_page_on_another_server_is_refused) {
    assert_contains(next_of("<http://other:1/a>; rel=next"), "on another server");
    assert_contains(next_of("<http://h:2/a>; rel=next"), "on another server");
    assert_contains(next_of("<https://h:1/a>; rel=next"), "on another server");
    assert_contains(next_of("<//other/a>; rel=next"), "on another server");
    assert_contains(next_of("<file:///etc/passwd>; rel=next"), "on another server");
}
