/*
 * Telling the service manager how we are: its datagram protocol (READY=1, STOPPING=1, WATCHDOG=1), by hand, because it
 * is one datagram and libsystemd would be a dependency. Without a service manager everything here does nothing. Called
 * by the warden and the server, each from its one loop; a notifier belongs to one thread.
 */
#ifndef TEN_BASE_NOTIFY_H
#define TEN_BASE_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ten_notifier {
    int fd;               /* -1: no service manager */
    uint64_t interval_ms; /* between signs of life; 0: none are wanted */
    uint64_t next_ms;
    bool ready;
    bool stopping;
} ten_notifier;

/* Takes NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID out of the environment, so that no child speaks in our name: call
 * it before there are threads. Going without is no error. */
void ten_notifier_open(ten_notifier *notifier);
void ten_notifier_close(ten_notifier *notifier);

/* Each is sent once. */
void ten_notifier_ready(ten_notifier *notifier);
void ten_notifier_stopping(ten_notifier *notifier);

/* A sign of life when it is time for one, and how long until the next; UINT64_MAX: none are wanted. */
uint64_t ten_notifier_beat(ten_notifier *notifier, uint64_t now_ms);

#endif
