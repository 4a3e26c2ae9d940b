/*
 * Fields: see fields.h. Called by the handlers of requests, in the HTTP thread.
 */
#include "server/fields.h"

#include <jansson.h>
#include <string.h>

#include "base/id.h"
#include "base/plain.h"
#include "base/utf8.h"
#include "server/server_state.h"

/* NUMBER is an integer, SUBJECT a text or null, which means something. Ids are checked after they were read. */
enum type { NUMBER, TTL, TRUTH, TEXT, HOLDER, TARGET, SUBJECT, ITEMS, OBJECT };

enum way {
    REQUIRED = 1u << 0,
    QUERY = 1u << 1,      /* in the query alone */
    ALSO_QUERY = 1u << 2, /* in the query, where the body does not have it */
    NULLABLE = 1u << 3,   /* null: it is not given */
    LOOSE = 1u << 4,      /* so is a value of another type */
    EMPTY = 1u << 5,      /* so is an empty text */
    BULKY = 1u << 6,      /* too long is too large */
    PRINTABLE = 1u << 7,
};

/* Places, as the rows name them. */
enum {
#define X(name) name = TEN_IN_##name,
    TEN_PLACES(X)
#undef X
};

struct row {
    const char *name;
    size_t length;
    size_t offset;
    enum type type;
    unsigned ways;
    unsigned places;
    uint64_t least;
    uint64_t most;
};

static const struct row rows[] = {
#define FIELD(member, name, type, least, most, ways, places, about)                                                    \
    {name, sizeof(name) - 1, offsetof(ten_fields, member), type, ways, places, least, most},
#include "server/api.def"
};

/* A body of one of these may have the members of all; those that are not its own are not looked at. */
static const unsigned families[] = {ACQUIRING | RENEWING | RELEASING | HANDING, PINNING | UNPINNING};
/* These may have any others. */
static const unsigned open_places = EDITS | EDIT | FORGETTING;

/* A body, or a part of it, that is read. */
struct reading {
    ten_request *request;
    enum ten_place place;
    ten_fields *fields;
    size_t row;    /* where the next member is looked for: what a Tenure writes is in the order of the rows */
    uint64_t seen; /* rows */
};

_Static_assert(TEN_COUNT(rows) <= 64, "a bit for each row");

/* ---- what is wrong */

uint64_t ten_fields_least_ttl_ms(const ten_request *request) {
    return ten_max_u64(TENURE_TTL_MIN_MS, ten_lane_capabilities(request->server->lanes[TEN_LEASES])->ttl_min_ms);
}

static uint64_t least_of(const ten_request *request, const struct row *row) {
    return row->type == TTL ? ten_fields_least_ttl_ms(request) : row->least;
}

static uint64_t most_of(const ten_request *request, const struct row *row) {
    return row->type == TTL ? request->server->config->ttl_max_ms : row->most;
}

/* Answers with the rule of the row. */
static bool refuse(ten_request *request, const struct row *row, const char *lack) {
    unsigned long long least = least_of(request, row);
    unsigned long long most = most_of(request, row);
    char rule[120] = "a string without a NUL";
    if (row->type == NUMBER || row->type == TTL)
        snprintf(rule, sizeof rule, "an integer between %llu and %llu%s", least, most,
                 row->type == TTL ? " on this server (tenure serve --max-ttl)" : "");
    else if (row->type == ITEMS)
        snprintf(rule, sizeof rule, "an array of %llu to %llu", least, most);
    else if (row->type == TRUTH || row->type == OBJECT)
        snprintf(rule, sizeof rule, "%s", row->type == TRUTH ? "true or false" : "an object");
    else if (most > 0)
        snprintf(rule, sizeof rule, "a string of at most %llu bytes%s", most,
                 row->ways & PRINTABLE ? " without control characters" : " without a NUL");
    return ten_reply_wrong(request, "%s %smust be %s", row->name, lack, rule);
}

/* ---- one value */

