/*
 * Finding what a person means: an instance by a part of its id, and a name in another namespace. Called by the
 * commands for operators.
 */
#ifndef TEN_CLI_FIND_H
#define TEN_CLI_FIND_H

#include "cli/session.h"

/* Replaces *text by the id of the one live instance that it names: the id, a prefix of it, or its short form as logs and
 * the page show it (`host-b 8758`). One that names none stays as it is. False: it names several, which has been said. */
bool ten_find_instance(const ten_session *session, const char **text, char id[TENURE_HOLDER_MAX + 1]);

typedef struct ten_wanted {
    enum ten_wanted_kind {
        TEN_WANTED_KNOWN, /* a target that was registered or leased */
        TEN_WANTED_HELD,
        TEN_WANTED_ROLE, /* that somebody leads or waits for */
        TEN_WANTED_INSTANCE,
    } kind;
    const char *name;
    /* Held under this token; 0: any. Tokens of two namespaces can be equal: where it is held is only said. */
    uint64_t token;
} ten_wanted;

/* Without --namespace: if the command's own namespace does not have what is wanted, and one other has it, goes on there and
 * says so. False: end with *ret_exit, the session is closed: several have it, which has been said. True if none has it. */
bool ten_find_namespace(ten_session *session, const ten_wanted *wanted, int *ret_exit);

/* On a terminal: there are none of `what` in the namespace; names the namespaces that there are. */
void ten_find_nothing(const ten_session *session, const char *what);

#endif
