/*
 * A port for a private server. For redis_server.c and etcd_server.c.
 */
#ifndef TESTS_LIB_FREE_PORT_H
#define TESTS_LIB_FREE_PORT_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * A port that was free a moment ago; if somebody takes it meanwhile, the server does not start and another is tried. It
 * is below those that the kernel gives to connections, or one of them could take it while the server is down for a
 * test.
 */
static inline int free_port(void) {
    for (int tries = 0; tries < 100; tries++) {
        uint16_t number = 0;
        if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
            return -1;
        int port = 10000 + number % 22000;
        struct sockaddr_in address = {
            .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        bool bound = fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
        if (fd >= 0)
            close(fd);
        if (bound)
            return port;
    }
    return -1;
}

#endif