/* As it was found: in the text of a body, by jansson, or in a query. */
struct value {
    enum { IS_NULL, IS_TRUTH, IS_NUMBER, IS_TEXT, IS_ITEMS, IS_OBJECT, IS_OTHER } kind;
    bool truth;
    uint64_t number; /* UINT64_MAX: a negative one */
    const char *text;
    size_t size; /* of the text */
    ten_items items;
    const json_t *object;
};

static bool is_within(uint64_t number, uint64_t least, uint64_t most) {
    return number >= least && number <= most;
}

/* False: it has been answered. */
static bool keep_text(ten_request *request, const struct row *row, const struct value *value, const char **member) {
    bool too_long = row->type == TEXT && row->most > 0 && value->size > row->most;
    if (too_long && row->ways & BULKY)
        return ten_reply_error(request, 413, "too_large", "%s must be at most %llu bytes", row->name,
                               (unsigned long long)row->most);
    if (too_long || (row->ways & PRINTABLE && !ten_utf8_is_printable(value->text, value->size)))
        return refuse(request, row, "");
    *member = row->ways & EMPTY && value->size == 0 ? NULL : value->text;
    return true;
}

/* Puts a value where its row says. False: it has been answered. */
static bool keep(ten_request *request, const struct row *row, const struct value *value, ten_fields *fields) {
    void *member = (char *)fields + row->offset;
    bool is_text = value->kind == IS_TEXT && strlen(value->text) == value->size;
    if (value->kind == IS_NULL && row->ways & NULLABLE)
        return true;
    switch (row->type) {
    case NUMBER:
    case TTL:
        if (value->kind != IS_NUMBER || !is_within(value->number, least_of(request, row), most_of(request, row)))
            return refuse(request, row, "");
        *(uint64_t *)member = value->number;
        return true;
    case TRUTH:
        if (value->kind != IS_TRUTH)
            break;
        *(enum ten_truth *)member = value->truth ? TEN_YES : TEN_NO;
        return true;
    case SUBJECT:
        if (!is_text && value->kind != IS_NULL)
            break;
        *(struct ten_subject *)member = (struct ten_subject){is_text ? value->text : NULL, !is_text};
        return true;
    case ITEMS:
        if (value->kind != IS_ITEMS || !is_within(value->items.count, row->least, row->most))
            break;
        *(ten_items *)member = value->items;
        return true;
    case OBJECT:
        if (value->kind != IS_OBJECT)
            break;
        *(const json_t **)member = value->object;
        return true;
    default:
        if (is_text)
            return keep_text(request, row, value, member);
    }
    return row->ways & LOOSE || refuse(request, row, "");
}

static bool is_given(const struct row *row, const ten_fields *fields) {
    const void *member = (const char *)fields + row->offset;
    if (row->type == NUMBER || row->type == TTL)
        return *(const uint64_t *)member != 0;
    if (row->type == ITEMS)
        return ((const ten_items *)member)->count > 0;
    return *(const char *const *)member != NULL;
}

static bool check_name(ten_request *request, const struct row *row, const char *name) {
    ten_error error;
    if ((row->type == HOLDER ? ten_id_check_holder(name, &error) : ten_id_check_target(name, &error)) == TENURE_OK)
        return true;
    return ten_reply_wrong(request, "%s: %s", row->name, error.message);
}

bool ten_fields_check(ten_request *request, enum ten_place place, const ten_fields *fields) {
    for (const struct row *row = rows; row < rows + TEN_COUNT(rows); row++) {
        bool is_name = row->type == HOLDER || row->type == TARGET;
        if (!(row->places & place) || !(is_name || row->ways & REQUIRED))
            continue;
        bool given = is_given(row, fields);
        if (!given && row->ways & REQUIRED)
            return refuse(request, row, "is required and ");
        if (given && is_name && !check_name(request, row, *(const char *const *)((const char *)fields + row->offset)))
            return false;
    }
    return true;
}

