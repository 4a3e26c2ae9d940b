/*
 * Making the worker's children cheap. A child is a copy of the worker until it becomes its command, and the first process
 * of a PID namespace stays one. It needs the program and the C library. The kernel does not copy the forty other
 * libraries, which makes the start and the end of a child several times cheaper.
 */
#ifndef TEN_AGENT_SPARE_H
#define TEN_AGENT_SPARE_H

/* From here on a child of this process must not call a library other than the C library, and fork() must not be used:
 * libraries have handlers for it. Nothing changes where a library may stand before the C library (LD_PRELOAD, sanitizers).
 */
void ten_spare_libraries(void);

/* In a child that never uses the heap again: its pages go now, and not when the child is in a hurry to end. Until then it
 * would keep a copy of each page that the worker changes, and the worker's heap grows with its targets. */
void ten_spare_heap(void);

#endif
