/*
 * Metrics as Prometheus reads them. Used by the server and by the exporter of an agent.
 */
#ifndef TEN_BASE_METRIC_H
#define TEN_BASE_METRIC_H

#include "base/buf.h"

/* The two lines before the values of a metric. */
static inline void ten_metric_head(ten_buf *to, const char *name, const char *type, const char *help) {
    ten_buf_format(to, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* A metric of one value: the format and what follows it are its labels and the value. */
#define TEN_METRIC(to, name, type, help, format, ...)                                                                  \
    (ten_metric_head(to, name, type, help), ten_buf_format(to, name format "\n", __VA_ARGS__))

/* A label whose value may have any characters. */
static inline void ten_metric_label(ten_buf *to, const char *name, const char *value) {
    ten_buf_format(to, "%s=\"", name);
    for (; *value; value++) {
        if (*value == '"' || *value == '\\')
            ten_buf_char(to, '\\');
        ten_buf_char(to, *value);
    }
    ten_buf_char(to, '"');
}

#endif
