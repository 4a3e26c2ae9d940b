/*
 * One connection to an MQTT broker. libmosquitto's own loop is not used: it waits by select(), which cannot see
 * descriptors above 1023, and an agent may have thousands open.
 */
#include "agent/mqtt_link.h"

#include <errno.h>
#include <limits.h>
#include <linux/sockios.h>
#include <mosquitto.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/random.h"

#define KEEPALIVE_S 30
#define LOOK_MS     1000u /* libmosquitto is to see whether it has to send a ping */

struct ten_mqtt_link {
    const ten_mqtt_settings *settings;
    struct mosquitto *mosq;
    ten_mqtt_confirmed_fn confirmed;
    void *userdata;
    bool dialed;   /* the socket was writable once: the TCP connection is there, or has failed */
    bool ready;    /* accepted */
    int refusal;   /* what the broker said instead; 0: nothing */
    char why[160]; /* what libmosquitto has said last about an error */
};

/* ---- what went wrong */

static void on_log(struct mosquitto *mosq, void *userdata, int level, const char *text) {
    ten_mqtt_link *link = userdata;
    (void)mosq;
    if (level == MOSQ_LOG_ERR || level == MOSQ_LOG_WARNING)
        snprintf(link->why, sizeof link->why, "%s", text);
}

static int fail_refused(const ten_mqtt_link *link, ten_error *error) {
    const char *name = link->settings->name;
    int refusal = link->refusal;
    if (refusal == 4 || refusal == 5) /* bad user name or password; not authorized */
        return ten_fail(error, TENURE_E_DENIED, "%s does not let us in: %s", name, mosquitto_connack_string(refusal));
    return ten_fail(error, TENURE_E_UNREACHABLE, "%s: %s", name, mosquitto_connack_string(refusal));
}

static int fail(const ten_mqtt_link *link, int code, ten_error *error) {
    const char *name = link->settings->name;
    int system_error = errno;
    if (link->refusal)
        return fail_refused(link, error);
    switch (code) {
    case MOSQ_ERR_ERRNO:
        return ten_fail_errno(error, TENURE_E_UNREACHABLE, system_error, "%s", name);
    case MOSQ_ERR_EAI:
        return ten_fail(error, TENURE_E_UNREACHABLE, "%s: there is no such host", name);
    case MOSQ_ERR_TLS:
    case MOSQ_ERR_TLS_HANDSHAKE:
        return ten_fail(error, TENURE_E_UNREACHABLE, "%s: TLS: %s", name,
                        link->why[0] ? link->why : mosquitto_strerror(code));
    case MOSQ_ERR_NOMEM:
        return ten_fail(error, TENURE_E_NOMEM, "%s: out of memory", name);
    default:
        return ten_fail(error, TENURE_E_UNREACHABLE, "%s: %s%s%s", name, mosquitto_strerror(code),
                        link->why[0] ? " " : "", link->why);
    }
}

/* ---- what the broker says */

static void on_connect(struct mosquitto *mosq, void *userdata, int code) {
    ten_mqtt_link *link = userdata;
    (void)mosq;
    link->ready = code == 0;
    link->refusal = code;
}

static void on_publish(struct mosquitto *mosq, void *userdata, int number) {
    const ten_mqtt_link *link = userdata;
    (void)mosq;
    link->confirmed(number, link->userdata);
}

/* ---- opening and closing */

static int set_user(const ten_mqtt_link *link, ten_error *error) {
    const ten_mqtt_settings *settings = link->settings;
    char password[TEN_SECRET_MAX];
    int done = ten_endpoint_secret(&settings->endpoint, password, error);
    if (done == TENURE_OK && settings->user) {
        int code = mosquitto_username_pw_set(link->mosq, settings->user, password[0] ? password : NULL);
        done = code == MOSQ_ERR_SUCCESS ? TENURE_OK : fail(link, code, error);
    }
    explicit_bzero(password, sizeof password);
    return done;
}

static int set_tls(const ten_mqtt_link *link, ten_error *error) {
    const ten_endpoint *endpoint = &link->settings->endpoint;
    if (!link->settings->tls)
        return TENURE_OK;
    int code = endpoint->ca_file ? mosquitto_tls_set(link->mosq, endpoint->ca_file, NULL, endpoint->cert_file,
                                                     endpoint->key_file, NULL)
                                 : mosquitto_int_option(link->mosq, MOSQ_OPT_TLS_USE_OS_CERTS, 1);
    return code == MOSQ_ERR_SUCCESS ? TENURE_OK : fail(link, code, error);
}

/* libmosquitto would queue what is more than its window, and send it when it likes: there is a window of ours. */
static int prepare(ten_mqtt_link *link, ten_error *error) {
    char id[24]; /* what every broker takes */
    snprintf(id, sizeof id, "tenure-%016llx", (unsigned long long)ten_random_u64());
    link->mosq = mosquitto_new(id, true, link);
    if (!link->mosq)
        return fail(link, MOSQ_ERR_NOMEM, error);
    mosquitto_log_callback_set(link->mosq, on_log);
    mosquitto_connect_callback_set(link->mosq, on_connect);
    mosquitto_publish_callback_set(link->mosq, on_publish);
    (void)mosquitto_max_inflight_messages_set(link->mosq, 0);
    (void)mosquitto_int_option(link->mosq, MOSQ_OPT_TCP_NODELAY, 1);
    int done = set_user(link, error);
    return done == TENURE_OK ? set_tls(link, error) : done;
}

