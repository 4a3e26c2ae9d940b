/*
 * Memory that processes share. Used for what a worker shows its warden and the first processes of its commands'
 * namespaces.
 */
#ifndef TEN_BASE_MEMFD_H
#define TEN_BASE_MEMFD_H

#include <stddef.h>

/* Filled with zeros, and taken from the system only as it is used. Children of this process share it. A program that
 * they execute can map *ret_fd, which is -1 where the system permits no such descriptor. NULL: errno says why. */
void *ten_memfd_share(size_t size, int *ret_fd);

/* A descriptor of a program that execveat() can run, and that is sealed against changes. -1: errno says why. */
int ten_memfd_program(const void *image, size_t size);

#endif
