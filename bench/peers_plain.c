/*
 * What people do without a library, as resident candidates (elections_pair.h):
 *     plain flock PATH [FILE]               flock(2) on a file of one host
 *     plain seed PORT KEY TTL_MS [FILE]     SET NX PX, a renewal and a release by script, each at a third of the TTL;
 * those who wait look at the same interval, as the loops do from which we started plain command WORD... only the job
 * `pairs`: a process that takes the lock, runs `true` and gives it back
 */
#include <errno.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/wait.h>

#include "peers/jobs.h"

#define RENEW                                                                                                          \
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0"
#define RELEASE "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
#define MANY    256u /* scripts under way at once */

struct plain {
    const struct sort *sort;
    char **words;
    int fd;    /* flock */
    int beats; /* -1: none */
    redisContext *redis;
    char key[128], me[32], ttl[16];
    char renew[48], release[48]; /* the scripts' names */
    long look_ms;
};

/* One way to have a lock. NULL: there is nothing to do. */
struct sort {
    const char *name;
    int file_at; /* which argument is the file; 0: none */
    bool (*open)(struct plain *plain);
    bool (*try)(struct plain *plain); /* or waits, where it can */
    bool (*renew)(struct plain *plain);
    bool (*give)(struct plain *plain);
    unsigned (*many)(void *plain);
};

static void fail(const char *what) {
    fprintf(stderr, "%s failed: %s\n", what, strerror(errno));
    _exit(1);
}

/* ---- flock ---- */

