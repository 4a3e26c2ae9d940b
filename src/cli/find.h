/*
 * Finding what a person means: an instance by a part of its id, and a target that is in another namespace. Called by the
 * commands for operators.
 */
#ifndef TEN_CLI_FIND_H
#define TEN_CLI_FIND_H

#include "cli/session.h"

/* Replaces *text by the id of the one live instance that it names: the id, a prefix of it, or its short form as logs and
 * the page show it (`host-b 8758`). One that names none stays as it is. False: it names several, which has been said. */
bool ten_find_instance(const ten_session *session, const char **text, char id[TENURE_HOLDER_MAX + 1]);

/* Says in which other namespaces there is such a target, if there are some. */
void ten_find_elsewhere(const ten_session *session, const char *target);

/* On a terminal: there are none of `what` in the namespace; names the namespaces that there are. */
void ten_find_nothing(const ten_session *session, const char *what);

#endif
