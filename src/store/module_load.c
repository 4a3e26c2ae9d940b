/*
 * Finds a backend's module beside the shared library and loads it. Called by backends.c, in the shared library alone.
 * It reads no environment and no configuration: who can put a file beside the library can replace the library as well.
 */
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "store/module.h"

/* The directory of this library, without symbolic links. The dynamic linker knows it from the moment of loading: a
 * relative path of LD_LIBRARY_PATH is no longer right after a chdir(). */
static bool own_directory(char directory[PATH_MAX]) {
    static const char here = 0;
    Dl_info info;
    struct link_map *map = NULL;
    char origin[PATH_MAX];
    if (!dladdr1(&here, &info, (void **)&map, RTLD_DL_LINKMAP) || !map || dlinfo(map, RTLD_DI_ORIGIN, origin) != 0)
        return false;
    const char *name = strrchr(map->l_name, '/');
    ten_buf path = {0};
    ten_buf_format(&path, "%s/%s", origin, name ? name + 1 : map->l_name);
    bool found = !path.failed && realpath(path.data, directory);
    ten_buf_free(&path);
    if (found)
        *strrchr(directory, '/') = '\0';
    return found;
}

/* Installed, the modules have a directory of their own; a build directory has them beside the library. */
static void *load(const char *directory, const char *name, ten_error *error) {
    ten_buf path = {0};
    ten_buf_format(&path, "%s/" TEN_MODULE_DIRECTORY "/tenure-%s.so", directory, name);
    if (!path.failed && access(path.data, F_OK) != 0) {
        ten_buf_clear(&path);
        ten_buf_format(&path, "%s/tenure-%s.so", directory, name);
    }
    if (path.failed) {
        ten_buf_free(&path);
        ten_fail_memory(error, "the path of a module");
        return NULL;
    }
    /* RTLD_NODELETE: threads, and what other libraries run at exit, may outlive a store. */
    void *module = dlopen(path.data, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!module)
        ten_fail(error, TENURE_E_UNSUPPORTED,
                 "cannot load the module for %s stores: %s (Debian has it in the package libtenure0-%s)", name,
                 dlerror(), name);
    ten_buf_free(&path);
    return module;
}

static int check(const char *name, const ten_module *module, const ten_store_ops **ret_ops, ten_error *error) {
    static const size_t layout[TEN_MODULE_LAYOUT_COUNT] = TEN_MODULE_LAYOUT;
    if (!module)
        return ten_fail(error, TENURE_E_UNSUPPORTED, "tenure-%s.so is not a module of Tenure", name);
    if (strcmp(module->version, TENURE_VERSION) != 0)
        return ten_fail(error, TENURE_E_UNSUPPORTED,
                        "tenure-%s.so is version %s, but libtenure is version %s: install the same version of "
                        "both, and start the program again",
                        name, module->version, TENURE_VERSION);
    if (memcmp(module->layout, layout, sizeof layout) != 0)
        return ten_fail(error, TENURE_E_UNSUPPORTED, "tenure-%s.so and libtenure are from different builds", name);
    *ret_ops = module->ops;
    return TENURE_OK;
}

int ten_module_load(const char *name, const ten_store_ops **ret_ops, ten_error *error) {
    char directory[PATH_MAX];
    ten_error why = {0};
    if (!own_directory(directory))
        return ten_fail(error, TENURE_E_UNSUPPORTED, "cannot find the directory of libtenure, which has tenure-%s.so",
                        name);
    void *module = load(directory, name, &why);
    if (!module) {
        if (error)
            *error = why;
        return why.code;
    }
    return check(name, dlsym(module, TEN_MODULE_SYMBOL), ret_ops, error);
}
