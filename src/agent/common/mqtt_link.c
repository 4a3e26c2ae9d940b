/*
 * One connection to an MQTT broker. libmosquitto's own loop is not used: it waits by select(), which cannot see
 * descriptors above 1023, and an agent may have thousands open.
 */
#include "agent/common/mqtt_link.h"

#include <errno.h>
#include <limits.h>
#include <linux/sockios.h>
#include <mosquitto.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/random.h"

#define KEEPALIVE_S 30

struct ten_mqtt_link {
    const ten_mqtt_settings *settings;
    struct mosquitto *mosq;
    ten_mqtt_calls calls;
    bool dialed;     /* the socket was writable once: the TCP connection is there, or has failed */
    bool connected;  /* accepted */
    bool asked;      /* for the subscription */
    bool ready;      /* and that accepted, too */
    bool denied;     /* or not */
    bool wants_more; /* the last read brought something, and the receiver has room for more */
    bool holds_back; /* acknowledgements that are not to be written yet */
    int refusal;     /* what the broker said instead; 0: nothing */
    char why[160];   /* what libmosquitto has said last about an error */
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
    if (link->denied)
        return ten_fail(error, TENURE_E_DENIED, "%s does not let us subscribe to %.200s", name, link->settings->topic);
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
    link->connected = code == 0;
    link->ready = link->connected && !link->calls.received;
    link->refusal = code;
    link->wants_more = true;
}

static void on_subscribe(struct mosquitto *mosq, void *userdata, int number, int count, const int *granted) {
    ten_mqtt_link *link = userdata;
    (void)mosq;
    (void)number;
    link->ready = count > 0 && granted[0] < 128;
    link->denied = !link->ready;
    link->wants_more = true;
}

/* libmosquitto has queued the acknowledgement before it calls this. */
static void on_message(struct mosquitto *mosq, void *userdata, const struct mosquitto_message *message) {
    ten_mqtt_link *link = userdata;
    (void)mosq;
    link->holds_back = true;
    link->wants_more = link->calls.received(message->payload, (size_t)message->payloadlen, link->calls.userdata);
}

static void on_publish(struct mosquitto *mosq, void *userdata, int number) {
    const ten_mqtt_link *link = userdata;
    (void)mosq;
    link->calls.confirmed(number, link->calls.userdata);
}

/* ---- opening and closing */

static int set_user(const ten_mqtt_link *link, ten_error *error) {
    const ten_mqtt_settings *settings = link->settings;
    char password[TEN_SECRET_MAX];
    int r = ten_endpoint_secret(&settings->endpoint, password, error);
    if (r == TENURE_OK && settings->user) {
        int code = mosquitto_username_pw_set(link->mosq, settings->user, password[0] ? password : NULL);
        r = code == MOSQ_ERR_SUCCESS ? TENURE_OK : fail(link, code, error);
    }
    explicit_bzero(password, sizeof password);
    return r;
}

static int set_tls(const ten_mqtt_link *link, ten_error *error) {
    const ten_url_files *endpoint = &link->settings->endpoint;
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
    const char *own_id = link->settings->client_id;
    snprintf(id, sizeof id, "tenure-%016llx", (unsigned long long)ten_random_u64());
    link->mosq = mosquitto_new(own_id ? own_id : id, !own_id, link);
    if (!link->mosq)
        return fail(link, MOSQ_ERR_NOMEM, error);
    mosquitto_log_callback_set(link->mosq, on_log);
    mosquitto_connect_callback_set(link->mosq, on_connect);
    if (link->calls.confirmed)
        mosquitto_publish_callback_set(link->mosq, on_publish);
    if (link->calls.received) {
        mosquitto_message_callback_set(link->mosq, on_message);
        mosquitto_subscribe_callback_set(link->mosq, on_subscribe);
        /* There is no thread, but so it writes nothing by itself, and acknowledgements wait for us. */
        (void)mosquitto_threaded_set(link->mosq, true);
    }
    (void)mosquitto_max_inflight_messages_set(link->mosq, 0);
    (void)mosquitto_int_option(link->mosq, MOSQ_OPT_TCP_NODELAY, 1);
    int r = set_user(link, error);
    return r == TENURE_OK ? set_tls(link, error) : r;
}

