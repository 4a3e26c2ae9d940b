/*
 * Making the worker's children cheap: see spare.h. Called once, by child.c.
 */
#include "agent/warden/spare.h"

#include <link.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"

static uintptr_t heap_start; /* 0: not known, or not ours to take away */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#else
#define SANITIZED false
#endif

static bool has_address(const struct dl_phdr_info *object, uintptr_t address) {
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        uintptr_t start = object->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_LOAD && address >= start && address < start + part->p_memsz)
            return true;
    }
    return false;
}

/* The program has no name here; the C library, the loader and the kernel's own part stay. */
static bool is_needed(const struct dl_phdr_info *object) {
    return !strstr(object->dlpi_name, ".so") || has_address(object, (uintptr_t)&execvpe) ||
           has_address(object, getauxval(AT_BASE)) || has_address(object, getauxval(AT_SYSINFO_EHDR));
}

static int advise(struct dl_phdr_info *object, size_t size, void *userdata) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    (void)size;
    for (int i = 0; i < object->dlpi_phnum && !is_needed(object); i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        uintptr_t start = (object->dlpi_addr + part->p_vaddr) & ~(page - 1);
        uintptr_t end = (object->dlpi_addr + part->p_vaddr + part->p_memsz + page - 1) & ~(page - 1);
        if (part->p_type == PT_LOAD)
            (void)madvise((void *)start, end - start, *(const int *)userdata);
    }
    return 0;
}

/* A child does what all of them do. */
static bool works(void) {
    int status = 0;
    char *const nothing[] = {NULL};
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0) {
        (void)ten_now_ms();
        ten_spare_heap();
        (void)execvpe("", nothing, nothing);
        _exit(0);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

/* The field start_brk; see proc(5). */
static uintptr_t find_heap(void) {
    char text[1024];
    unsigned long start = 0;
    if (ten_read_line("/proc/self/stat", text, sizeof text) < 0)
        return 0;
    const char *at = strrchr(text, ')');
    for (int field = 2; at && field < 47; field++)
        at = strchr(at + 1, ' ');
    return at && sscanf(at, "%lu", &start) == 1 ? start : 0;
}

void ten_spare_heap(void) {
    uintptr_t end = (uintptr_t)sbrk(0);
    if (heap_start != 0 && heap_start < end)
        (void)munmap((void *)heap_start, end - heap_start);
}

void ten_spare_libraries(void) {
    int advice = MADV_DONTFORK;
    if (SANITIZED || getenv("LD_PRELOAD") || getenv("LD_AUDIT") || access("/etc/ld.so.preload", F_OK) == 0)
        return;
    heap_start = find_heap();
    (void)dl_iterate_phdr(advise, &advice);
    if (works())
        return;
    advice = MADV_DOFORK;
    heap_start = 0;
    (void)dl_iterate_phdr(advise, &advice);
}
