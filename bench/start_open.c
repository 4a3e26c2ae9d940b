/*
 * A user's program for start.c: opens a SQLite store and ends. It is built twice: with the shared library, and with all
 * stores linked in, as the library was before it had modules.
 */
#include <stdio.h>
#include <tenure.h>

int main(int argc, char **argv) {
    tenure_context *context = NULL;
    if (argc != 2 || tenure_open(argv[1], NULL, &context) < 0) {
        fprintf(stderr, "start-open: %s\n", tenure_message(NULL));
        return 1;
    }
    tenure_close(context);
    return 0;
}
