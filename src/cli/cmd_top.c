/*
 * tenure top: a live view of a namespace on a terminal. Unheld targets come first; keys sort, filter and scroll.
 * It only reads. `tenure status` prints the same once, for scripts.
 */
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/id.h"
#include "cli/commands.h"
#include "cli/fleet_listing.h"

#define REDRAW_MS  1000
#define FILTER_MAX 60u
#define HEAD_LINES 3 /* summary, keys, headings */

enum order { BY_TARGET, BY_HOLDER, BY_AGE, ORDERS };
static const char *const order_names[ORDERS] = {"target", "holder", "age"};

struct top {
    ten_arguments *arguments;
    ten_view view;
    const tenure_info **rows; /* those that are shown, in order */
    size_t count;
    size_t unowned;
    size_t first; /* that is on the screen */
    enum order order;
    bool unowned_only;
    bool typing; /* of the filter */
    char filter[FILTER_MAX + 1];
    char problem[200]; /* "": the last reading went well */
};

/* ---- rows */

static bool is_unowned(const tenure_info *info) {
    return info->holder[0] == '\0' && !info->paused && info->registered;
}

/* What needs somebody's eyes comes first. */
static int class_of(const struct top *top, const tenure_info *info) {
    if (is_unowned(info))
        return 0;
    if (info->paused || info->holder[0] == '\0')
        return 3;
    return ten_view_is_moving(&top->view, info) ? 1 : 2;
}

static int compare(const void *left, const void *right, void *userdata) {
    const struct top *top = userdata;
    const tenure_info *one = *(const tenure_info *const *)left;
    const tenure_info *other = *(const tenure_info *const *)right;
    int by = class_of(top, one) - class_of(top, other);
    if (by == 0 && top->order == BY_HOLDER)
        by = strcmp(one->holder, other->holder);
    if (by == 0 && top->order == BY_AGE)
        by = (one->acquired_at_ms < other->acquired_at_ms) - (one->acquired_at_ms > other->acquired_at_ms);
    return by ? by : strcmp(one->target, other->target);
}

static bool is_shown(const struct top *top, const tenure_info *info) {
    if (top->unowned_only && !is_unowned(info))
        return false;
    return top->filter[0] == '\0' || strstr(info->target, top->filter) || strstr(info->holder, top->filter);
}

static void choose_rows(struct top *top) {
    top->count = top->unowned = 0;
    for (size_t i = 0; i < top->view.target_count; i++) {
        const tenure_info *info = &top->view.targets[i];
        top->unowned += is_unowned(info);
        if (is_shown(top, info))
            top->rows[top->count++] = info;
    }
    if (top->count > 0)
        qsort_r(top->rows, top->count, sizeof *top->rows, compare, top);
}

static int read_view(struct top *top) {
    ten_view fresh;
    int r = ten_view_read(top->arguments, &fresh);
    if (r < 0) {
        snprintf(top->problem, sizeof top->problem, "%.199s", tenure_message(top->arguments->context));
        return r;
    }
    const tenure_info **rows = ten_calloc(fresh.target_count + 1, sizeof *rows);
    if (!rows) {
        ten_view_free(&fresh);
        return TENURE_E_NOMEM;
    }
    ten_view_free(&top->view);
    ten_free(top->rows);
    top->view = fresh;
    top->rows = rows;
    top->problem[0] = '\0';
    return TENURE_OK;
}

/* ---- drawing */

/* One cell, cut to its width. */
static void print_cell(const char *text, int width) {
    char *visible = ten_visible(text);
    printf("%-*.*s ", width, width, visible ? visible : "?");
    ten_free(visible);
}

static const char *state_of(const struct top *top, const tenure_info *info) {
    static const char *const words[] = {"UNOWNED", "moving", "held", "free"};
    return info->paused ? "paused" : info->barred ? "forced" : words[class_of(top, info)];
}

static void print_row(const struct top *top, const tenure_info *info, int width) {
    char holder[TENURE_HOLDER_MAX + 1] = "-";
    char age[TEN_DURATION_SIZE] = "-";
    char left[TEN_DURATION_SIZE] = "-";
    if (info->holder[0]) {
        ten_id_shorten(info->holder, holder);
        ten_duration_show(ten_sub_saturating(ten_wall_ms(&ten_system_clock), info->acquired_at_ms), age);
        ten_duration_show(info->remaining_ms, left);
    }
    print_cell(info->target, width);
    print_cell(state_of(top, info), 8);
    print_cell(holder, 24);
    print_cell(age, 8);
    print_cell(left, 8);
    printf("\033[K\r\n");
}

