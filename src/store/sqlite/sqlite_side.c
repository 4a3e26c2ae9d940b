/*
 * The side file of a SQLite store. Called by sqlite.c only.
 *
 * The queue. SQLite's busy handler sleeps in growing steps and loses every race: of three busy writers one got no turn
 * for seconds. A blocking file lock is no better by itself, because whoever has just released it takes it again before
 * the sleeper is awake. So writers draw tickets: one takes the next number by locking the byte with that number, inside
 * a short lock (the door) unless nobody else is there, and waits until the byte of the number before is free. Nobody
 * can overtake, each waits for one other only, and the kernel drops the locks of a process that dies. The wait is
 * polled in small steps since a file lock cannot be waited for with a time-out; as nobody can overtake, the sleeper
 * loses at most one step.
 */
#include "store/sqlite/sqlite_side.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/io.h"

#define TICKET_OFFSET 512
#define DOOR_BYTE     ((off_t)1 << 40)
#define WATCH_BYTE    (DOOR_BYTE + 1) /* shared by all who watch */
#define TICKET_BYTES  ((off_t)1 << 41)
#define TICKET_SPAN   ((uint64_t)1 << 61)

/* A notice is an open for writing and a close: no write, since the memory is written at each renewal and must wake
 * nobody, and no change of the file's times, since an inode made dirty is written by the next fdatasync of its
 * neighbour, the WAL (ext4 without a journal). IN_ATTRIB comes when the file's last name goes. */
#define WATCHED_EVENTS (IN_ATTRIB | IN_CLOSE_WRITE | IN_DELETE_SELF | IN_MOVE_SELF)

static const char magic[8] = {'T', 'E', 'N', 'S', 'I', 'D', 'E', '2'};

struct file_memory {
    char magic[8];
    char boot_id[TEN_BOOT_ID_SIZE];
    uint64_t cursor;
    uint64_t last_end_ms;
    uint64_t inode; /* of the file itself; in a copy it is another's */
    uint64_t generation;
    uint64_t written_ms;
};

struct file_ticket {
    uint64_t next;
    uint64_t written_ms;
};

/* The later of both is about the file's ctime, in Unix time, until somebody else changes the file. */
struct whole_file {
    struct file_memory memory;
    char gap[TICKET_OFFSET - sizeof(struct file_memory)];
    struct file_ticket ticket;
};

/* How far the ctime may be from that. It is later by a tick of the kernel's clock, and earlier where a file system
 * keeps whole seconds. A loss of power may keep a file's times and lose the content that was written with them. */
#define CTIME_LATER_MS   20u
#define CTIME_EARLIER_MS 2000u
#define CTIME_LOST_MS    120000u
#define CTIME_EVERY_MS   1000u

/* ---- locks on bytes */

static int set_lock(int fd, int command, struct flock *lock, short type, off_t byte, off_t count) {
    *lock = (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = count};
    return fcntl(fd, command, lock);
}

static bool lock_bytes(int fd, off_t byte, off_t count) {
    struct flock lock;
    return set_lock(fd, F_OFD_SETLK, &lock, F_WRLCK, byte, count) == 0;
}

static void unlock_bytes(int fd, off_t byte, off_t count) {
    struct flock lock;
    (void)set_lock(fd, F_OFD_SETLK, &lock, F_UNLCK, byte, count);
}

static bool byte_is_free(int fd, off_t byte) {
    struct flock lock;
    return set_lock(fd, F_OFD_GETLK, &lock, F_WRLCK, byte, 1) != 0 || lock.l_type == F_UNLCK;
}

/* The byte before it is that of the ticket before. */
static off_t ticket_byte(uint64_t ticket) {
    return TICKET_BYTES + 1 + (off_t)(ticket % TICKET_SPAN);
}

