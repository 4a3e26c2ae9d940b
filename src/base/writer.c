/*
 * A writer with a ring and a thread. Called by the log and by the agent's sinks.
 */
#include "base/writer.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/thread.h"

#define RING_SIZE_DEFAULT ((size_t)256 * 1024)
#define CHUNK_SIZE        4096u

struct ten_writer {
    int fd;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t filled;  /* something to write, or stopping */
    pthread_cond_t emptied; /* nothing left, or the descriptor is dead */
    char *ring;
    size_t room;
    size_t start;
    size_t used;
    bool writing; /* the thread is inside write() with a chunk that is no longer in the ring */
    bool dead;    /* the descriptor failed */
    bool stopping;
    bool abandoned; /* closed while the thread was stuck: the memory is the thread's to free */
};

static void free_writer(ten_writer *writer) {
    pthread_mutex_destroy(&writer->lock);
    pthread_cond_destroy(&writer->filled);
    pthread_cond_destroy(&writer->emptied);
    ten_free(writer->ring);
    ten_free(writer);
}

/* ---- the ring; the lock is held */

static void ring_put(ten_writer *writer, const char *data, size_t size) {
    size_t end = (writer->start + writer->used) % writer->room;
    size_t first = ten_min_u64(size, writer->room - end);
    memcpy(writer->ring + end, data, first);
    memcpy(writer->ring, data + first, size - first);
    writer->used += size;
}

static size_t ring_take(ten_writer *writer, char *chunk) {
    size_t count = ten_min_u64(writer->used, CHUNK_SIZE);
    size_t first = ten_min_u64(count, writer->room - writer->start);
    memcpy(chunk, writer->ring + writer->start, first);
    memcpy(chunk + first, writer->ring, count - first);
    writer->start = (writer->start + count) % writer->room;
    writer->used -= count;
    return count;
}

bool ten_writer_put(ten_writer *writer, const char *data, size_t size) {
    pthread_mutex_lock(&writer->lock);
    bool fits = !writer->dead && size <= writer->room - writer->used;
    if (fits)
        ring_put(writer, data, size);
    pthread_cond_signal(&writer->filled);
    pthread_mutex_unlock(&writer->lock);
    return fits;
}

/* ---- the thread */

/* Somebody else may have made the descriptor non-blocking: it is shared with the parent process. */
static int write_out(int fd, const char *chunk, size_t size) {
    while (size > 0) {
        ssize_t count = write(fd, chunk, size);
        if (count >= 0) {
            chunk += count;
            size -= (size_t)count;
        } else if (errno == EAGAIN) {
            struct pollfd writable = {.fd = fd, .events = POLLOUT};
            (void)poll(&writable, 1, 1000);
        } else if (errno != EINTR) {
            return -errno;
        }
    }
    return 0;
}

static void *run(void *arg) {
    ten_writer *writer = arg;
    char chunk[CHUNK_SIZE];
    pthread_mutex_lock(&writer->lock);
    for (;;) {
        while (writer->used == 0 && !writer->stopping)
            pthread_cond_wait(&writer->filled, &writer->lock);
        if (writer->used == 0 || writer->dead)
            break;
        size_t count = ring_take(writer, chunk);
        int fd = writer->fd;
        writer->writing = true;
        pthread_mutex_unlock(&writer->lock);
        int r = write_out(fd, chunk, count);
        pthread_mutex_lock(&writer->lock);
        writer->writing = false;
        if (r < 0)
            writer->dead = true;
        if (writer->dead || writer->used == 0)
            pthread_cond_broadcast(&writer->emptied);
        if (writer->dead)
            break;
    }
    bool abandoned = writer->abandoned;
    pthread_mutex_unlock(&writer->lock);
    if (abandoned)
        free_writer(writer);
    return NULL;
}

int ten_writer_open(int fd, size_t ring_size, ten_writer **ret_writer, ten_error *error) {
    ten_writer *writer = ten_calloc(1, sizeof *writer);
    char *ring = writer ? ten_malloc(ring_size ? ring_size : RING_SIZE_DEFAULT) : NULL;
    if (!ring) {
        ten_free(writer);
        return ten_fail_memory(error, "a writer");
    }
    writer->fd = fd;
    writer->ring = ring;
    writer->room = ring_size ? ring_size : RING_SIZE_DEFAULT;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&writer->lock, NULL);
    pthread_cond_init(&writer->filled, &monotonic);
    pthread_cond_init(&writer->emptied, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int failed = ten_thread_start(&writer->thread, run, writer);
    if (failed) {
        free_writer(writer);
        return ten_fail_errno(error, TENURE_E_SYSTEM, failed, "cannot start a writer's thread");
    }
    *ret_writer = writer;
    return TENURE_OK;
}

/* ---- flushing and closing */

static struct timespec time_after(uint64_t ms) {
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    uint64_t nanoseconds = (uint64_t)end.tv_nsec + ms % 1000u * 1000000u;
    end.tv_sec += (time_t)(ms / 1000u + nanoseconds / 1000000000u);
    end.tv_nsec = (long)(nanoseconds % 1000000000u);
    return end;
}

/* Whether something is still to be written; the lock is held. */
static bool is_busy(const ten_writer *writer) {
    return !writer->dead && (writer->used > 0 || writer->writing);
}

/* Waits until everything is written, the descriptor has failed or the time is over; the lock is held. */
static void wait_until_idle(ten_writer *writer, uint64_t wait_ms) {
    struct timespec end = time_after(wait_ms);
    int waited = 0;
    while (is_busy(writer) && waited == 0)
        waited = pthread_cond_timedwait(&writer->emptied, &writer->lock, &end);
}

void ten_writer_flush(ten_writer *writer, uint64_t wait_ms) {
    pthread_mutex_lock(&writer->lock);
    wait_until_idle(writer, wait_ms);
    pthread_mutex_unlock(&writer->lock);
}

void ten_writer_close(ten_writer *writer, uint64_t flush_ms) {
    if (!writer)
        return;
    pthread_mutex_lock(&writer->lock);
    writer->stopping = true;
    pthread_cond_signal(&writer->filled);
    wait_until_idle(writer, flush_ms);
    if (is_busy(writer)) {
        /* The thread sits in write() and will look again if that ever returns: leave it its memory. It then writes
         * nothing more, because the descriptor may have become another file's. */
        writer->dead = true;
        writer->abandoned = true;
        pthread_detach(writer->thread);
        pthread_mutex_unlock(&writer->lock);
        return;
    }
    pthread_mutex_unlock(&writer->lock);
    pthread_join(writer->thread, NULL);
    free_writer(writer);
}
