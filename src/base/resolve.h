/*
 * Names to addresses, within a bounded time. The system's resolver has no timeout of its own, so it runs in a
 * thread of its own, which is left behind when it takes too long.
 */
#ifndef TEN_BASE_RESOLVE_H
#define TEN_BASE_RESOLVE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/error.h"

#define TEN_ADDRESSES_MAX 8u

typedef struct ten_address {
    struct sockaddr_storage address;
    socklen_t size;
} ten_address;

typedef struct ten_addresses {
    ten_address at[TEN_ADDRESSES_MAX];
    size_t count;
} ten_addresses;

/* The addresses of the host, with the port in them, by deadline_ms on the boot clock. A literal address costs nothing.
 * TENURE_E_UNREACHABLE: there is no such host, or the resolver failed; TENURE_E_TIMEOUT: it did not answer, or too many
 * questions are without an answer already. */
int ten_resolve(const char *host, uint16_t port, uint64_t deadline_ms, ten_addresses *ret_addresses, ten_error *error);

/* "127.0.0.1:6379", "[::1]:6379" */
void ten_address_show(const struct sockaddr *address, socklen_t size, char *text, size_t room);

#endif
