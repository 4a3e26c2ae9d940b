/*
 * The list of a target source that is read in passes, such as the SCAN of a Redis: what the last passes have shown,
 * what has changed, and what is gone. It does no I/O and gets the time from its caller. Called by source_feed.c.
 *
 * Taking a target away from a fleet by mistake is worse than polling it a little longer. So a target is gone when two
 * complete passes in a row have not shown it; and when the list looks as if its server had lost it (nothing is left of
 * it, or less than half of more than two; or its reader has reason to doubt: another run of the server, a flush),
 * only when it has been missing for a whole TTL. Doubt lasts until a pass shows everything that is known. A pass that
 * was not completed says nothing. A file shows all of its targets or cannot be read: there, what a pass lacks is gone.
 */
#ifndef TEN_AGENT_TARGET_LIST_H
#define TEN_AGENT_TARGET_LIST_H

#include "base/map.h"

typedef struct ten_target_list {
    uint64_t ttl_ms; /* the fleet's */
    bool whole;      /* what one complete pass lacks is gone */
    ten_map targets; /* by id */
    ten_map bad;     /* entries that cannot be used and have been reported, by their text */
    size_t known;    /* when the pass began */
    uint32_t pass;
    bool in_doubt;
    uint64_t doubt_until_ms; /* at least */
} ten_target_list;

void ten_target_list_free(ten_target_list *list);

/* A pass begins; one that did not end is forgotten. */
void ten_target_list_begin(ten_target_list *list);

enum ten_listed {
    TEN_LISTED_SAME,    /* known, and has been shown as it was */
    TEN_LISTED_CHANGED, /* new, or other than before: if it can be used, keep it */
    TEN_LISTED_TWICE    /* shown before in this pass, and other than then */
};
enum ten_listed ten_target_list_look(ten_target_list *list, const char *id, const char *text, size_t size);
/* The target has been shown, and looks like that now. False: out of memory. */
bool ten_target_list_keep(ten_target_list *list, const char *id, const char *text, size_t size);

/* An entry cannot be used; `reason` is a hash of why. True: that is not known yet. */
bool ten_target_list_refuse(ten_target_list *list, const char *entry, uint64_t reason);
/* It was refused for this reason in the last pass, and is so still: true, and there is no need to look closer. */
bool ten_target_list_is_refused(ten_target_list *list, const char *entry, uint64_t reason);

/* There is reason to believe that the server has lost something. */
void ten_target_list_doubt(ten_target_list *list, uint64_t now_ms);

/* The pass was complete. `gone` is called for each target that is to be removed; false: it could not, and is asked
 * again after the next pass. */
void ten_target_list_end(ten_target_list *list, uint64_t now_ms, bool (*gone)(const char *id, void *userdata),
                         void *userdata);

#endif
