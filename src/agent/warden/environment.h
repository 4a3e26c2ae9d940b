/*
 * The environment of a command. Used by polls, by the commands of elect, once and lock, and by crontabs.
 */
#ifndef TEN_AGENT_ENVIRONMENT_H
#define TEN_AGENT_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

/* The environment of this process with some variables set, or taken out if their value is NULL; `keep_ours`: also with
 * its TENURE_ variables, else without. NULL: no memory. */
char **ten_environment_make(const char *const (*ours)[2], size_t count, bool keep_ours);
void ten_environment_free(char **variables);

#endif
