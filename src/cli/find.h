/*
 * Finding what a person means: an instance by a part of its id, and a name in another namespace. Called by the
 * commands for operators.
 */
#ifndef TEN_CLI_FIND_H
#define TEN_CLI_FIND_H

#include "cli/table.h"

/* Replaces *text by the id of the one live instance that it names: the id, a prefix of it, or its short form as logs
 * and the page show it (`host-b 8758`). One that names none stays as it is. False: it names several, which has been
 * said. */
bool ten_find_instance(const ten_arguments *arguments, const char **text, char id[TENURE_HOLDER_MAX + 1]);

/* `token`: that it is held under; 0: any. Tokens of two namespaces can be equal: where it is held is only said.
 * Without --namespace: if the command's own namespace does not have what is wanted, and one other has it, goes on
 * there and says so. False: end with *ret_exit: several have it, which has been said. True if none has it. */
bool ten_find_namespace(ten_arguments *arguments, enum ten_wanted_kind kind, const char *name, uint64_t token,
                        int *ret_exit);

/* Whether the name is that of a semaphore, or of a role with several leaders. Then it says that a slot is needed. */
bool ten_find_slots(const ten_arguments *arguments, const char *name);

/* On a terminal: there are none of `what` in the namespace; names the namespaces that there are. */
void ten_find_nothing(const ten_arguments *arguments, const char *what);
/* Ends the table of a listing, which had the result `r`; if it is empty, ten_find_nothing(). The exit code. */
int ten_find_end(const ten_arguments *arguments, ten_table *table, int r, const char *what);

#endif
