/*
 * Telling a child of fork() from its parent: the number lies on a page that the kernel wipes in the child. Called by
 * the runtime at open and at each check. It does not use pthread_atfork, which a library that is loaded and unloaded
 * cannot take back.
 */
#include "base/fork.h"

#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>

#include "base/random.h"

typedef _Atomic(uint64_t) word_type;

static _Atomic(word_type *) page;

static word_type *make_page(void) {
    void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    word_type *expected = NULL;
    if (madvise(memory, 4096, MADV_WIPEONFORK) == 0 && atomic_compare_exchange_strong(&page, &expected, memory))
        return memory;
    munmap(memory, 4096);
    return expected; /* another thread was first, or NULL */
}

uint64_t ten_fork_number(void) {
    word_type *word = atomic_load(&page);
    if (!word)
        word = make_page();
    if (!word)
        return 0;
    uint64_t number = 0;
    uint64_t fresh = ten_random_u64() | 1u;
    return atomic_compare_exchange_strong(word, &number, fresh) ? fresh : number;
}

bool ten_fork_is(uint64_t number) {
    word_type *word = atomic_load_explicit(&page, memory_order_acquire);
    return word && number != 0 && atomic_load_explicit(word, memory_order_relaxed) == number;
}
