/*
 * TLS for connections to Redis, by OpenSSL: at least 1.2, the certificate and the host's name always checked. OpenSSL
 * reads and writes through a BIO of ours, because its own would raise SIGPIPE, which belongs to the program.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>

#include "store/redis/redis_link_state.h"

/* ---- the BIO */

static int bio_write(BIO *bio, const char *data, int size) {
    const ten_redis_link *link = BIO_get_data(bio);
    ssize_t count = send(link->fd, data, (size_t)size, MSG_NOSIGNAL | MSG_DONTWAIT);
    BIO_clear_retry_flags(bio);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_write(bio);
    return (int)count;
}

static int bio_read(BIO *bio, char *data, int size) {
    const ten_redis_link *link = BIO_get_data(bio);
    ssize_t count = recv(link->fd, data, (size_t)size, MSG_DONTWAIT);
    BIO_clear_retry_flags(bio);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_read(bio);
    return (int)count;
}

static long bio_control(BIO *bio, int command, long number, void *pointer) {
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH ? 1 : 0;
}

static BIO_METHOD *bio_method;

static void make_bio_method(void) {
    bio_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tenure socket");
    if (bio_method) {
        BIO_meth_set_write(bio_method, bio_write);
        BIO_meth_set_read(bio_method, bio_read);
        BIO_meth_set_ctrl(bio_method, bio_control);
    }
}

/* ---- what went wrong */

static const char *reason_of(unsigned long code) {
    const char *reason = code ? ERR_reason_error_string(code) : NULL;
    return reason ? reason : "the connection ended";
}

/* Alerts by which a server says that it does not like our certificate, or that we have none. */
static bool is_about_us(unsigned long code) {
    switch (ERR_GET_REASON(code)) {
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
        return ERR_GET_LIB(code) == ERR_LIB_SSL;
    default:
        return false;
    }
}

static const char *advice_for(unsigned long code) {
    switch (ERR_GET_REASON(code)) {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
        return " (a server without TLS? that is redis://)";
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
        return " (does it want a client's certificate? cert_file and key_file name one)";
    default:
        return "";
    }
}

int ten_redis_tls_lost(const ten_redis_link *link, ten_error *error) {
    unsigned long code = link->tls_error;
    bool showed = SSL_get_certificate(link->tls) != NULL;
    if (is_about_us(code))
        return ten_fail(error, TENURE_E_DENIED, "%s refused %s: %s (%s)", link->name,
                        showed ? "our certificate" : "a client without a certificate", reason_of(code),
                        showed ? "cert_file is not one that it trusts" : "cert_file and key_file name one");
    return ten_fail(error, TENURE_E_UNREACHABLE, "%s: no TLS session: %s%s", link->name, reason_of(code),
                    advice_for(code));
}

/* ---- context and session */

/* Nobody is there to be asked for it; OpenSSL's own way is to wait for somebody at the terminal. */
static int no_pass_phrase(char *text, int size, int writing, void *userdata) {
    (void)text;
    (void)size;
    (void)writing;
    (void)userdata;
    return -1;
}

/* NULL, or what is wrong with the files. */
static const char *load_files(SSL_CTX *context, const ten_url_files *files) {
    if (files->ca_file && SSL_CTX_load_verify_locations(context, files->ca_file, NULL) != 1)
        return "ca_file is not a PEM file of certificates";
    if (!files->ca_file && SSL_CTX_set_default_verify_paths(context) != 1)
        return "no system certificates";
    if (files->cert_file && SSL_CTX_use_certificate_chain_file(context, files->cert_file) != 1)
        return "cert_file is not a PEM file of a certificate";
    if (files->cert_file && (SSL_CTX_use_PrivateKey_file(context, files->key_file, SSL_FILETYPE_PEM) != 1 ||
                             SSL_CTX_check_private_key(context) != 1))
        return "key_file is not a PEM file of cert_file's key, without a pass phrase";
    return NULL;
}

static int new_context(const ten_redis_settings *settings, SSL_CTX **ret_context, ten_error *error) {
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    if (!context)
        return ten_fail(error, TENURE_E_NOMEM, "cannot set up TLS");
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_default_passwd_cb(context, no_pass_phrase);
    const char *wrong = load_files(context, &settings->files);
    if (!wrong) {
        *ret_context = context;
        return TENURE_OK;
    }
    unsigned long reason = ERR_peek_last_error();
    ERR_clear_error();
    SSL_CTX_free(context);
    return ten_fail(error, TENURE_E_INVALID, "%s: %s: %s", settings->name, wrong, reason_of(reason));
}

