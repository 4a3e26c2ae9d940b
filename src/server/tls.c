/*
 * See tls.h.
 */
#include "server/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/util.h"

#define FILE_MAX    ((size_t)256 * 1024)
#define CHAIN_MAX   16u
#define KEY_ID_SIZE 64u

#define SIGNATURES      5
#define KEY_EXCHANGE_US 300u

struct identity {
    gnutls_pcert_st certs[CHAIN_MAX];
    unsigned count;
    gnutls_privkey_t key;
    uint64_t handshake_us;
};

/* A handshake that is under way may still use the one before. */
static struct identity *current;
static struct identity *before;

static void free_identity(struct identity *identity) {
    if (!identity)
        return;
    for (unsigned i = 0; i < identity->count; i++)
        gnutls_pcert_deinit(&identity->certs[i]);
    if (identity->key)
        gnutls_privkey_deinit(identity->key);
    ten_free(identity);
}

int ten_tls_read_file(const char *path, gnutls_datum_t *ret_text, mode_t *ret_mode, ten_error *error) {
    struct stat about;
    TEN_CLEANUP(ten_close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    unsigned char *text = ten_calloc(1, FILE_MAX + 1);
    ssize_t size = fd >= 0 && text && fstat(fd, &about) == 0 ? ten_pread_all(fd, text, FILE_MAX, 0) : -errno;
    if (size <= 0) {
        ten_free(text);
        return ten_fail_errno(error, TENURE_E_INVALID, size < 0 ? (int)-size : ENODATA, "cannot read %s", path);
    }
    *ret_text = (gnutls_datum_t){.data = text, .size = (unsigned)size};
    *ret_mode = about.st_mode;
    return TENURE_OK;
}

static void free_text(gnutls_datum_t *text) {
    if (text->data)
        explicit_bzero(text->data, text->size);
    ten_free(text->data);
}

static bool belong_together(const struct identity *identity) {
    unsigned char ids[2][KEY_ID_SIZE] = {{0}};
    size_t sizes[2] = {KEY_ID_SIZE, KEY_ID_SIZE};
    gnutls_pubkey_t own;
    if (gnutls_pubkey_init(&own) < 0)
        return false;
    bool same = gnutls_pubkey_import_privkey(own, identity->key, 0, 0) >= 0 &&
                gnutls_pubkey_get_key_id(own, 0, ids[0], &sizes[0]) >= 0 &&
                gnutls_pubkey_get_key_id(identity->certs[0].pubkey, 0, ids[1], &sizes[1]) >= 0 &&
                sizes[0] == sizes[1] && memcmp(ids[0], ids[1], sizes[0]) == 0;
    gnutls_pubkey_deinit(own);
    return same;
}

static int parse(struct identity *identity, const gnutls_datum_t *cert, const gnutls_datum_t *key,
                 const char *cert_path, const char *key_path, ten_error *error) {
    unsigned count = CHAIN_MAX;
    int r = gnutls_pcert_list_import_x509_raw(identity->certs, &count, cert, GNUTLS_X509_FMT_PEM, 0);
    if (r < 0)
        return ten_fail(error, TENURE_E_INVALID, "%s is not a PEM certificate chain: %s", cert_path,
                        gnutls_strerror(r));
    identity->count = count;
    r = gnutls_privkey_init(&identity->key);
    if (r >= 0)
        r = gnutls_privkey_import_x509_raw(identity->key, key, GNUTLS_X509_FMT_PEM, NULL, 0);
    if (r < 0)
        return ten_fail(error, TENURE_E_INVALID, "%s is no private key in PEM: %s", key_path, gnutls_strerror(r));
    if (count == 0 || !belong_together(identity))
        return ten_fail(error, TENURE_E_INVALID, "the certificate %s and the key %s do not belong together", cert_path,
                        key_path);
    return TENURE_OK;
}

/* The least of a few counts: on a busy machine one of them may have waited for the processor. */
static uint64_t measure_handshake(const struct identity *identity) {
    static unsigned char text[64];
    const gnutls_datum_t data = {text, sizeof text};
    int algorithm = gnutls_privkey_get_pk_algorithm(identity->key, NULL);
    gnutls_sign_algorithm_t sign = gnutls_pk_to_sign((gnutls_pk_algorithm_t)algorithm, GNUTLS_DIG_SHA256);
    uint64_t least_us = UINT64_MAX;
    for (int i = 0; i < SIGNATURES; i++) {
        gnutls_datum_t signature = {0};
        uint64_t began_us = ten_boot_us();
        int r = gnutls_privkey_sign_data2(identity->key, sign, 0, &data, &signature);
        uint64_t took_us = ten_boot_us() - began_us;
        gnutls_free(signature.data);
        least_us = r < 0 ? least_us : ten_min_u64(least_us, took_us);
    }
    return KEY_EXCHANGE_US + (least_us == UINT64_MAX ? 0 : least_us); /* keys that sign in another way are fast */
}

uint64_t ten_tls_handshake_us(void) {
    return current ? current->handshake_us : 0;
}

int ten_tls_read(const char *cert_path, const char *key_path, bool *ret_exposed, ten_error *error) {
    gnutls_datum_t cert = {0};
    gnutls_datum_t key = {0};
    mode_t mode = 0;
    struct identity *identity = ten_calloc(1, sizeof *identity);
    int r = identity ? ten_tls_read_file(cert_path, &cert, &mode, error) : ten_fail_memory(error, "the certificate");
    TEN_STEP(r, ten_tls_read_file(key_path, &key, &mode, error));
    TEN_STEP(r, parse(identity, &cert, &key, cert_path, key_path, error));
    free_text(&cert);
    free_text(&key);
    if (r < 0) {
        free_identity(identity);
        return r;
    }
    identity->handshake_us = measure_handshake(identity);
    free_identity(before);
    before = current;
    current = identity;
    *ret_exposed = (mode & (S_IROTH | S_IWOTH)) != 0;
    return TENURE_OK;
}

void ten_tls_free(void) {
    free_identity(before);
    free_identity(current);
    before = current = NULL;
}

int ten_tls_retrieve(gnutls_session_t session, const gnutls_datum_t *names, int name_count,
                     const gnutls_pk_algorithm_t *algorithms, int algorithm_count, gnutls_pcert_st **ret_certs,
                     unsigned *ret_count, gnutls_privkey_t *ret_key) {
    (void)session;
    (void)names;
    (void)name_count;
    (void)algorithms;
    (void)algorithm_count;
    *ret_certs = current->certs;
    *ret_count = current->count;
    *ret_key = current->key;
    return 0;
}