static void draw(struct top *top) {
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    (void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    if (size.ws_row == 0) /* a terminal that does not say */
        size = (struct winsize){.ws_row = 24, .ws_col = 80};
    size_t lines = size.ws_row > HEAD_LINES ? (size_t)(size.ws_row - HEAD_LINES) : 1;
    int width = size.ws_col > 72 ? size.ws_col - 54 : 18;
    choose_rows(top);
    size_t last = top->count > lines ? top->count - lines : 0;
    top->first = ten_min_u64(top->first, last);
    printf("\033[H%s: %zu targets, %zu unowned, %zu instances; %zu shown from %zu on, by %s%s%s\033[K\r\n",
           top->arguments->namespace_name, top->view.target_count, top->unowned, top->view.instance_count, top->count,
           top->count ? top->first + 1 : 0, order_names[top->order], top->problem[0] ? "; STORE: " : "", top->problem);
    if (top->typing || top->filter[0])
        printf("filter: %s%s\033[K\r\n", top->filter, top->typing ? "_" : "   (Esc clears)");
    else
        printf("q quit  / filter  s sort  u unowned only%s  j k space b scroll\033[K\r\n",
               top->unowned_only ? " (on)" : "");
    printf("\033[7m");
    print_cell("TARGET", width);
    printf("%-8s %-24s %-8s %-8s\033[K\033[0m\r\n", "STATE", "HOLDER", "AGE", "LEFT");
    for (size_t i = 0; i + 1 < lines && top->first + i < top->count; i++)
        print_row(top, top->rows[top->first + i], width);
    printf("\033[J");
    (void)fflush(stdout);
}

/* ---- keys */

static void type(struct top *top, char key) {
    size_t size = strlen(top->filter);
    if (key == '\n' || key == '\r')
        top->typing = false;
    else if ((key == 0x7f || key == '\b') && size > 0)
        top->filter[size - 1] = '\0';
    else if (key > ' ' && key < 0x7f && size < FILTER_MAX)
        top->filter[size] = key;
}

/* False: it is over. */
static bool take_key(struct top *top, char key) {
    if (key == '\033') {
        top->typing = false;
        memset(top->filter, 0, sizeof top->filter);
    } else if (top->typing) {
        type(top, key);
    } else if (key == 'q') {
        return false;
    } else if (key == '/') {
        top->typing = true;
    } else if (key == 's') {
        top->order = (top->order + 1) % ORDERS;
    } else if (key == 'u') {
        top->unowned_only = !top->unowned_only;
    } else if (key == 'j' || key == ' ') {
        top->first += key == 'j' ? 1 : 20;
    } else if (key == 'k' || key == 'b') {
        top->first -= ten_min_u64(top->first, key == 'k' ? 1 : 20);
    }
    return true;
}

static bool take_keys(struct top *top) {
    char keys[64];
    ssize_t count = read(STDIN_FILENO, keys, sizeof keys);
    if (count == 0)
        return false;
    /* An arrow key is Esc and two letters. */
    if (count == 3 && keys[0] == '\033' && keys[1] == '[')
        return take_key(top, keys[2] == 'A' ? 'k' : keys[2] == 'B' ? 'j' : 'x');
    for (ssize_t i = 0; i < count; i++)
        if (!take_key(top, keys[i]))
            return false;
    return true;
}

static int follow(struct top *top) {
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    uint64_t read_ms = 0;
    while (!ten_command_signal() && !ferror(stdout)) {
        if (ten_now_ms() - read_ms >= REDRAW_MS || read_ms == 0) {
            int r = read_view(top);
            if (r < 0 && !tenure_error_retryable(r))
                return r;
            read_ms = ten_now_ms();
        }
        draw(top);
        if (poll(&input, 1, REDRAW_MS) > 0 && !take_keys(top))
            break;
    }
    return TENURE_OK;
}

static struct termios before; /* as the terminal was */

static int check(ten_arguments *arguments) {
    if (!isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &before) != 0)
        return ten_arguments_usage(arguments, "top needs a terminal; 'tenure status' prints the same once");
    return TEN_EXIT_DONE;
}

static int run(ten_arguments *arguments) {
    struct top top = {.arguments = arguments};
    struct termios raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    printf("\033[?1049h\033[?25l");
    int r = follow(&top);
    printf("\033[?25h\033[?1049l");
    (void)fflush(stdout);
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &before);
    int exit_code = r < 0 ? ten_arguments_error(arguments, r) : TEN_EXIT_DONE;
    ten_view_free(&top.view);
    ten_free(top.rows);
    return exit_code;
}

const ten_command ten_cmd_top = {TEN_HELP_top, .takes = TEN_TAKES_NOTHING, .check = check, .store = TEN_STORE_EXISTING,
                                 .run = run};