bool ten_fields_check_ttl(ten_request *request, uint64_t ttl_ms) {
    static const struct row row = {.name = "ttl_ms", .type = TTL};
    return is_within(ttl_ms, least_of(request, &row), most_of(request, &row)) || refuse(request, &row, "");
}

/* ---- one member */

static const struct row *find(unsigned places, const char *name, size_t length, size_t from) {
    for (size_t i = 0; i < TEN_COUNT(rows); i++) {
        const struct row *row = &rows[(from + i) % TEN_COUNT(rows)];
        if (row->length == length && row->places & places && !(row->ways & QUERY) &&
            memcmp(row->name, name, length) == 0)
            return row;
    }
    return NULL;
}

static unsigned family_of(enum ten_place place) {
    for (size_t i = 0; i < TEN_COUNT(families); i++)
        if (families[i] & place)
            return families[i];
    return 0;
}

static bool keep_member(struct reading *reading, const char *name, size_t length, const struct value *value) {
    const struct row *own = find(reading->place, name, length, reading->row);
    const struct row *row = own ? own : find(family_of(reading->place), name, length, 0);
    size_t number = row ? (size_t)(row - rows) : 0;
    if (!row && open_places & reading->place)
        return true;
    if (!row || reading->seen & UINT64_C(1) << number)
        return ten_reply_wrong(reading->request, row ? "'%.*s' is there twice" : "unknown member '%.*s'",
                               (int)ten_min_u64(length, 60), name);
    reading->seen |= UINT64_C(1) << number;
    reading->row = number + 1;
    return !own || keep(reading->request, row, value, reading->fields);
}

/* ---- read by jansson */

static struct value value_of(const json_t *json) {
    switch (json_typeof(json)) {
    case JSON_NULL:
        return (struct value){.kind = IS_NULL};
    case JSON_TRUE:
    case JSON_FALSE:
        return (struct value){.kind = IS_TRUTH, .truth = json_is_true(json)};
    case JSON_INTEGER:
        return (struct value){.kind = IS_NUMBER,
                              .number = json_integer_value(json) < 0 ? UINT64_MAX : (uint64_t)json_integer_value(json)};
    case JSON_STRING:
        return (struct value){.kind = IS_TEXT, .text = json_string_value(json), .size = json_string_length(json)};
    case JSON_ARRAY:
        return (struct value){.kind = IS_ITEMS, .items = {.count = json_array_size(json), .array = json}};
    case JSON_OBJECT:
        return (struct value){.kind = IS_OBJECT, .object = json};
    default:
        return (struct value){.kind = IS_OTHER};
    }
}

bool ten_fields_read(ten_request *request, const json_t *object, enum ten_place place, ten_fields *fields) {
    struct reading reading = {request, place, fields, 0, 0};
    const char *name;
    json_t *json;
    json_object_foreach((json_t *)(uintptr_t)object, name, json) {
        const struct value value = value_of(json);
        if (!keep_member(&reading, name, strlen(name), &value))
            return false;
    }
    return true;
}

/* ---- read in place: a body of plain members and at most one array of plain objects (base/plain.h). It is passed
 * over as a whole first, so that reading it cannot fail. Texts are ended over their closing quotes. */

/* The array of a body. */
struct found {
    ten_items items;
    const char *end;
};

static bool pass_object(ten_plain *plain, struct reading *reading, struct found *found);

/* The items of an array, which were found before if it is read now. */
static bool pass_items(ten_plain *plain, bool is_read, struct found *found) {
    if (!is_read && (!found || found->end))
        return false;
    if (is_read) {
        plain->at = found->end;
        return true;
    }
    found->items.text = plain->at;
    do
        if (!pass_object(plain, NULL, NULL))
            return false;
    while (++found->items.count && TEN_PLAIN_IS(plain, ","));
    found->end = plain->at + 1;
    return TEN_PLAIN_IS(plain, "]");
}

