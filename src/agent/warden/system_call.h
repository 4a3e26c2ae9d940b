/*
 * System calls for what has no C library (first_program.c), and for what it shares with the rest. They return a
 * negative errno.
 */
#ifndef TEN_AGENT_SYSTEM_CALL_H
#define TEN_AGENT_SYSTEM_CALL_H

#include <sys/syscall.h>

#if defined(TEN_NO_C_LIBRARY) && defined(__x86_64__)

static inline long ten_system_call(long number, long a, long b, long c, long d, long e, long f) {
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

/* The kernel starts a program with its arguments on the stack. */
#define TEN_ENTRY(function)                                                                                            \
    __asm__(".globl _start\n_start: mov %rsp, %rdi\n xor %ebp, %ebp\n and $-16, %rsp\n call " #function "\n")

#elif defined(TEN_NO_C_LIBRARY) && defined(__aarch64__)

static inline long ten_system_call(long number, long a, long b, long c, long d, long e, long f) {
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
}

#define TEN_ENTRY(function)                                                                                            \
    __asm__(".globl _start\n_start: mov x0, sp\n mov x29, xzr\n mov x30, xzr\n bl " #function "\n")

#elif !defined(TEN_NO_C_LIBRARY)

#include <errno.h>
#include <unistd.h>

static inline long ten_system_call(long number, long a, long b, long c, long d, long e, long f) {
    long result = syscall(number, a, b, c, d, e, f);
    return result == -1 ? -errno : result;
}

#endif

#endif
