/*
 * What a command must not inherit: descriptors that this process has opened, and that some library did not mark as
 * close-on-exec (the sockets of an HTTP client, for one). What this process was started with is the command's, too.
 */
#ifndef TEN_AGENT_WARDEN_DESCRIPTORS_H
#define TEN_AGENT_WARDEN_DESCRIPTORS_H

#include <stdbool.h>

#define TEN_DESCRIPTORS_MAX 256u

typedef struct ten_descriptors {
    int inherited[TEN_DESCRIPTORS_MAX]; /* in order; beyond standard input, output and error */
    unsigned count;
    bool known; /* false: they could not be listed, and nothing is hidden */
} ten_descriptors;

/* Remembers what commands inherit: before anything else is opened. */
void ten_descriptors_note(ten_descriptors *descriptors);
/* In the child, before exec: everything else is closed by exec. Only system calls. */
void ten_descriptors_hide(const ten_descriptors *descriptors);

/* Closes everything else but these and standard input, output and error, for a child that will wait. Numbers below 0
 * are none. False: this kernel cannot (before Linux 5.9). Only system calls. */
bool ten_descriptors_close(const ten_descriptors *descriptors, const int *kept, unsigned count);

#endif