/* Sleeps a little longer each time, up to half a millisecond; false when patience has ended. */
static bool sleep_a_step(uint64_t *step_us, uint64_t patience_end_us) {
    if (ten_boot_us() >= patience_end_us)
        return false;
    ten_sleep_us(*step_us);
    *step_us = ten_min_u64(*step_us + *step_us / 2, 500);
    return true;
}

/* As the file system takes it, also where a library gives the program another time. */
static uint64_t kernel_wall_ms(void) {
    struct timespec now = {0};
    (void)syscall(SYS_clock_gettime, CLOCK_REALTIME_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

/* Writes a part of the file, with the time of that in it. Again if this process was kept waiting meanwhile, so that the
 * ctime is later. */
static int write_part(const ten_sqlite_side *side, const void *part, size_t size, off_t offset, uint64_t *written_ms) {
    int r;
    int tries = 0;
    do {
        *written_ms = kernel_wall_ms();
        r = ten_pwrite_all(side->fd, part, size, offset);
    } while (r >= 0 && kernel_wall_ms() > *written_ms + CTIME_LATER_MS / 2 && ++tries < 100);
    return r;
}

static bool read_next(const ten_sqlite_side *side, uint64_t *ret_next) {
    *ret_next = 0; /* of a new file */
    return ten_pread_all(side->fd, ret_next, sizeof *ret_next, TICKET_OFFSET) >= 0;
}

/* When nobody else is there, which is nearly always: one lock on the next number and the one before it says both that
 * it is mine and that it is my turn. The number is not written as used, since whoever comes meanwhile finds it locked.
 * It is read again under the lock: if somebody drew a later one in between, going ahead of him would be overtaking. */
static bool enter_at_once(ten_sqlite_side *side) {
    uint64_t next, again;
    if (!read_next(side, &next) || !lock_bytes(side->fd, ticket_byte(next) - 1, 2))
        return false;
    side->ticket = next;
    side->queued = read_next(side, &again) && again == next;
    if (!side->queued)
        unlock_bytes(side->fd, ticket_byte(next) - 1, 2);
    return side->queued;
}

/* Inside the door. Of the numbers from the written one on, only that one itself can be taken. It is written after the
 * lock, so that enter_at_once() cannot find the number before its own still free. */
static bool draw_ticket(ten_sqlite_side *side) {
    struct file_ticket ticket;
    if (!read_next(side, &ticket.next))
        return false;
    side->ticket = ticket.next;
    if (lock_bytes(side->fd, ticket_byte(ticket.next), 1))
        return true;
    side->ticket = ticket.next + 1;
    ticket.next += 2;
    return lock_bytes(side->fd, ticket_byte(side->ticket), 1) &&
           write_part(side, &ticket, sizeof ticket, TICKET_OFFSET, &ticket.written_ms) == 0;
}

void ten_sqlite_side_enter(ten_sqlite_side *side, uint64_t patience_end_us) {
    if (side->fd < 0) /* it could not be opened again; ten_sqlite_side_read() tries, and tells */
        return;
    if (enter_at_once(side))
        return;
    uint64_t step_us = 20;
    while (!lock_bytes(side->fd, DOOR_BYTE, 1))
        if (!sleep_a_step(&step_us, patience_end_us))
            return;
    side->queued = draw_ticket(side);
    unlock_bytes(side->fd, DOOR_BYTE, 1);
    step_us = 20;
    while (side->queued && !byte_is_free(side->fd, ticket_byte(side->ticket) - 1))
        if (!sleep_a_step(&step_us, patience_end_us))
            return;
}

void ten_sqlite_side_leave(ten_sqlite_side *side) {
    if (side->queued)
        unlock_bytes(side->fd, ticket_byte(side->ticket) - 1, 2);
    side->queued = false;
}

/* ---- the file */

static int add_watch(ten_sqlite_side *side);

static int open_file(ten_sqlite_side *side, ten_error *error) {
    side->fd = open(side->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (side->fd < 0 && errno == ENOENT) {
        side->fd = open(side->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, side->mode);
        /* As SQLite does for its own side files: who may write the database may write this. */
        if (side->fd >= 0)
            (void)fchmod(side->fd, side->mode);
    }
    struct stat info;
    if (side->fd < 0 || fstat(side->fd, &info) != 0)
        return ten_fail_errno(error, TENURE_E_UNREACHABLE, errno, "cannot open %s", side->path);
    side->device = info.st_dev;
    side->inode = info.st_ino;
    side->looked_ms = 0;
    /* Another file than the one that was watched: whoever waits keeps its descriptor. */
    if (side->watch_fd >= 0)
        (void)add_watch(side);
    return TENURE_OK;
}

int ten_sqlite_side_open(ten_sqlite_side *side, const char *database_path, mode_t mode, ten_error *error) {
    *side = (ten_sqlite_side){.fd = -1, .watch_fd = -1, .mode = mode & 0666};
    ten_buf path = {0};
    ten_buf_format(&path, "%s-lock", database_path);
    side->path = path.data;
    if (path.failed)
        return ten_fail_memory(error, "%s-lock", database_path);
    return open_file(side, error);
}

void ten_sqlite_side_close(ten_sqlite_side *side) {
    ten_close_fd(&side->fd);
    ten_close_fd(&side->watch_fd);
    ten_free(side->path);
    side->path = NULL;
}

/* Somebody may have deleted the file; the one that others see is the one that counts. Its times are not asked for: to
 * Linux 6.13 and later that means that somebody compares them, and that the next write must change them. */
static int follow_path(ten_sqlite_side *side, ten_error *error) {
    struct statx info;
    if (side->fd >= 0 && statx(AT_FDCWD, side->path, 0, STATX_INO, &info) == 0 && info.stx_ino == side->inode &&
        makedev(info.stx_dev_major, info.stx_dev_minor) == side->device)
        return TENURE_OK;
    ten_sqlite_side_leave(side);
    ten_close_fd(&side->fd);
    return open_file(side, error);
}

/* Whether the content was put there by another than us: a backup copied over the file, which keeps the inode, or a file
 * that got the inode of the one that was removed. No copy keeps its ctime. Looked at now and then only; see
 * follow_path(). */
static bool is_put_back(ten_sqlite_side *side, const char *boot_id) {
    struct whole_file found = {0};
    struct whole_file again = {0};
    struct stat info;
    uint64_t now_ms = ten_now_ms();
    if (side->looked_ms && now_ms < side->looked_ms + CTIME_EVERY_MS)
        return false;
    if (ten_pread_all(side->fd, &found, sizeof found, 0) < 0 || fstat(side->fd, &info) != 0 ||
        ten_pread_all(side->fd, &again, sizeof again, 0) < 0 || memcmp(&found, &again, sizeof again) != 0)
        return false; /* somebody writes: the next one looks */
    uint64_t ctime_ms = (uint64_t)info.st_ctim.tv_sec * 1000u + (uint64_t)info.st_ctim.tv_nsec / 1000000u;
    uint64_t written_ms = ten_max_u64(found.memory.written_ms, found.ticket.written_ms);
    bool same_boot = strncmp(found.memory.boot_id, boot_id, sizeof found.memory.boot_id) == 0;
    if (ctime_ms > written_ms + (same_boot ? CTIME_LATER_MS : CTIME_LOST_MS) ||
        ctime_ms + (same_boot ? CTIME_EARLIER_MS : CTIME_LOST_MS) < written_ms)
        return true;
    side->looked_ms = now_ms;
    return false;
}

int ten_sqlite_side_read(ten_sqlite_side *side, const char *boot_id, ten_side_memory *memory, ten_error *error) {
    struct file_memory found = {0};
    *memory = (ten_side_memory){0};
    int r = follow_path(side, error);
    if (r < 0)
        return r;
    ssize_t count = ten_pread_all(side->fd, &found, sizeof found, 0);
    if (count < 0)
        return ten_fail_errno(error, TENURE_E_STORE, (int)-count, "cannot read %s", side->path);
    if (count < (ssize_t)sizeof found || memcmp(found.magic, magic, sizeof magic) != 0)
        return TENURE_OK;
    memory->cursor = found.cursor;
    /* A copy, put back from a backup together with the database, knows nothing of what came after it. */
    memory->put_back = is_put_back(side, boot_id);
    if (memory->put_back || found.inode != (uint64_t)side->inode)
        return TENURE_OK;
    memcpy(memory->boot_id, found.boot_id, sizeof memory->boot_id);
    memory->boot_id[sizeof memory->boot_id - 1] = '\0';
    memory->last_end_ms = found.last_end_ms;
    memory->generation = found.generation;
    return TENURE_OK;
}

int ten_sqlite_side_write(ten_sqlite_side *side, const ten_side_memory *memory, ten_error *error) {
    struct file_memory record = {.cursor = memory->cursor,
                                 .last_end_ms = memory->last_end_ms,
                                 .inode = (uint64_t)side->inode,
                                 .generation = memory->generation};
    memcpy(record.magic, magic, sizeof magic);
    memcpy(record.boot_id, memory->boot_id, sizeof record.boot_id);
    int r = write_part(side, &record, sizeof record, 0, &record.written_ms);
    if (r < 0)
        return ten_fail_errno(error, r == -ENOSPC || r == -EDQUOT ? TENURE_E_FULL : TENURE_E_STORE, -r,
                              "cannot write %s", side->path);
    return TENURE_OK;
}

/* ---- notices */

/* Nobody watches: no notice. Whoever begins to watch after this look reads the changes after that, and so sees the one
 * that was committed before the look. A handle's own lock does not count as another's. */
static bool is_watched(const ten_sqlite_side *side) {
    return side->watch_fd >= 0 || !byte_is_free(side->fd, WATCH_BYTE);
}

void ten_sqlite_side_notify(ten_sqlite_side *side) {
    if (!is_watched(side))
        return;
    int fd = open(side->path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    /* Out of descriptors, or of rights: a change of times wakes, too. Should it fail as well, watchers learn of the
     * change with the next one, or when they look by themselves. */
    if (fd < 0)
        (void)futimens(side->fd, NULL);
    ten_close_fd(&fd);
}

/* Says that somebody watches; see ten_sqlite_side_notify(). */
static bool lock_watch_byte(const ten_sqlite_side *side) {
    struct flock lock;
    return set_lock(side->fd, F_OFD_SETLK, &lock, F_RDLCK, WATCH_BYTE, 1) == 0;
}

static int add_watch(ten_sqlite_side *side) {
    if (!lock_watch_byte(side))
        return -errno;
    return inotify_add_watch(side->watch_fd, side->path, WATCHED_EVENTS) < 0 ? -errno : 0;
}

int ten_sqlite_side_watch(ten_sqlite_side *side, ten_error *error) {
    if (side->watch_fd >= 0)
        return TENURE_OK;
    side->watch_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (side->watch_fd < 0)
        return ten_fail_errno(
            error, TENURE_E_SYSTEM, errno,
            "cannot watch the store: inotify is used up (sysctl fs.inotify.max_user_instances raises the limit)");
    int r = add_watch(side);
    if (r < 0) {
        ten_close_fd(&side->watch_fd);
        return ten_fail_errno(error, TENURE_E_SYSTEM, -r, "cannot watch %s", side->path);
    }
    return TENURE_OK;
}

void ten_sqlite_side_watch_clear(ten_sqlite_side *side) {
    char events[4096];
    bool any = false;
    ten_error ignored;
    while (ten_read_some(side->watch_fd, events, sizeof events) > 0)
        any = true;
    /* The file may have been replaced. Watching the same file twice is one watch. */
    if (any && follow_path(side, &ignored) == 0)
        (void)add_watch(side);
}
