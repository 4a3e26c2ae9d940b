/*
 * See url_files.h. Called by the settings of the stores, and by endpoint.c of the agent.
 */
#include "base/url_files.h"

#include <errno.h>
#include <unistd.h>

#include "base/alloc.h"

static int take_file(const ten_url *url, const char *option, char **ret_path, ten_error *error) {
    const char *path = option ? ten_url_option(url, option) : NULL;
    if (!path)
        return TENURE_OK;
    if (access(path, R_OK) != 0)
        return ten_fail_errno(error, TENURE_E_INVALID, errno, "%s=%s cannot be read", option, path);
    *ret_path = ten_strdup(path);
    return *ret_path ? TENURE_OK : ten_fail_memory(error, "a URL");
}

int ten_url_files_read(const ten_url *url, const char *secret_option, ten_url_files *files, ten_error *error) {
    *files = (ten_url_files){0};
    int r = take_file(url, secret_option, &files->secret_file, error);
    if (r == TENURE_OK)
        r = take_file(url, "ca_file", &files->ca_file, error);
    if (r == TENURE_OK)
        r = take_file(url, "cert_file", &files->cert_file, error);
    if (r == TENURE_OK)
        r = take_file(url, "key_file", &files->key_file, error);
    return r;
}

void ten_url_files_free(ten_url_files *files) {
    ten_free(files->ca_file);
    ten_free(files->cert_file);
    ten_free(files->key_file);
    ten_free(files->secret_file);
    *files = (ten_url_files){0};
}

int ten_url_files_check_tls(const ten_url_files *files, bool tls, const char *tls_scheme, ten_error *error) {
    if (!tls && (files->ca_file || files->cert_file || files->key_file))
        return ten_fail(error, TENURE_E_INVALID, "ca_file, cert_file and key_file are for %s://", tls_scheme);
    if ((files->cert_file == NULL) != (files->key_file == NULL))
        return ten_fail(error, TENURE_E_INVALID, "a client certificate needs both cert_file and key_file");
    return TENURE_OK;
}

int ten_url_files_check_password(const ten_url_files *files, bool in_url, ten_error *error) {
    return in_url && files->secret_file
               ? ten_fail(error, TENURE_E_INVALID,
                          "the URL names a password and a password_file: one of them is enough")
               : TENURE_OK;
}
