/*
 * tenure: a table of commands. Each parses its options, makes one call of the library, prints, and returns an exit
 * code.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/suggest.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/secrets.h"
#include "cli/visible.h"

#define POLL   "poll"
#define LEADER "leader"
#define LOCK   "lock"

static const ten_command commands[] = {
    {"agent", "--targets SRC --poll HOW [--publish SINK]...",
     "Run one instance of a fleet that polls its share of the targets",
     "Start as many as you like, with the same command line. They share the targets out: each target is polled by\n"
     "one of them at a time, under its lease. When one dies, the others take its targets over.\n\n"
     "  SRC   store (the registry: 'tenure target add'), file:PATH (a line is an id, or a JSON object with\n"
     "        id, url, exec, every, paused, spec; read again when it changes), redis-keys:PREFIX (every key\n"
     "        with that prefix: the id is the rest, the value a JSON object with address or url, isPaused,\n"
     "        every; walks over all keys), redis-set:KEY (members are ids, or lines as in a file),\n"
     "        redis-set:KEY,PREFIX (members are ids, with their JSON at PREFIX + id), or http://HOST/PATH,\n"
     "        https:// (answers with a JSON array of such objects, the id as id or scene_id, in pages by\n"
     "        Link: rel=\"next\"; asked every 10s; of its options every, timeout, token_file, ca_file, cert_file\n"
     "        and key_file are not sent)\n"
     "  HOW   exec:CMD (run by /bin/sh -c, with TENURE_TARGET, TENURE_TOKEN, TENURE_INSTANCE,\n"
     "        TENURE_NAMESPACE, TENURE_URL, TENURE_SPEC and TENURE_CHECKPOINT in its environment; what it\n"
     "        returns as _checkpoint in a JSON object is kept for the next poll), http (GET the target's\n"
     "        url), or spec (what each target says; its command only with --trust-targets)\n"
     "  SINK  - (JSON lines on standard output), file:PATH, redis-stream:KEY, redis-channel:NAME, or\n"
     "        mqtt://[USER@]HOST[:PORT]/TOPIC, mqtts:// with TLS (QoS 1; options password_file, ca_file,\n"
     "        cert_file, key_file, timeout). In KEY, NAME and TOPIC {target} and {namespace} are filled in.\n"
     "        Without a sink, results are only logged\n\n"
     "SIGTERM or SIGINT stops polling, releases the targets and exits with 0; a second one hurries. SIGHUP makes it\n"
     "read its files again.",
     ten_cmd_agent, POLL},
    {"elect", "ROLE [--restart never|on-failure|always] -- CMD... | --observe ROLE",
     "Run a command while this instance leads a role",
     "Start as many as you like, with the same command line. One leads and runs CMD; the others wait. When CMD or\n"
     "its host dies, or the store is out of reach for too long, another leads. By then CMD has ended, with\n"
     "everything that it started, background processes included. CMD's environment has TENURE_ROLE, TENURE_INSTANCE\n"
     "and TENURE_TOKEN, which grows with each term: CMD should send it along with whatever it writes.\n\n"
     "When CMD exits, the role is released at once, and elect exits with the exit status of CMD. With --restart it\n"
     "campaigns again, after a pause that grows while CMD keeps failing.\n\n"
     "SIGTERM or SIGINT ends CMD, releases the role and exits with 0; a second one hurries. Other signals are passed\n"
     "on to CMD. CMD reads the standard input. --observe prints a line for the leader (instance id, tab, token; '-'\n"
     "if nobody leads) and another line for each change.",
     ten_cmd_elect, LEADER},
    {"once", "ROLE [--at-least D] [--wait D] [--not-elected-exit N] -- CMD...",
     "Run a command at most once across the fleet, as from cron on every replica",
     "The replica that gets the role runs CMD. The role is renewed for as long as CMD runs, and kept for at least D\n"
     "from its start, even if CMD was short or died, so that a replica whose clock is behind does not run it again.\n"
     "Choose D longer than the clocks differ and shorter than the period. With --at-least 0s the role is released\n"
     "when CMD has ended; with --wait as well, every replica runs CMD, one after the other.\n\n"
     "Exit codes: that of CMD (128+N if signal N ended it); 4, or that of --not-elected-exit, without a message, if\n"
     "another replica has the role; 3 store out of reach; 5 the lease was lost and CMD was ended.",
     ten_cmd_once, LEADER, .quiet = true},
    {"cron", "FILE | ls | check FILE | import [FILE]", "Run a crontab across the fleet: each instant of each job once",
     "Start it on every host with the same file. The hosts share the jobs out, and when one dies, the others take\n"
     "its jobs over. A line is NAME [key=value...] SCHEDULE COMMAND; # begins a comment.\n\n"
     "  SCHEDULE  five fields (minute hour day month weekday, with names, ranges, steps and lists), @hourly,\n"
     "            @daily, @weekly, @monthly, @yearly, or @every D\n"
     "  tz=       the time zone of the fields, such as Europe/Berlin; default UTC\n"
     "  missed=   what to do about instants that no host could run in time. latest (default): run the latest of them;\n"
     "            all: run each of them, in order; skip: run none that is over a minute late\n"
     "  max-late= an instant that is later than this does not run; default 1h\n"
     "  overlap=  skip (default): an instant that comes while the last run is under way does not run; wait: it\n"
     "            runs afterwards\n"
     "  jitter=   start each instant up to this much later; the same delay on every host\n"
     "  timeout=  end the command after this time\n\n"
     "COMMAND is run by /bin/sh -c with TENURE_JOB, TENURE_INSTANT (RFC 3339) and TENURE_TOKEN. An instant is\n"
     "written down before its command starts: one whose host dies then is reported as lost, and not run again. 'ls'\n"
     "shows the last and next run of each job and its result; 'check' reads a file and shows the next three instants\n"
     "of each job; 'import' makes a file from a user's crontab (crontab -l, or FILE).\n\n"
     "SIGTERM or SIGINT ends the commands, hands the jobs over and exits with 0. The file is read again when it\n"
     "changes, and on SIGHUP. A wrong line is logged with its column, and the other jobs run.",
     ten_cmd_cron, "cron"},
    {"lock", "NAME [--count N] [--wait D | --no-wait] -- CMD... | --all NAME... -- CMD...",
     "Run a command under a lock, as flock(1) does, but for all hosts of a store",
     "Waits until the lock NAME is free, runs CMD, renews the lock while CMD runs, and releases it. Waiting commands\n"
     "usually get the lock in the order in which they came. CMD's environment has TENURE_ROLE (the name),\n"
     "TENURE_INSTANCE and TENURE_TOKEN, which CMD should send along with whatever it writes.\n\n"
     "--count N makes a semaphore of N slots, the targets NAME/0 to NAME/N-1. Every command must give the same N.\n"
     "--all takes several locks, all or none; nothing is held while it waits. TENURE_TOKENS has their tokens, as\n"
     "NAME=TOKEN NAME=TOKEN; TENURE_TOKEN is that of the first name in byte order.\n\n"
     "Exit codes: that of CMD (128+N if signal N ended it); 4, without a message, if the lock was not free in time;\n"
     "3 store out of reach; 5 the lease was lost and CMD was ended.",
     ten_cmd_lock, LOCK, .quiet = true},
    {"who", "ROLE", "Show who leads a role, and who waits to lead it", "Exit codes: 0 somebody leads; 1 nobody leads.",
     ten_cmd_who, LEADER, .needs_store = true},
    {"resign", "ROLE --from INSTANCE [--force [--now]]", "Ask the leader of a role to hand it over, or take it away",
     "INSTANCE ends its work, releases the role, and lets other candidates go first for one TTL. With --force it can "
     "no\n"
     "longer renew, and the role is free when its work has stopped, or its lease expires.\n\n"
     "Exit codes: 0 asked, or with --wait handed over; 1 nobody leads; 4 another leads, or --wait has elapsed.",
     ten_cmd_resign, LEADER},
#ifdef TEN_SERVER
    {"serve", "[--listen ADDR:PORT | --listen unix:PATH] [--auth-file F] [--tls-cert F --tls-key F]",
     "Serve leases, events, metrics and a web page over REST, on any store",
     "Programs that speak only HTTP acquire, renew and release leases through it. /openapi.json describes the\n"
     "requests, /metrics counts them, /api/v1/{namespace}/events reports every change, and / is the web page. It\n"
     "prints the address that it listens on. An address that other hosts can reach requires TLS and --auth-file, or\n"
     "--insecure.\n\n"
     "SIGTERM or SIGINT: it takes no new connections, answers what has arrived and exits with 0. SIGHUP: it reads\n"
     "the auth file again.",
     ten_cmd_serve, POLL},
#endif
    {"guard", "[--in SRC] [--out DST] [--id-field F] [--token-field F]",
     "Pass on the messages whose token is current, and drop the stale ones",
     "A message is a line with one JSON object, up to 1 MiB, that names its target ('target', else 'scene_id') and\n"
     "carries the token of its holder's lease ('_version'), as 'tenure agent' publishes them. Messages that pass\n"
     "keep their bytes and their order. The others are logged (stale_refused) with their token and the newest one:\n"
     "those with an older token, with one that was never granted, or without a target or a token.\n\n"
     "The store is read before the first token of a target is accepted and before a higher one is. While the store\n"
     "is out of reach, the newest known token is accepted for the cache's TTL after it was last confirmed, and with\n"
     "--on-expired accept for longer.\n\n"
     "SRC  -, file:PATH, or mqtt://[USER@]HOST[:PORT]/TOPIC with + and #, mqtts:// with TLS (QoS 1; the options of\n"
     "     the sink, and client_id: the broker then keeps what comes while the guard is away). A message is\n"
     "     acknowledged when it was handed on or refused.\n"
     "DST  -, file:PATH, or mqtt://[USER@]HOST[:PORT]/TOPIC/{target}, mqtts:// with TLS (QoS 1). While it takes\n"
     "     nothing, nothing is read.\n\n"
     "Ends with its input, or by SIGTERM or SIGINT, with exit code 0; 1 it cannot write; 3 store out of reach.",
     ten_cmd_guard, POLL},
    {"status", "", "Show who holds what, who should, why they differ, since when and for how long",
     "A line for each target: target, holder, planned holder ('=': the same), token, how long it has been held, how\n"
     "long its lease still lasts, and why holder and plan differ or what the holder does. '-' is none.",
     ten_cmd_status, POLL, .needs_store = true},
    {"top", "", "Watch a namespace live: unowned targets first, with keys to sort, filter and scroll",
     "Keys: q quit; / filter; s sort; u unowned targets only; j, k, arrows, space and b scroll.", ten_cmd_top, POLL,
     .needs_store = true},
    {"nodes", "", "List the live instances of the fleet, with weight, share and plan", NULL, ten_cmd_nodes, POLL,
     .needs_store = true},
    {"namespaces", "", "List the namespaces of a store, with their targets and instances", NULL, ten_cmd_namespaces,
     POLL, .needs_store = true},
    {"plan", "[--add N] [--remove INSTANCE]...", "Show how the plan shares the targets, and what would move",
     "A dry run: nothing is changed. --add N shows what N more instances would take, --remove where the targets of\n"
     "an instance would go.",
     ten_cmd_plan, POLL, .needs_store = true},
    {"drain", "INSTANCE [--undo]", "Ask an instance to hand over all that it holds, as before a deploy",
     "It keeps running, and takes nothing until --undo. A leader ends its work and releases the role. Whoever has a\n"
     "lock, or waits for it, cannot be drained.\n\n"
     "Exit codes: 0 asked; 1 no such instance, or it cannot be drained.",
     ten_cmd_drain, POLL, .needs_store = true},
    {"move", "TARGET INSTANCE [--for D] [--reason R] | TARGET --not INSTANCE | TARGET --undo",
     "Pin a registered target to an instance, or keep it away from one",
     "The plan names that instance, and whoever holds the target finishes its work and hands it over, as in a\n"
     "rebalance. The pin ends after --for, with --undo, or when the target is removed; then the plan decides\n"
     "again. While the instance is gone or draining the pin has no effect; after a restart an instance has a new\n"
     "id, so the pin does not follow it.\n\n"
     "Exit codes: 0 pinned; 1 no such instance, or the target is not registered.",
     ten_cmd_move, POLL, .needs_store = true},
    {"acquire", "ID [--wait D]", "Take the lease on a target and print its token",
     "The holder is a fresh instance id. The lease lasts for the TTL unless it is renewed. Renewing and releasing\n"
     "need the token. Everything that the work sends should carry the token, so that its receiver can refuse what a\n"
     "former holder still sends.\n\n"
     "Exit codes: 0 taken; 4 held by another, or the wait has elapsed.",
     ten_cmd_acquire, POLL},
    {"renew", "ID --token T", "Renew a lease, matched by target and token",
     "Without --ttl the lease keeps the TTL that it was taken with.\n\n"
     "Exit codes: 0 renewed; 5 lost: stop the work.",
     ten_cmd_renew, POLL},
    {"release", "ID --token T | ID --force [--now] [--to INSTANCE | --not INSTANCE]",
     "Release a lease, or take it away from its holder",
     "Stop the work first, then release. Releasing what is not held under that token changes nothing and\n"
     "exits 0. With --force the holder can no longer renew, and the target is free when its work has stopped, or its\n"
     "lease ends; with --force --now it is free at once, although the old holder may believe in its lease until "
     "then.\n\n"
     "The plan often names the instance that the target was taken from, which then takes it again. --to pins the\n"
     "target to another instance, --not keeps it away from one; see 'tenure move --help'.",
     ten_cmd_release, POLL},
    {"checkpoint", "ID | ID --token T VALUE", "Print or write the checkpoint that is kept beside a lease",
     "A holder keeps up to 4096 bytes of text beside its lease, such as how far its work has come. The store accepts\n"
     "it only under the current token, so a stale holder changes nothing. The checkpoint stays for the next holder\n"
     "when the lease ends, and is deleted when the target is forgotten. VALUE '-' is standard input; an empty VALUE\n"
     "removes it.\n\n"
     "Exit codes: 0 printed, or written; 1 there is none; 4 the store is recovering; 5 the token is stale.",
     ten_cmd_checkpoint, POLL, .needs_store = true},
    {"show", "ID", "Show one target: who holds it, since when, for how long", "Exit codes: 0 shown; 1 unknown target.",
     ten_cmd_show, POLL, .needs_store = true},
    {"owner", "ID", "Show which instance holds a target, and where it can be reached",
     "Prints the instance, its address ('-' if it says none) and the token, separated by tabs.\n\n"
     "Exit codes: 0 printed; 1 no instance holds it, or it is unknown.",
     ten_cmd_owner, POLL, .needs_store = true},
    {"ls", "[--held | --free]", "List targets and who holds them", NULL, ten_cmd_ls, POLL, .needs_store = true},
    {"target", "add ID... | rm ID... | pause ID... | resume ID... | ls",
     "Register, remove, pause, resume and list targets",
     "  add ID... [--url U] [--exec CMD] [--every D] [--spec JSON]   register or replace\n"
     "  rm ID...                                                     remove; the token counter stays\n"
     "  pause ID..., resume ID...                                    keep it registered, but stop its polls\n"
     "  ls                                                           list\n\n"
     "Any valid id can be leased, registered or not.",
     ten_cmd_target, POLL},
    {"forget", "ID... | --unregistered", "Forget the counters and history of targets that are free and not registered",
     "They are no longer listed and take no room in the store. The namespace remembers the highest token that it\n"
     "forgot, so a target that is used again gets a higher one. Targets that have been free and unregistered for 30\n"
     "days are forgotten automatically. Removing a target ('tenure target rm') keeps its counter until then.\n\n"
     "Exit codes: 0 forgotten; 1 unknown, or registered; 4 held, or the store is recovering.",
     ten_cmd_forget, POLL, .needs_store = true},
    {"watch", "", "Print each change until stopped",
     "A lease that expires is reported when the target is acquired next.", ten_cmd_watch, POLL, .needs_store = true},
    {"history", "[TARGET] [--since D] [--limit N]",
     "Show what has happened: who held what, for how long, and why it ended",
     "A line for each change, oldest first: time, target, event, instance, token, reason, who asked for it, how long\n"
     "the target was held, and how long it had been free. With TARGET three more, of runs of tenure cron: the\n"
     "instant, how late it started and how long it took. The last 10,000 changes are kept, for 30 days; '-' is what\n"
     "does not apply or is no longer known. target_unowned: no instance took the target for longer than the TTL.",
     ten_cmd_history, POLL, .needs_store = true},
    {"doctor", "", "Check the store, the clock, the fleet, and the TTL against the measured latency",
     "Exit codes: 0 no check failed (there may be warnings); 1 a check failed; 3 store out of reach.", ten_cmd_doctor,
     POLL},
    {"version", "", "Print the version and the stores of this build", NULL, ten_cmd_version, POLL},
    {"help", "[COMMAND]", "Print this, or the help of a command", NULL, ten_cmd_help, POLL},
};

const ten_command *ten_commands(size_t *ret_count) {
    *ret_count = TEN_COUNT(commands);
    return commands;
}

const ten_command *ten_command_find(const char *name) {
    for (size_t i = 0; i < TEN_COUNT(commands); i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

/* What other tools call it. */
static const char *other_word(const char *name) {
    static const char *const words[][2] = {
        {"mutex", "lock"},
        {"flock", "lock"},
        {"semaphore", "lock --count N"},
        {"sem", "lock --count N"},
        {"lead", "elect"},
        {"leader", "who"},
        {"leaders", "who"},
        {"campaign", "elect"},
        {"election", "elect"},
        {"unlock", "release"},
        {"free", "release"},
        {"list", "ls"},
        {"get", "show"},
        {"describe", "show"},
        {"members", "nodes"},
        {"instances", "nodes"},
        {"peers", "nodes"},
        {"crontab", "cron"},
        {"schedule", "cron"},
        {"server", "serve"},
        {"worker", "agent"},
        {"poll", "agent"},
        {"events", "watch"},
        {"log", "history"},
        {"check", "doctor"},
        {"delete", "target rm"},
        {"remove", "target rm"},
        {"add", "target add"},
        {"pause", "target pause"},
        {"resume", "target resume"},
        {"ns", "namespaces"},
        {"stepdown", "resign"},
        {"pin", "move"},
        {"unpin", "move TARGET --undo"},
        {"reassign", "move"},
        {"run", "lock"},
    };
    for (size_t i = 0; i < TEN_COUNT(words); i++)
        if (strcmp(words[i][0], name) == 0)
            return words[i][1];
    return NULL;
}

