/*
 * What a module exports: its backend, and for which library it was built. Compiled into each module, with
 * TEN_MODULE_OPS as the name of its backend's table. Read by module_load.c.
 */
#include "store/module.h"

extern const ten_store_ops TEN_MODULE_OPS;

extern const ten_module ten_store_module;
__attribute__((visibility("default")))
const ten_module ten_store_module = {.version = TENURE_VERSION, .layout = TEN_MODULE_LAYOUT, .ops = &TEN_MODULE_OPS};