/* From the files each time, because certificates are replaced while a program runs. While somebody is at it, and what
 * is there does not fit together, what was there before serves. */
static int make_context(ten_redis_settings *settings, ten_error *error) {
    bool has_files = settings->files.ca_file || settings->files.cert_file;
    if (settings->tls_context && !has_files)
        return TENURE_OK;
    SSL_CTX *context = NULL;
    int r = new_context(settings, &context, error);
    if (r < 0)
        return settings->tls_context ? TENURE_OK : r;
    SSL_CTX_free(settings->tls_context);
    settings->tls_context = context;
    return TENURE_OK;
}

/* What a call of OpenSSL came to that has not done its work: 0, the end, or a negative errno. */
static ssize_t outcome(ten_redis_link *link, int state) {
    switch (SSL_get_error(link->tls, state)) {
    case SSL_ERROR_WANT_READ:
        link->wants = POLLIN;
        return -EAGAIN;
    case SSL_ERROR_WANT_WRITE:
        link->wants = POLLOUT;
        return -EAGAIN;
    case SSL_ERROR_ZERO_RETURN:
        return 0;
    default:
        if (!link->tls_error)
            link->tls_error = ERR_peek_last_error();
        ERR_clear_error();
        return -ECONNRESET;
    }
}

static bool expect_host(SSL *tls, const char *host) {
    unsigned char address[sizeof(struct in6_addr)];
    if (inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls), host) == 1;
    SSL_set_hostflags(tls, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set_tlsext_host_name(tls, host) == 1 && SSL_set1_host(tls, host) == 1;
}

static int handshake_failed(ten_redis_link *link, ten_error *error) {
    long verified = SSL_get_verify_result(link->tls);
    bool stranger = verified != X509_V_ERR_CERT_HAS_EXPIRED && verified != X509_V_ERR_CERT_NOT_YET_VALID &&
                    verified != X509_V_ERR_HOSTNAME_MISMATCH && verified != X509_V_ERR_IP_ADDRESS_MISMATCH;
    if (verified != X509_V_OK)
        return ten_fail(error, TENURE_E_UNREACHABLE, "%s: its certificate is not accepted for %s: %s%s", link->name,
                        link->host, X509_verify_cert_error_string(verified),
                        stranger ? " (ca_file names the authority to trust)" : "");
    return ten_redis_tls_lost(link, error);
}

int ten_redis_tls_start(ten_redis_settings *settings, ten_redis_link *link, uint64_t deadline_ms, ten_error *error) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_bio_method);
    int r = make_context(settings, error);
    if (r < 0)
        return r;
    ERR_clear_error();
    BIO *bio = bio_method ? BIO_new(bio_method) : NULL;
    link->tls = bio ? SSL_new(settings->tls_context) : NULL;
    if (!link->tls || !expect_host(link->tls, link->host)) {
        BIO_free(bio);
        return ten_fail(error, TENURE_E_NOMEM, "cannot set up TLS for %s", link->name);
    }
    BIO_set_data(bio, link);
    BIO_set_init(bio, 1);
    SSL_set_bio(link->tls, bio, bio);
    for (;;) {
        int state = SSL_connect(link->tls);
        if (state == 1)
            return TENURE_OK;
        if (outcome(link, state) != -EAGAIN)
            return handshake_failed(link, error);
        r = ten_redis_link_wait(link, link->wants, deadline_ms, error);
        if (r == TENURE_E_TIMEOUT)
            return ten_fail(error, r,
                            "%s did not answer the TLS handshake in time (a server without TLS? that is redis://)",
                            link->name);
        if (r < 0)
            return r;
    }
}

/* Not by a look at the socket: TLS sends things of its own between replies, and one of them is its end. */
bool ten_redis_tls_is_fresh(ten_redis_link *link) {
    char byte;
    size_t count = 0;
    ERR_clear_error();
    int state = SSL_peek_ex(link->tls, &byte, 1, &count);
    return state != 1 && outcome(link, state) == -EAGAIN;
}

ssize_t ten_redis_tls_read(ten_redis_link *link, void *data, size_t size) {
    size_t count = 0;
    ERR_clear_error();
    int state = SSL_read_ex(link->tls, data, size, &count);
    return state == 1 ? (ssize_t)count : outcome(link, state);
}

ssize_t ten_redis_tls_write(ten_redis_link *link, const void *data, size_t size) {
    size_t count = 0;
    ERR_clear_error();
    int state = SSL_write_ex(link->tls, data, size, &count);
    return state == 1 ? (ssize_t)count : outcome(link, state);
}
