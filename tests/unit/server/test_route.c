/*
 * Routes: which request a path means, what is refused, and that no bytes at all do harm.
 */
#include "unit/unit.h"

#include "base/id.h"
#include "server/route.h"

static ten_route route_of(const char *path) {
    ten_route route;
    memset(&route, 0x5a, sizeof route);
    ten_route_parse(path, &route);
    return route;
}

static void assert_route(const char *path, enum ten_route_kind kind, const char *namespace_name, const char *id) {
    ten_route route = route_of(path);
    if (route.kind != kind)
        fail_msg("%s is %s instead of %s", path, ten_route_name(route.kind), ten_route_name(kind));
    assert_string_equal(route.namespace_name, namespace_name);
    assert_string_equal(route.id, id);
}

TEST(each_path_has_its_route) {
    assert_route("/", TEN_ROUTE_PAGE, "", "");
    assert_route("/web/app.js", TEN_ROUTE_PAGE, "", "app.js");
    assert_route("/web", TEN_ROUTE_NOT_FOUND, "", "");
    assert_route("/web/a/b", TEN_ROUTE_NOT_FOUND, "", "");
    assert_route("/metrics", TEN_ROUTE_METRICS, "", "");
    assert_route("/healthz", TEN_ROUTE_HEALTHZ, "", "");
    assert_route("/readyz", TEN_ROUTE_READYZ, "", "");
    assert_route("/openapi.json", TEN_ROUTE_OPENAPI, "", "");
    assert_route("/api/v1", TEN_ROUTE_NAMESPACES, "", "");
    assert_route("/api/v1/scenes", TEN_ROUTE_TARGETS, "scenes", "");
    assert_route("/api/v1/scenes/s-1", TEN_ROUTE_TARGET, "scenes", "s-1");
    assert_route("/api/v1/scenes/s-1/lease", TEN_ROUTE_LEASE, "scenes", "s-1");
    assert_route("/api/v1/scenes/s-1/lease/renew", TEN_ROUTE_RENEW, "scenes", "s-1");
    assert_route("/api/v1/scenes/leases", TEN_ROUTE_BATCH, "scenes", "");
    assert_route("/api/v1/scenes/nodes", TEN_ROUTE_NODES, "scenes", "");
    assert_route("/api/v1/scenes/nodes/i-1", TEN_ROUTE_NODE, "scenes", "i-1");
    assert_route("/api/v1/scenes/events", TEN_ROUTE_EVENTS, "scenes", "");
    assert_route("/api/v1/scenes/history", TEN_ROUTE_HISTORY, "scenes", "");
}

TEST(what_is_not_there_is_not_found) {
    static const char *const paths[] = {
        "",
        "x",
        "healthz",
        "/x",
        "/healthz/",
        "/api",
        "/api/",
        "/api/v2/a",
        "/API/v1/a",
        "/api/v1/a/t/leases",
        "/api/v1/a/t/lease/x",
        "/metrics/x",
        "/index.html",
        "/Healthz",
        "/api/v1/a/t/u",
    };
    for (size_t i = 0; i < TEN_COUNT(paths); i++)
        if (route_of(paths[i]).kind != TEN_ROUTE_NOT_FOUND)
            fail_msg("%s is %s", paths[i], ten_route_name(route_of(paths[i]).kind));
}

TEST(an_id_is_split_before_it_is_decoded) {
    assert_route("/api/v1/a/x%2Fy/lease", TEN_ROUTE_LEASE, "a", "x/y");
    assert_route("/api/v1/a/x%2fy%2flease", TEN_ROUTE_TARGET, "a", "x/y/lease");
    assert_route("/api/v1/a/%74%2D1", TEN_ROUTE_TARGET, "a", "t-1");
    assert_route("/api/v1/a/x+y/lease", TEN_ROUTE_LEASE, "a", "x+y"); /* a plus is a plus in a path */
    assert_route("/api/v1/a/x%2By/lease", TEN_ROUTE_LEASE, "a", "x+y");
    assert_route("/api/v1/a/nodes/i%2F1%20x", TEN_ROUTE_NODE, "a", "i/1 x");
    assert_route("/api/v1/%61/t", TEN_ROUTE_TARGET, "a", "t");
}

TEST(words_of_ours_are_no_ids) {
    static const char *const words[] = {"nodes", "leases", "events", "history", "%6eodes"};
    for (size_t i = 0; i < TEN_COUNT(words); i++) {
        char path[100];
        snprintf(path, sizeof path, "/api/v1/a/%s", words[i]);
        assert_string_equal(route_of(path).id, "");
        assert_true(route_of(path).kind != TEN_ROUTE_TARGET);
        snprintf(path, sizeof path, "/api/v1/a/%s/lease/renew", words[i]);
        assert_int_equal(route_of(path).kind, TEN_ROUTE_NOT_FOUND);
    }
    assert_true(ten_route_is_reserved("nodes"));
    assert_false(ten_route_is_reserved("node"));
    assert_route("/api/v1/nodes/t/lease", TEN_ROUTE_LEASE, "nodes", "t"); /* a namespace may be called so */
}

/* Whatever comes: a route that says an id has one that is valid. */
TEST(random_paths_do_no_harm) {
    static const char *const parts[] = {"/",      "api",    "v1",  "%2F", "%2e", "..",   "lease", "renew", "nodes",
                                        "leases", "scenes", "%00", "%",   "x",   "\xff", "\n",    "%zz",   "//"};
    unsigned seed = (unsigned)ten_boot_us();
    print_message("# seed %u\n", seed);
    srand(seed);
    for (int round = 0; round < 20000; round++) {
        char path[2200] = "/";
        size_t at = 1;
        int count = rand() % (round % 100 == 0 ? 900 : 12);
        for (int i = 0; i < count && at + 16 < sizeof path; i++) {
            if (rand() % 4 == 0)
                path[at++] = (char)(rand() % 255 + 1);
            else
                at += (size_t)snprintf(path + at, sizeof path - at, "%s", parts[(size_t)rand() % TEN_COUNT(parts)]);
        }
        path[at] = '\0';
        ten_route route = route_of(path);
        ten_error error;
        assert_true(route.kind <= TEN_ROUTE_HISTORY);
        (void)ten_route_methods(route.kind);
        assert_non_null(ten_route_name(route.kind));
        if (route.kind >= TEN_ROUTE_TARGETS)
            assert_int_equal(ten_id_check_namespace(route.namespace_name, &error), TENURE_OK);
        if (route.kind == TEN_ROUTE_TARGET || route.kind == TEN_ROUTE_LEASE || route.kind == TEN_ROUTE_RENEW)
            assert_int_equal(ten_id_check_target(route.id, &error), TENURE_OK);
        if (route.kind == TEN_ROUTE_NODE)
            assert_int_equal(ten_id_check_holder(route.id, &error), TENURE_OK);
    }
}
