/*
 * Foreign text on a terminal. What a store or a server says (a holder, a target, a message) may hold anything: a
 * control character would break the line, forge another, or do something to the terminal. Every command prints such
 * text by these functions, or in a table, which uses them.
 */
#ifndef TEN_CLI_VISIBLE_H
#define TEN_CLI_VISIBLE_H

#include <stdio.h>

#include "base/util.h"

/* Control characters and what is not UTF-8 are shown as \xHH. */
void ten_print_visible(FILE *to, const char *text);
/* The same as text, to be freed; NULL: out of memory. */
char *ten_visible(const char *text);
/* A line on standard error: "tenure: " and the text. */
void ten_say(const char *text);
void ten_say_format(const char *format, ...) TEN_PRINTF(1, 2);

#endif