static bool pass_value(ten_plain *plain, bool is_read, struct found *found, struct value *value) {
    value->kind = IS_NULL;
    if (TEN_PLAIN_IS(plain, "\"")) {
        value->kind = IS_TEXT;
        return ten_plain_text(plain, &value->text, &value->size);
    }
    if (TEN_PLAIN_IS(plain, "[")) {
        value->kind = IS_ITEMS;
        bool good = pass_items(plain, is_read, found);
        value->items = good ? found->items : value->items;
        return good;
    }
    value->truth = TEN_PLAIN_IS(plain, "true");
    if (value->truth || TEN_PLAIN_IS(plain, "false")) {
        value->kind = IS_TRUTH;
        return true;
    }
    if (TEN_PLAIN_IS(plain, "null"))
        return true;
    value->kind = IS_NUMBER;
    return ten_plain_number(plain, &value->number);
}

/* Passes over an object, and reads it if that is wanted. False: it is not plain, or it has been answered. */
static bool pass_object(ten_plain *plain, struct reading *reading, struct found *found) {
    if (!TEN_PLAIN_IS(plain, "{"))
        return false;
    do {
        struct value value;
        const char *name;
        size_t length;
        if (!TEN_PLAIN_IS(plain, "\"") || !ten_plain_text(plain, &name, &length) || !TEN_PLAIN_IS(plain, ":") ||
            !pass_value(plain, reading != NULL, found, &value))
            return false;
        if (reading && value.kind == IS_TEXT)
            ((char *)(uintptr_t)value.text)[value.size] = '\0';
        if (reading && !keep_member(reading, name, length, &value))
            return false;
    } while (TEN_PLAIN_IS(plain, ","));
    return TEN_PLAIN_IS(plain, "}");
}

bool ten_fields_next(ten_request *request, ten_items *items, enum ten_place place, ten_fields *fields) {
    size_t at = items->at++;
    if (items->text) {
        struct reading reading = {request, place, fields, 0, 0};
        ten_plain plain = {.at = items->text, .end = request->body.data + request->body.size};
        bool good = pass_object(&plain, &reading, NULL);
        items->text = plain.at + 1; /* a comma, or the end */
        return good;
    }
    const json_t *item = json_array_get(items->array, at);
    if (json_is_object(item))
        return ten_fields_read(request, item, place, fields);
    return ten_reply_wrong(request, "each item of the array must be an object");
}

/* ---- a whole request */

static bool take_body(ten_request *request, ten_fields *fields) {
    struct reading reading = {request, request->operation->place, fields, 0, 0};
    const ten_buf *body = &request->body;
    ten_plain plain = {.at = body->data, .end = body->data + body->size};
    struct found found = {0};
    if (body->size == 0 || open_places & reading.place || !pass_object(&plain, NULL, &found) || plain.at != plain.end)
        return ten_body_parse(request) && ten_fields_read(request, request->json, reading.place, fields);
    plain.at = body->data;
    return ten_gate_grow(request, 2 * body->size) && pass_object(&plain, &reading, &found);
}

static bool take_argument(ten_request *request, const struct row *row, ten_fields *fields) {
    const char *text = ten_request_argument(request, row->name);
    if (!text)
        return true;
    struct value value = {.kind = IS_TEXT, .text = text, .size = strlen(text)};
    if (row->type == TRUTH && (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)) {
        value.kind = IS_TRUTH;
        value.truth = text[0] == 't';
    } else if (row->type == NUMBER && text[0] && strspn(text, "0123456789") == value.size) {
        value.kind = IS_NUMBER;
        value.number = strtoull(text, NULL, 10);
    }
    return keep(request, row, &value, fields);
}

bool ten_fields_take(ten_request *request, ten_fields *fields) {
    enum ten_place place = request->operation->place;
    if (request->method != TEN_GET && !take_body(request, fields))
        return false;
    for (const struct row *row = rows; row < rows + TEN_COUNT(rows); row++) {
        bool looked_for = row->ways & QUERY || (row->ways & ALSO_QUERY && !is_given(row, fields));
        if (row->places & place && looked_for && !take_argument(request, row, fields))
            return false;
    }
    return ten_fields_check(request, place, fields);
}