static bool flock_open(struct plain *plain) {
    plain->fd = open(plain->words[0], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    plain->look_ms = 1000;
    return plain->fd >= 0;
}

static bool flock_take(struct plain *plain) {
    return flock(plain->fd, LOCK_EX) == 0;
}

static bool flock_give(struct plain *plain) {
    return flock(plain->fd, LOCK_UN) == 0;
}

/* ---- the seeds' loop ---- */

/* Takes the reply. */
static bool is_one(redisReply *reply, int type, const char *what) {
    if (!reply)
        fail(what);
    bool done = reply->type == type && (type != REDIS_REPLY_INTEGER || reply->integer == 1);
    freeReplyObject(reply);
    return done;
}

static bool load(struct plain *plain, const char *script, char name[48]) {
    redisReply *reply = redisCommand(plain->redis, "SCRIPT LOAD %s", script);
    bool loaded = reply && reply->type == REDIS_REPLY_STRING;
    if (loaded)
        snprintf(name, 48, "%s", reply->str);
    if (reply)
        freeReplyObject(reply);
    return loaded;
}

static bool seed_open(struct plain *plain) {
    plain->redis = redisConnect("127.0.0.1", atoi(plain->words[0]));
    snprintf(plain->key, sizeof plain->key, "%s", plain->words[1]);
    snprintf(plain->ttl, sizeof plain->ttl, "%s", plain->words[2]);
    snprintf(plain->me, sizeof plain->me, "plain-%d", (int)getpid());
    plain->look_ms = atol(plain->ttl) / 3;
    return plain->redis && !plain->redis->err && load(plain, RENEW, plain->renew) &&
           load(plain, RELEASE, plain->release);
}

static bool seed_try(struct plain *plain) {
    return is_one(redisCommand(plain->redis, "SET %s %s NX PX %s", plain->key, plain->me, plain->ttl),
                  REDIS_REPLY_STATUS, "SET");
}

static bool run_script(struct plain *plain, const char *name) {
    return is_one(redisCommand(plain->redis, "EVALSHA %s 1 %s %s %s", name, plain->key, plain->me, plain->ttl),
                  REDIS_REPLY_INTEGER, "EVALSHA");
}

static bool seed_renew(struct plain *plain) {
    return run_script(plain, plain->renew);
}

static bool seed_give(struct plain *plain) {
    return run_script(plain, plain->release);
}

static unsigned seed_many(void *arg) {
    struct plain *plain = arg;
    bool done = true;
    for (unsigned i = 0; i < MANY; i++)
        redisAppendCommand(plain->redis, "EVALSHA %s 1 %s %s %s", plain->renew, plain->key, plain->me, plain->ttl);
    for (unsigned i = 0; i < MANY; i++) {
        redisReply *reply = NULL;
        if (redisGetReply(plain->redis, (void **)&reply) != REDIS_OK)
            return 0;
        done = is_one(reply, REDIS_REPLY_INTEGER, "EVALSHA") && done;
    }
    return done ? MANY : 0;
}

/* ---- a process for each lock ---- */

static bool command_run(struct plain *plain) {
    extern char **environ;
    pid_t pid;
    int status = -1;
    if (posix_spawnp(&pid, plain->words[0], NULL, NULL, plain->words, environ) != 0)
        fail(plain->words[0]);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status == 0;
}

/* ---- what all have in common ---- */

static const struct sort sorts[] = {
    {"flock", 3, flock_open, flock_take, NULL, flock_give, NULL}, /* for as long as the process is there */
    {"seed", 5, seed_open, seed_try, seed_renew, seed_give, seed_many},
    {"command", 0, NULL, command_run, NULL, NULL, NULL},
};

static unsigned take_and_give(void *arg) {
    struct plain *plain = arg;
    return plain->sort->try(plain) && (!plain->sort->give || plain->sort->give(plain));
}

static unsigned keep(void *arg) {
    struct plain *plain = arg;
    return plain->sort->renew(plain);
}

/* Until it is told to stop. A renewal that is refused ends it: that is all that a loop of this sort can do. */
static void lead(struct plain *plain) {
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    long long renew_ns = jobs_now_ns() + plain->look_ms * 1000000LL;
    while (poll(&in, 1, plain->beats >= 0 ? JOBS_BEAT_MS : (int)plain->look_ms) == 0) {
        if (plain->beats >= 0)
            jobs_beat(plain->beats, getpid());
        if (jobs_now_ns() < renew_ns)
            continue;
        if (plain->sort->renew && !plain->sort->renew(plain))
            fail("a renewal");
        renew_ns = jobs_now_ns() + plain->look_ms * 1000000LL;
    }
}

static void campaign(struct plain *plain) {
    while (!plain->sort->try(plain))
        usleep((useconds_t)plain->look_ms * 1000u);
    jobs_say("led", jobs_now_ns());
    lead(plain);
}

static void stop(struct plain *plain) {
    long long start_ns = jobs_now_ns();
    if (!plain->sort->give(plain))
        fail("the release");
    jobs_say("stopping", start_ns);
}

static void do_job(struct plain *plain, const char *line) {
    if (jobs_is(line, "pairs")) {
        jobs_run(take_and_give, plain, jobs_is(line, "pairs"));
        return;
    }
    if (!plain->sort->try(plain))
        fail("the lock");
    if (jobs_is(line, "renew"))
        jobs_run(keep, plain, jobs_is(line, "renew"));
    else if (plain->sort->many)
        jobs_run(plain->sort->many, plain, jobs_is(line, "many"));
    (void)plain->sort->give(plain);
}

int main(int argc, char **argv) {
    char line[64];
    struct plain plain = {.words = argv + 2, .beats = -1};
    for (size_t i = 0; argc > 2 && i < sizeof sorts / sizeof sorts[0]; i++)
        if (strcmp(argv[1], sorts[i].name) == 0)
            plain.sort = &sorts[i];
    if (!plain.sort)
        return 2;
    if (plain.sort->file_at && argc > plain.sort->file_at)
        plain.beats = jobs_open_beats(argv[plain.sort->file_at]);
    if (plain.sort->open && !plain.sort->open(&plain))
        fail("opening");
    setvbuf(stdin, NULL, _IONBF, 0); /* it is polled */
    while (fgets(line, sizeof line, stdin)) {
        if (strcmp(line, "campaign\n") == 0)
            campaign(&plain);
        else if (strcmp(line, "stop\n") == 0)
            stop(&plain);
        else
            do_job(&plain, line);
    }
    return 0;
}
