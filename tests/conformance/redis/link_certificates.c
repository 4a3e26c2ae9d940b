/*
 * Certificates for tests, made by OpenSSL's library, because its command cannot make one that has expired. See
 * link_place.h.
 */
#include "conformance/redis/link_place.h"

#include <ftw.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>

static EVP_PKEY *read_key(const char *path) {
    FILE *file = fopen(path, "re");
    EVP_PKEY *key = file ? PEM_read_PrivateKey(file, NULL, NULL, NULL) : NULL;
    if (file)
        fclose(file);
    return key;
}

static X509 *read_certificate(const char *path) {
    FILE *file = fopen(path, "re");
    X509 *certificate = file ? PEM_read_X509(file, NULL, NULL, NULL) : NULL;
    if (file)
        fclose(file);
    return certificate;
}

static bool add_extension(X509 *certificate, int nid, const char *value) {
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, nid, value);
    bool done = extension && X509_add_ext(certificate, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return done;
}

static bool write_both(const struct certificates *certificates, const struct certificate_wish *wish, EVP_PKEY *key,
                       X509 *certificate) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s.crt", certificates->directory, wish->name);
    FILE *file = fopen(path, "we");
    bool done = file && PEM_write_X509(file, certificate) == 1;
    if (file)
        fclose(file);
    snprintf(path, sizeof path, "%s/%s.key", certificates->directory, wish->name);
    file = fopen(path, "we");
    done = done && file &&
           PEM_write_PrivateKey(file, key, wish->pass_phrase ? EVP_aes_128_cbc() : NULL,
                                (const unsigned char *)wish->pass_phrase,
                                wish->pass_phrase ? (int)strlen(wish->pass_phrase) : 0, NULL, NULL) == 1;
    if (file)
        fclose(file);
    return done;
}

static void fill_in(X509 *certificate, const struct certificate_wish *wish, EVP_PKEY *key) {
    static long serial = 1;
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial++);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -86400);
    X509_gmtime_adj(X509_getm_notAfter(certificate), wish->ends_s);
    X509_set_pubkey(certificate, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                               (const unsigned char *)wish->name, -1, -1, 0);
}

/* Signed by the authority, or by itself. */
int certificate_make(const struct certificates *certificates, const struct certificate_wish *wish) {
    char path[200];
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();
    snprintf(path, sizeof path, "%s/%s.key", certificates->directory, wish->authority ? wish->authority : "");
    EVP_PKEY *authority_key = wish->authority ? read_key(path) : NULL;
    snprintf(path, sizeof path, "%s/%s.crt", certificates->directory, wish->authority ? wish->authority : "");
    X509 *authority = wish->authority ? read_certificate(path) : NULL;
    bool done = key && certificate && (!wish->authority || (authority && authority_key));
    if (done) {
        fill_in(certificate, wish, key);
        X509_set_issuer_name(certificate, X509_get_subject_name(authority ? authority : certificate));
        done = add_extension(certificate, NID_basic_constraints, authority ? "CA:FALSE" : "critical,CA:TRUE") &&
               (!wish->alternatives || add_extension(certificate, NID_subject_alt_name, wish->alternatives)) &&
               X509_sign(certificate, authority_key ? authority_key : key, EVP_sha256()) > 0 &&
               write_both(certificates, wish, key, certificate);
    }
    EVP_PKEY_free(key);
    EVP_PKEY_free(authority_key);
    X509_free(certificate);
    X509_free(authority);
    return done ? 0 : -1;
}

int certificates_make(struct certificates *certificates) {
    static const struct certificate_wish wishes[] = {
        {.name = "ca", .ends_s = 86400},
        {.name = "other-ca", .ends_s = 86400},
        {.name = "server", .alternatives = "DNS:redis.test,IP:127.0.0.1", .authority = "ca", .ends_s = 86400},
        {.name = "by-name", .alternatives = "DNS:redis.test", .authority = "ca", .ends_s = 86400},
        {.name = "expired", .alternatives = "DNS:redis.test,IP:127.0.0.1", .authority = "ca", .ends_s = -3600},
        {.name = "client", .authority = "ca", .ends_s = 86400},
        {.name = "stranger", .authority = "other-ca", .ends_s = 86400},
        {.name = "locked", .authority = "ca", .ends_s = 86400, .pass_phrase = "phrase"},
    };
    const char *parent = getenv("TMPDIR");
    snprintf(certificates->directory, sizeof certificates->directory, "%.90s/tenure-certificates-XXXXXX",
             parent && parent[0] == '/' ? parent : "/tmp");
    if (!mkdtemp(certificates->directory))
        return -1;
    snprintf(certificates->ca, sizeof certificates->ca, "%s/ca.crt", certificates->directory);
    for (size_t i = 0; i < TEN_COUNT(wishes); i++)
        if (certificate_make(certificates, &wishes[i]) != 0)
            return -1;
    return 0;
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *where) {
    (void)info;
    (void)type;
    (void)where;
    return remove(path);
}

void certificates_remove(struct certificates *certificates) {
    if (certificates->directory[0])
        (void)nftw(certificates->directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
