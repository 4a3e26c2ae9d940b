/*
 * Pins as the commands set them: which instance is meant, and what the pin will do. Called by move and release.
 */
#ifndef TEN_CLI_PINNING_H
#define TEN_CLI_PINNING_H

#include "cli/arguments.h"

/* Fills in the instance that `text` means: an id, a unique prefix of it, or as it is shown ("host-b 8758"). False:
 * there is none, or there are several, and *ret_exit_code says so, too. */
bool ten_pinning_find(const ten_arguments *arguments, const char *text, tenure_pin *pin, int *ret_exit_code);
/* Copies the reason. False: it is too long, and that has been said. */
bool ten_pinning_set_reason(const ten_arguments *arguments, const char *reason, tenure_pin *pin, int *ret_exit_code);

/* What the fleet makes of a target that has just been pinned. */
typedef struct ten_pinning_effect {
    bool idle;                           /* it has no effect because of the instance that it names */
    char planned[TENURE_HOLDER_MAX + 1]; /* as it is shown; "": none */
    char holder[TENURE_HOLDER_MAX + 1];  /* the same; "": it is free */
} ten_pinning_effect;

int ten_pinning_read(const ten_arguments *arguments, const char *target, const tenure_pin *pin,
                     ten_pinning_effect *effect);

#endif
