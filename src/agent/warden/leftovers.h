/*
 * What commands leave behind when nothing but their marks keeps them together: processes that the worker has adopted.
 * One walk through its children answers for every command that was reaped before the walk began, so that thousands of
 * commands that end together cost a few walks.
 */
#ifndef TEN_AGENT_LEFTOVERS_H
#define TEN_AGENT_LEFTOVERS_H

#include "agent/warden/process.h"
#include "agent/warden/running.h"
#include "agent/warden/shared.h"

typedef struct ten_leftovers {
    struct ten_leftover {
        pid_t pid;     /* 0: it was reaped since; what was below it has been adopted */
        uint64_t mark; /* of a command; TEN_TREE_NO_MARK: it may be any command's */
    } * list;
    uint32_t count;
    uint32_t room;
    bool unsure; /* the walk could not see everything */
    ten_trouble trouble;
    uint64_t walks; /* that have been made */
    uint64_t walked_ms;
} ten_leftovers;

#define TEN_LEFTOVERS_RUNNING UINT64_MAX

/* Signals what the command with this mark has left behind. What carries a mark that no command has in `shared` may be
 * any command's. `walks_before`: how many walks had been made when the command
 * was reaped, or TEN_LEFTOVERS_RUNNING. Returns whether there was something; of a command that was reaped, false
 * means that nothing is left. */
bool ten_leftovers_signal(ten_leftovers *leftovers, const ten_shared *shared, const ten_running *commands,
                          uint64_t mark, uint64_t walks_before, int signal, ten_trouble *trouble);
/* A child was reaped: its number may become another's. */
void ten_leftovers_reaped(ten_leftovers *leftovers, pid_t pid);
void ten_leftovers_free(ten_leftovers *leftovers);

#endif
