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

/* SUBJECT is a text that may be null, which means something. ITEMS is an array. */
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

/* As the rows have them. */
enum {
    LISTING = TEN_IN_LISTING,
    EDITS = TEN_IN_EDITS,
    EDIT = TEN_IN_EDIT,
    PINNING = TEN_IN_PINNING,
    UNPINNING = TEN_IN_UNPINNING,
    FORGETTING = TEN_IN_FORGETTING,
    ACQUIRING = TEN_IN_ACQUIRING,
    RENEWING = TEN_IN_RENEWING,
    RELEASING = TEN_IN_RELEASING,
    HANDING = TEN_IN_HANDING,
    CHECKPOINTING = TEN_IN_CHECKPOINTING,
    BATCH = TEN_IN_BATCH,
    ITEM = TEN_IN_ITEM,
    INSTANCES = TEN_IN_INSTANCES,
    HEARTBEAT = TEN_IN_HEARTBEAT,
    STREAM = TEN_IN_STREAM,
    HISTORY = TEN_IN_HISTORY,
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

static const struct row *find(unsigned places, const char *name, size_t length) {
    for (size_t i = 0; i < TEN_COUNT(rows); i++)
        if (rows[i].places & places && !(rows[i].ways & QUERY) && rows[i].length == length &&
            memcmp(rows[i].name, name, length) == 0)
            return &rows[i];
    return NULL;
}

static bool is_known(unsigned place, const char *name, size_t length) {
    for (size_t i = 0; i < TEN_COUNT(families); i++)
        if (families[i] & place && find(families[i], name, length))
            return true;
    return (open_places & place) != 0;
}

/* ---- what is wrong */

uint64_t ten_fields_least_ttl_ms(const ten_request *request) {
    return ten_max_u64(TENURE_TTL_MIN_MS, ten_lane_capabilities(request->server->leases)->ttl_min_ms);
}

static uint64_t least_of(const ten_request *request, const struct row *row) {
    return row->type == TTL ? ten_fields_least_ttl_ms(request) : row->least;
}

static uint64_t most_of(const ten_request *request, const struct row *row) {
    return row->type == TTL ? request->server->config->ttl_max_ms : row->most;
}

static bool refuse_number(ten_request *request, const struct row *row) {
    ten_reply_error(request, 400, "bad_request", "%s must be an integer between %llu and %llu%s", row->name,
                    (unsigned long long)least_of(request, row), (unsigned long long)most_of(request, row),
                    row->type == TTL ? " on this server (tenure serve --max-ttl)" : "");
    return false;
}

static bool refuse(ten_request *request, const struct row *row, bool missing) {
    static const char *const rules[] = {
        [TRUTH] = "must be true or false",           [TEXT] = "must be a string without a NUL",
        [HOLDER] = "must be a string without a NUL", [TARGET] = "must be a string without a NUL",
        [SUBJECT] = "must be a string or null",      [OBJECT] = "must be an object"};
    const char *required = missing ? "is required and " : "";
    if (row->type == ITEMS)
        ten_reply_error(request, 400, "bad_request", "%s %smust be an array of %llu to %llu", row->name, required,
                        (unsigned long long)row->least, (unsigned long long)row->most);
    else if (row->type == NUMBER || row->type == TTL)
        ten_reply_error(request, 400, "bad_request", "%s %smust be an integer", row->name, required);
    else
        ten_reply_error(request, 400, "bad_request", "%s %s%s", row->name, required, rules[row->type]);
    return false;
}

static bool refuse_length(ten_request *request, const struct row *row) {
    ten_reply_error(request, row->ways & BULKY ? 413 : 400, row->ways & BULKY ? "too_large" : "bad_request",
                    "%s must have at most %llu bytes%s", row->name, (unsigned long long)row->most,
                    row->ways & PRINTABLE ? ", and no control characters" : "");
    return false;
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

static bool fits(enum type type, const struct value *value) {
    switch (type) {
    case NUMBER:
    case TTL:
        return value->kind == IS_NUMBER;
    case TRUTH:
        return value->kind == IS_TRUTH;
    case TEXT:
    case HOLDER:
    case TARGET:
        return value->kind == IS_TEXT && strlen(value->text) == value->size;
    case SUBJECT:
        return value->kind == IS_NULL || (value->kind == IS_TEXT && strlen(value->text) == value->size);
    case ITEMS:
        return value->kind == IS_ITEMS;
    default:
        return value->kind == IS_OBJECT;
    }
}

/* Ids are checked later: some are required, and some not even looked at. */
static bool keep_text(ten_request *request, const struct row *row, const struct value *value, void *member) {
    bool bounded = row->type == TEXT && row->most > 0;
    if (bounded &&
        (value->size > row->most || (row->ways & PRINTABLE && !ten_utf8_is_printable(value->text, value->size))))
        return refuse_length(request, row);
    *(const char **)member = row->ways & EMPTY && value->size == 0 ? NULL : value->text;
    return true;
}

static bool keep(ten_request *request, const struct row *row, const struct value *value, ten_fields *fields) {
    void *member = (char *)fields + row->offset;
    if (value->kind == IS_NULL && row->ways & NULLABLE)
        return true;
    bool is_number = row->type == NUMBER || row->type == TTL;
    if (!fits(row->type, value))
        return row->ways & LOOSE || (is_number ? refuse_number(request, row) : refuse(request, row, false));
    switch (row->type) {
    case NUMBER:
    case TTL:
        if (value->number < least_of(request, row) || value->number > most_of(request, row))
            return refuse_number(request, row);
        *(uint64_t *)member = value->number;
        return true;
    case TRUTH:
        *(enum ten_truth *)member = value->truth ? TEN_YES : TEN_NO;
        return true;
    case SUBJECT:
        *(struct ten_subject *)member = (struct ten_subject){value->text, value->kind == IS_NULL};
        return true;
    case ITEMS:
        if (value->items.count < row->least || value->items.count > row->most)
            return row->ways & LOOSE || refuse(request, row, false);
        *(ten_items *)member = value->items;
        return true;
    case OBJECT:
        *(const json_t **)member = value->object;
        return true;
    default:
        return keep_text(request, row, value, member);
    }
}

static bool keep_member(ten_request *request, enum ten_place place, const char *name, size_t length,
                        const struct value *value, ten_fields *fields) {
    const struct row *row = find(place, name, length);
    if (row)
        return keep(request, row, value, fields);
    if (is_known(place, name, length))
        return true;
    ten_reply_error(request, 400, "bad_request", "unknown member '%.*s'", (int)ten_min_u64(length, 60), name);
    return false;
}

static bool is_given(const struct row *row, const ten_fields *fields) {
    const void *member = (const char *)fields + row->offset;
    switch (row->type) {
    case NUMBER:
    case TTL:
        return *(const uint64_t *)member != 0;
    case ITEMS:
        return ((const ten_items *)member)->count > 0;
    default:
        return *(const char *const *)member != NULL;
    }
}

static bool check_name(ten_request *request, const struct row *row, const char *name) {
    ten_error error;
    if ((row->type == HOLDER ? ten_id_check_holder(name, &error) : ten_id_check_target(name, &error)) == TENURE_OK)
        return true;
    ten_reply_error(request, 400, "bad_request", "%s: %s", row->name, error.message);
    return false;
}

bool ten_fields_check(ten_request *request, enum ten_place place, const ten_fields *fields) {
    for (size_t i = 0; i < TEN_COUNT(rows); i++) {
        const struct row *row = &rows[i];
        bool is_name = row->type == HOLDER || row->type == TARGET;
        if (!(row->places & place) || (!is_name && !(row->ways & REQUIRED)))
            continue;
        if (!is_given(row, fields)) {
            if (row->ways & REQUIRED)
                return refuse(request, row, true);
        } else if (is_name && !check_name(request, row, *(const char *const *)((const char *)fields + row->offset))) {
            return false;
        }
    }
    return true;
}

bool ten_fields_check_ttl(ten_request *request, uint64_t ttl_ms) {
    static const struct row row = {.name = "ttl_ms", .type = TTL};
    return (ttl_ms >= least_of(request, &row) && ttl_ms <= most_of(request, &row)) || refuse_number(request, &row);
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

static bool read_object(ten_request *request, const json_t *object, enum ten_place place, ten_fields *fields) {
    const char *name;
    json_t *json;
    json_object_foreach((json_t *)(uintptr_t)object, name, json) {
        const struct value value = value_of(json);
        if (!keep_member(request, place, name, strlen(name), &value, fields))
            return false;
    }
    return true;
}

bool ten_fields_read(ten_request *request, const json_t *object, enum ten_place place, ten_fields *fields) {
    return read_object(request, object, place, fields) && ten_fields_check(request, place, fields);
}

/* ---- read where it is: a body of plain members and at most one array of plain objects (base/plain.h), which has been
 * looked at as a whole before. Texts are ended over their closing quotes. */

static bool pass_value(ten_plain *plain) {
    const char *text;
    size_t size;
    uint64_t number;
    return TEN_PLAIN_IS(plain, "\"") ? ten_plain_text(plain, &text, &size)
                                     : ten_plain_number(plain, &number) || TEN_PLAIN_IS(plain, "true") ||
                                           TEN_PLAIN_IS(plain, "false") || TEN_PLAIN_IS(plain, "null");
}

static bool pass_object(ten_plain *plain, ten_items *items);

static bool pass_items(ten_plain *plain, ten_items *items) {
    if (!items || items->text)
        return false;
    items->text = plain->at;
    do {
        if (!pass_object(plain, NULL))
            return false;
        items->count++;
    } while (TEN_PLAIN_IS(plain, ","));
    return TEN_PLAIN_IS(plain, "]");
}

/* Whether an object comes next, and where its items are; `items` NULL: it must have none. Then it is passed over. */
static bool pass_object(ten_plain *plain, ten_items *items) {
    const char *name;
    size_t length;
    if (!TEN_PLAIN_IS(plain, "{"))
        return false;
    do
        if (!TEN_PLAIN_IS(plain, "\"") || !ten_plain_text(plain, &name, &length) || !TEN_PLAIN_IS(plain, ":") ||
            !(TEN_PLAIN_IS(plain, "[") ? pass_items(plain, items) : pass_value(plain)))
            return false;
    while (TEN_PLAIN_IS(plain, ","));
    return TEN_PLAIN_IS(plain, "}");
}

static struct value read_value(ten_plain *plain, const ten_items *items) {
    struct value value = {.kind = IS_NULL};
    if (TEN_PLAIN_IS(plain, "\"")) {
        value.kind = IS_TEXT;
        (void)ten_plain_text(plain, &value.text, &value.size);
        ((char *)(uintptr_t)value.text)[value.size] = '\0';
    } else if (TEN_PLAIN_IS(plain, "[")) {
        value.kind = IS_ITEMS;
        value.items = *items;
        ten_items passed = {0};
        (void)pass_items(plain, &passed);
    } else if (TEN_PLAIN_IS(plain, "true") || TEN_PLAIN_IS(plain, "false")) {
        value.kind = IS_TRUTH;
        value.truth = plain->at[-2] == 'u';
    } else if (!TEN_PLAIN_IS(plain, "null")) {
        value.kind = IS_NUMBER;
        (void)ten_plain_number(plain, &value.number);
    }
    return value;
}

/* One that has a member twice is refused, as jansson does. */
static bool read_plain(ten_request *request, ten_plain *plain, const ten_items *items, enum ten_place place,
                       ten_fields *fields) {
    const char *names[TEN_COUNT(rows)];
    size_t lengths[TEN_COUNT(rows)];
    size_t count = 0;
    (void)TEN_PLAIN_IS(plain, "{");
    do {
        const char *name = NULL;
        size_t length = 0;
        (void)TEN_PLAIN_IS(plain, "\"");
        (void)ten_plain_text(plain, &name, &length);
        (void)TEN_PLAIN_IS(plain, ":");
        const struct value value = read_value(plain, items);
        for (size_t i = 0; i < count; i++)
            if (lengths[i] == length && memcmp(names[i], name, length) == 0) {
                ten_reply_error(request, 400, "bad_request", "the body is not JSON: '%.*s' is there twice",
                                (int)ten_min_u64(length, 60), name);
                return false;
            }
        if (!keep_member(request, place, name, length, &value, fields))
            return false;
        if (count < TEN_COUNT(rows)) {
            names[count] = name;
            lengths[count++] = length;
        }
    } while (TEN_PLAIN_IS(plain, ","));
    return TEN_PLAIN_IS(plain, "}");
}

bool ten_fields_next(ten_request *request, ten_items *items, enum ten_place place, ten_fields *fields) {
    size_t at = items->at++;
    if (items->text) {
        ten_plain plain = {.at = items->text, .end = request->body.data + request->body.size};
        bool good = read_plain(request, &plain, NULL, place, fields);
        items->text = plain.at + 1; /* a comma, or the end */
        return good && ten_fields_check(request, place, fields);
    }
    const json_t *item = json_array_get(items->array, at);
    if (json_is_object(item))
        return ten_fields_read(request, item, place, fields);
    ten_reply_error(request, 400, "bad_request", "each item of the array must be an object");
    return false;
}

static bool take_body(ten_request *request, ten_fields *fields) {
    enum ten_place place = request->operation->place;
    const ten_buf *body = &request->body;
    ten_plain plain = {.at = body->data, .end = body->data + body->size};
    ten_items items = {0};
    if (body->size > 0 && pass_object(&plain, &items) && plain.at == plain.end) {
        plain.at = body->data;
        items.text = items.count ? items.text : NULL;
        return ten_gate_grow(request, 2 * body->size) && read_plain(request, &plain, &items, place, fields);
    }
    return ten_body_parse(request) && read_object(request, request->json, place, fields);
}

/* ---- read from the query */

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
    for (size_t i = 0; i < TEN_COUNT(rows); i++) {
        const struct row *row = &rows[i];
        bool looked_for = row->ways & QUERY || (row->ways & ALSO_QUERY && !is_given(row, fields));
        if (row->places & place && looked_for && !take_argument(request, row, fields))
            return false;
    }
    return ten_fields_check(request, place, fields);
}
