/*
 * A lease on standard output, as JSON with the keys that scripts depend on, or as words.
 */
#ifndef TEN_CLI_LEASE_OUTPUT_H
#define TEN_CLI_LEASE_OUTPUT_H

#include <tenure.h>

#define TEN_PIN_WORDS_SIZE (TENURE_HOLDER_MAX + 32u)

/* held, free, or forced (held, but barred from renewal). */
const char *ten_state_word(const tenure_info *info);
/* "pinned to host-b 8758", "kept away from host-b 8758"; "": it is not pinned. */
void ten_print_pin_words(const tenure_info *info, char words[TEN_PIN_WORDS_SIZE]);
/* One object on a line. `planned`: the planned holder; "" or NULL: none, or unknown. 1: standard output
 * takes no more; 0: go on. */
int ten_lease_print_json(const tenure_info *info, const char *namespace_name, const char *planned);
/* A line for each thing that there is to say. `pin`: with its reason, as it was read for this target. */
void ten_lease_print_lines(const tenure_info *info, const char *namespace_name, const tenure_pin *pin);

#endif