int ten_mqtt_link_open(const ten_mqtt_settings *settings, ten_mqtt_confirmed_fn confirmed, void *userdata,
                       ten_mqtt_link **ret_link, ten_error *error) {
    ten_mqtt_link *link = ten_calloc(1, sizeof *link);
    if (!link)
        return ten_fail(error, TENURE_E_NOMEM, "out of memory for a connection to %s", settings->name);
    link->settings = settings;
    link->confirmed = confirmed;
    link->userdata = userdata;
    int done = prepare(link, error);
    if (done == TENURE_OK) {
        int code = mosquitto_connect_async(link->mosq, settings->host, settings->port, KEEPALIVE_S);
        done = code == MOSQ_ERR_SUCCESS ? TENURE_OK : fail(link, code, error);
    }
    if (done < 0)
        ten_mqtt_link_cut(link);
    else
        *ret_link = link;
    return done;
}

static void free_link(ten_mqtt_link *link) {
    if (link->mosq)
        mosquitto_destroy(link->mosq);
    ten_free(link);
}

void ten_mqtt_link_close(ten_mqtt_link *link) {
    if (!link)
        return;
    (void)mosquitto_disconnect(link->mosq);
    free_link(link);
}

void ten_mqtt_link_cut(ten_mqtt_link *link) {
    if (!link)
        return;
    int fd = link->mosq ? mosquitto_socket(link->mosq) : -1;
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    if (fd >= 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    free_link(link);
}

/* ---- its state */

bool ten_mqtt_link_is_ready(const ten_mqtt_link *link) {
    return link->ready;
}

bool ten_mqtt_link_is_busy(const ten_mqtt_link *link) {
    return mosquitto_want_write(link->mosq);
}

bool ten_mqtt_link_has_unsent(const ten_mqtt_link *link) {
    int bytes = 0;
    int fd = mosquitto_socket(link->mosq);
    return ten_mqtt_link_is_busy(link) || (fd >= 0 && ioctl(fd, SIOCOUTQ, &bytes) == 0 && bytes > 0);
}

/* ---- working */

int ten_mqtt_link_publish(ten_mqtt_link *link, const char *topic, const char *payload, size_t size, int *ret_number,
                          ten_error *error) {
    int code = size > INT_MAX ? MOSQ_ERR_PAYLOAD_SIZE
                              : mosquitto_publish(link->mosq, ret_number, topic, (int)size, payload, 1, false);
    switch (code) {
    case MOSQ_ERR_SUCCESS:
        return TENURE_OK;
    case MOSQ_ERR_INVAL:
    case MOSQ_ERR_PAYLOAD_SIZE:
    case MOSQ_ERR_OVERSIZE_PACKET:
    case MOSQ_ERR_MALFORMED_UTF8:
        return ten_fail(error, TENURE_E_INVALID, "%s: a message cannot be sent: %s", link->settings->name,
                        mosquitto_strerror(code));
    default:
        return fail(link, code, error);
    }
}

/* Until the first time that it can be written, libmosquitto does not say that it waits for that. */
static short wanted(const ten_mqtt_link *link) {
    return (short)(POLLIN | (!link->dialed || mosquitto_want_write(link->mosq) ? POLLOUT : 0));
}

static int work(ten_mqtt_link *link, short events, ten_error *error) {
    int code = MOSQ_ERR_SUCCESS;
    errno = 0;
    if (events & (POLLOUT | POLLERR | POLLHUP)) {
        link->dialed = true;
        code = mosquitto_loop_write(link->mosq, 1);
    }
    if (code == MOSQ_ERR_SUCCESS && (events & (POLLIN | POLLERR | POLLHUP)))
        code = mosquitto_loop_read(link->mosq, 1);
    if (code == MOSQ_ERR_SUCCESS)
        code = mosquitto_loop_misc(link->mosq);
    return code == MOSQ_ERR_SUCCESS && !link->refusal ? TENURE_OK : fail(link, code, error);
}

int ten_mqtt_link_step(ten_mqtt_link *link, int wake_fd, uint64_t until_ms, ten_error *error) {
    struct pollfd polled[] = {{.fd = mosquitto_socket(link->mosq), .events = wanted(link)},
                              {.fd = wake_fd, .events = POLLIN}};
    uint64_t left_ms = ten_min_u64(ten_left_u64(until_ms, ten_boot_ms(&ten_system_clock)), LOOK_MS);
    if (polled[0].fd < 0)
        return fail(link, MOSQ_ERR_CONN_LOST, error);
    (void)poll(polled, TEN_COUNT(polled), (int)left_ms);
    return work(link, polled[0].revents, error);
}
