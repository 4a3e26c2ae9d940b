/*
 * A backend as a module: a shared object that the shared library loads when a URL names it. Each module has one backend
 * and its own copy of what it uses of base/ and core/; the only name that it exports is ten_store_module, which says
 * for which library it was built. module.c is in every module, module_load.c in the shared library alone.
 */
#ifndef TEN_STORE_MODULE_H
#define TEN_STORE_MODULE_H

#include "store/store.h"

#define TEN_MODULE_SYMBOL "ten_store_module"

/* What the library and a module must agree on, besides the version: the sizes of the structs that both touch. The
 * version alone does not tell two builds of a development tree apart. */
#define TEN_MODULE_LAYOUT                                                                                              \
    {                                                                                                                  \
        sizeof(ten_store), sizeof(ten_store_ops), sizeof(ten_op), sizeof(ten_result), sizeof(ten_row),                 \
            sizeof(ten_change), sizeof(ten_url), sizeof(ten_error)                                                     \
    }
#define TEN_MODULE_LAYOUT_COUNT 8u

typedef struct ten_module {
    const char *version; /* TENURE_VERSION; first, and so readable whatever the rest is */
    size_t layout[TEN_MODULE_LAYOUT_COUNT];
    const ten_store_ops *ops;
} ten_module;

/* Loads the module of that backend from the directory of the shared library, or from tenure-SOVERSION in it. No setting
 * names another place. A module stays loaded until the process ends. */
int ten_module_load(const char *name, const ten_store_ops **ret_ops, ten_error *error);

#endif
