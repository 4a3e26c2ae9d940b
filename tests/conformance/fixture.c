/*
 * Finds the fixture of a store by its URL. Those of this build stand in the same table as their stores
 * (src/store/meson.build). See fixture.h.
 */
#include "conformance/fixture.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "store/backend_table.h"

/* ---- directories --------------------------------------------------------------------------------------- */

int fixture_make_directory(char path[FIXTURE_PATH_SIZE]) {
    const char *parent = getenv("TMPDIR");
    snprintf(path, FIXTURE_PATH_SIZE, "%s/tenure-conformance-XXXXXX", parent && parent[0] == '/' ? parent : "/tmp");
    return mkdtemp(path) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *where) {
    (void)info;
    (void)type;
    (void)where;
    return remove(path);
}

void fixture_remove_directory(const char *path) {
    if (path[0] != '\0')
        (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- all ----------------------------------------------------------------------------------------------- */

#define X(name, ...) extern const fixture_kind name##_fixture;
TEN_BACKENDS(X)
#undef X

static const fixture_kind *const kinds[] = {
#define X(name, ...) &name##_fixture,
    TEN_BACKENDS(X)
#undef X
};

int fixture_create(struct fixture *fixture, const char *url) {
    *fixture = (struct fixture){0};
    for (size_t i = 0; i < TEN_COUNT(kinds); i++) {
        size_t size = strlen(kinds[i]->scheme);
        if (strncmp(url, kinds[i]->scheme, size) == 0 && (url[size] == '\0' || url[size] == '?')) {
            fixture->kind = kinds[i];
            fixture->options = url + size + (url[size] == '?');
            return kinds[i]->create(fixture);
        }
    }
    snprintf(fixture->url, sizeof fixture->url, "%s", url);
    return 0;
}

void fixture_destroy(struct fixture *fixture) {
    if (fixture->kind)
        fixture->kind->destroy(fixture);
}

void fixture_age_feed_of_database(const char *path) {
    char line[2 * FIXTURE_PATH_SIZE];
    snprintf(line, sizeof line,
             "python3 -c 'import sqlite3, sys; database = sqlite3.connect(sys.argv[1], timeout=30); "
             "database.execute(\"UPDATE change SET at_ms = at_ms - 120000\"); database.commit()' '%s'",
             path);
    if (system(line) != 0)
        fprintf(stderr, "the feed of %s could not be made older\n", path);
}
