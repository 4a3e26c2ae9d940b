/*
 * The table of backends, made by src/store/meson.build from its list of stores. Compiled twice: with TEN_LOAD_MODULES
 * for the shared library, without it for everything else. See backends.h.
 */
#include "store/backends.h"

#include <string.h>

#include "base/suggest.h"
#include "store/backend_table.h"
#include "store/module.h"

#define MOST_SCHEMES 8u

/* A row is X(name, where, URL schemes...); `where` is HERE, or MODULE for what the shared library loads. */
#define X(name, where, ...) extern const ten_store_ops ten_##name##_ops;
TEN_BACKENDS(X)
#undef X

#define OPS_HERE(name) &ten_##name##_ops
#ifdef TEN_LOAD_MODULES
#define OPS_MODULE(name) NULL
#else
#define OPS_MODULE(name) OPS_HERE(name)
#endif

static const struct backend {
    const char *name;
    const ten_store_ops *ops; /* NULL: in a module */
    const char *schemes[MOST_SCHEMES];
} backends[] = {
#define X(name, where, ...) {#name, OPS_##where(name), {__VA_ARGS__}},
    TEN_BACKENDS(X)
#undef X
};

/* Schemes that some build has, so that leaving a store out is not mistaken for a typing error. */
static const char *const all_schemes[] = {TEN_ALL_SCHEMES};

const char *ten_backend_name(size_t index) {
    return index < TEN_COUNT(backends) ? backends[index].name : NULL;
}

static int unknown_scheme(const char *scheme, ten_error *error) {
    for (size_t i = 0; i < TEN_COUNT(all_schemes); i++)
        if (strcmp(all_schemes[i], scheme) == 0)
            return ten_fail(error, TENURE_E_UNSUPPORTED, "the store '%s:' was left out of this build", scheme);
    const char *meant = ten_suggest(scheme, all_schemes, TEN_COUNT(all_schemes));
    char known[256] = "";
    for (size_t i = 0; i < TEN_COUNT(all_schemes); i++) {
        size_t size = strlen(known);
        snprintf(known + size, sizeof known - size, "%s%s:", i ? " " : "", all_schemes[i]);
    }
    return ten_fail(error, TENURE_E_INVALID,
                    "there is no store '%.40s:'%s%s%s A store URL begins with one of %s, as in sqlite:/var/lib/jobs.db",
                    scheme, meant ? "; did you mean '" : ".", meant ? meant : "", meant ? ":'?" : "", known);
}

static int use(const struct backend *backend, const ten_store_ops **ret_ops, ten_error *error) {
#ifdef TEN_LOAD_MODULES
    if (!backend->ops)
        return ten_module_load(backend->name, ret_ops, error);
#else
    (void)error;
#endif
    *ret_ops = backend->ops;
    return TENURE_OK;
}

int ten_backend_find(const char *scheme, const ten_store_ops **ret_ops, ten_error *error) {
    for (size_t i = 0; i < TEN_COUNT(backends); i++)
        for (size_t k = 0; k < MOST_SCHEMES && backends[i].schemes[k]; k++)
            if (strcmp(backends[i].schemes[k], scheme) == 0)
                return use(&backends[i], ret_ops, error);
    return unknown_scheme(scheme, error);
}
