/*
 * Making the worker's children cheap. A child is a copy of the worker until it becomes its command, or the program of a
 * namespace's first process. Until then it needs the program and the C library. The kernel does not copy the forty
 * other libraries, which saves a fifth of the processor time that starting a command takes.
 */
#ifndef TEN_AGENT_SPARE_H
#define TEN_AGENT_SPARE_H

/* From here on a child of this process must not call a library other than the C library, and fork() must not be used:
 * libraries have handlers for it. Nothing changes where a library may stand before the C library (LD_PRELOAD,
 * sanitizers).
 */
void ten_spare_libraries(void);

#endif
