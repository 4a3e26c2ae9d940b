/*
 * By which host a client calls a server: the value of a Host header. A page of another site that has made its own name
 * point to this machine (DNS rebinding) shows itself by that. And where a server listens.
 */
#ifndef TEN_BASE_HOST_H
#define TEN_BASE_HOST_H

#include <netdb.h>
#include <stdbool.h>
#include <stddef.h>

/* The length of the host, without its port; SIZE_MAX: what follows it is no port. */
size_t ten_host_length(const char *host);
/* Whether it is this host's own: localhost, 127.0.0.0/8 or [::1], with any port. */
bool ten_host_is_loopback(const char *host);

#define TEN_HOST_SHOWN 80u

/* A socket that listens at the address. Negative: that of errno. */
int ten_host_listen(const struct addrinfo *info);
/* Where it listens, as ADDR:PORT or [ADDR]:PORT. */
void ten_host_show(int fd, char text[TEN_HOST_SHOWN]);

#endif