int ten_mqtt_link_open(const ten_mqtt_settings *settings, const ten_mqtt_calls *calls, ten_mqtt_link **ret_link,
                       ten_error *error) {
    ten_mqtt_link *link = ten_calloc(1, sizeof *link);
    if (!link)
        return ten_fail_memory(error, "a connection to %s", settings->name);
    link->settings = settings;
    link->calls = *calls;
    int r = prepare(link, error);
    if (r == TENURE_OK) {
        int code = mosquitto_connect_async(link->mosq, settings->host, settings->port, KEEPALIVE_S);
        r = code == MOSQ_ERR_SUCCESS ? TENURE_OK : fail(link, code, error);
    }
    if (r < 0)
        ten_mqtt_link_cut(link);
    else
        *ret_link = link;
    return r;
}

static void free_link(ten_mqtt_link *link) {
    if (link->mosq)
        mosquitto_destroy(link->mosq);
    ten_free(link);
}

void ten_mqtt_link_close(ten_mqtt_link *link) {
    if (!link)
        return;
    bool writes = link->connected && !link->holds_back;
    (void)mosquitto_disconnect(link->mosq);
    if (writes)
        (void)mosquitto_loop_write(link->mosq, 1);
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
    bool writes = !link->dialed || (!link->holds_back && mosquitto_want_write(link->mosq));
    return (short)(POLLIN | (writes ? POLLOUT : 0));
}

/* libmosquitto reads one packet at a time; with TLS more may have come already that poll() does not see. */
static int read_packets(ten_mqtt_link *link) {
    int code = MOSQ_ERR_SUCCESS;
    do {
        link->wants_more = false;
        code = mosquitto_loop_read(link->mosq, 1);
    } while (code == MOSQ_ERR_SUCCESS && link->wants_more);
    return code;
}

static int subscribe(ten_mqtt_link *link) {
    if (!link->calls.received || !link->connected || link->asked)
        return MOSQ_ERR_SUCCESS;
    link->asked = true;
    return mosquitto_subscribe(link->mosq, NULL, link->settings->topic, 1);
}

int ten_mqtt_link_work(ten_mqtt_link *link, short events, ten_error *error) {
    int code = MOSQ_ERR_SUCCESS;
    bool reads =
        (events & (POLLIN | POLLERR | POLLHUP)) || (link->calls.received && link->ready && link->settings->tls);
    errno = 0;
    if ((events & (POLLOUT | POLLERR | POLLHUP)) && !link->holds_back) {
        link->dialed = true;
        code = mosquitto_loop_write(link->mosq, 1);
    }
    if (code == MOSQ_ERR_SUCCESS && reads)
        code = read_packets(link);
    if (code == MOSQ_ERR_SUCCESS)
        code = subscribe(link);
    if (code == MOSQ_ERR_SUCCESS)
        code = mosquitto_loop_misc(link->mosq);
    return code == MOSQ_ERR_SUCCESS && !link->refusal && !link->denied ? TENURE_OK : fail(link, code, error);
}

void ten_mqtt_link_acknowledge(ten_mqtt_link *link) {
    link->holds_back = false;
    (void)mosquitto_loop_write(link->mosq, 1); /* an error comes again with the next work */
}

struct pollfd ten_mqtt_link_polled(const ten_mqtt_link *link) {
    return (struct pollfd){.fd = mosquitto_socket(link->mosq), .events = wanted(link)};
}

int ten_mqtt_link_step(ten_mqtt_link *link, int wake_fd, uint64_t until_ms, ten_error *error) {
    struct pollfd polled[] = {ten_mqtt_link_polled(link), {.fd = wake_fd, .events = POLLIN}};
    uint64_t left_ms = ten_min_u64(ten_sub_saturating(until_ms, ten_now_ms()), TEN_MQTT_LOOK_MS);
    if (polled[0].fd < 0)
        return fail(link, MOSQ_ERR_CONN_LOST, error);
    (void)poll(polled, TEN_COUNT(polled), (int)left_ms);
    return ten_mqtt_link_work(link, polled[0].revents, error);
}
