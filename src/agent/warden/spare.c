/*
 * Making the worker's children cheap: see spare.h. Called once, by child.c.
 */
#include "agent/warden/spare.h"

#include <link.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

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
        (void)execvpe("", nothing, nothing);
        _exit(0);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

void ten_spare_libraries(void) {
    int advice = MADV_DONTFORK;
    if (SANITIZED || getenv("LD_PRELOAD") || getenv("LD_AUDIT") || access("/etc/ld.so.preload", F_OK) == 0)
        return;
    (void)dl_iterate_phdr(advise, &advice);
    if (works())
        return;
    advice = MADV_DOFORK;
    (void)dl_iterate_phdr(advise, &advice);
}