int ten_command_unknown(const char *name) {
    char said[200];
    int length = (int)ten_utf8_cut(name, 60);
    if (name[0] == '-') {
        snprintf(said, sizeof said,
                 "the command comes first: write the option '%.*s' after it, as in 'tenure ls --store URL'", length,
                 name);
        ten_say(said);
        return TEN_EXIT_USAGE;
    }
    const char *names[TEN_COUNT(commands)];
    for (size_t i = 0; i < TEN_COUNT(commands); i++)
        names[i] = commands[i].name;
    const char *meant = other_word(name);
    if (!meant)
        meant = ten_suggest(name, names, TEN_COUNT(commands));
    if (meant)
        snprintf(said, sizeof said, "there is no command '%.*s'; did you mean '%s'?", length, name, meant);
    else
        snprintf(said, sizeof said, "there is no command '%.*s'; 'tenure help' lists them", length, name);
    ten_say(said);
    return TEN_EXIT_USAGE;
}

/* A stream that was closed must not lend its number to a file of the store or to the eventfd that cancels: what is
 * printed would land there. Opened the wrong way round, so that using it fails as before. */
static void occupy_closed_streams(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int main(int argc, char **argv) {
    occupy_closed_streams();
    ten_hash_key_make_secret();
    char **words = ten_secrets_hide(argc, argv);
    if (words)
        argv = words;
    const char *name = argc > 1 ? argv[1] : "help";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        name = "version";
    const ten_command *command = ten_command_find(name);
    if (!command)
        return ten_command_unknown(name);
    int exit_code = command->run(command, argc > 1 ? argc - 1 : argc, argc > 1 ? argv + 1 : argv);
    return argc > 1 ? exit_code : TEN_EXIT_USAGE;
}
