#include "tls.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "bounds.h"

SSL_CTX *tls_context_new(ticketing_options *options) {
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    if (context == NULL || !SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION)) {
        options_fail(options, TICKETING_ERROR_RESOURCES, "TLS is not available");
        SSL_CTX_free(context);
        return NULL;
    }
    int is_ready = 1;
    SSL_CTX_set_verify(context, options->tls == TLS_INSECURE ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    if (options->tls == TLS_SYSTEM_ROOTS) {
        is_ready = SSL_CTX_set_default_verify_paths(context);
    } else if (options->tls == TLS_CA_FILE) {
        is_ready = SSL_CTX_load_verify_locations(context, options->ca_file, NULL);
    }
    if (!is_ready) {
        options_fail(options, TICKETING_ERROR_INVALID_INPUT, "cannot read certificate authorities from \"%s\"",
                     options->ca_file == NULL ? "the system" : options->ca_file);
        SSL_CTX_free(context);
        context = NULL;
    }
    ERR_clear_error();
    return context;
}

static int set_name(SSL *ssl, const char *name, int verify) {
    uint8_t address[16];
    int is_address = inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
    if (!is_address && !SSL_set_tlsext_host_name(ssl, name)) {
        return 0;
    }
    if (!verify) {
        return 1;
    }
    /* Without these lines the authority is checked, but any host name is accepted. */
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return is_address ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) : SSL_set1_host(ssl, name);
}

int tls_start(tls *tls, SSL_CTX *context, const char *name, int verify) {
    tls->ssl = SSL_new(context);
    tls->incoming = BIO_new(BIO_s_mem());
    tls->outgoing = BIO_new(BIO_s_mem());
    if (tls->ssl == NULL || tls->incoming == NULL || tls->outgoing == NULL || !set_name(tls->ssl, name, verify)) {
        BIO_free(tls->incoming);
        BIO_free(tls->outgoing);
        SSL_free(tls->ssl);
        memset(tls, 0, sizeof *tls);
        return 0;
    }
    /* An empty block means "no bytes yet", not the end. */
    BIO_set_mem_eof_return(tls->incoming, -1);
    BIO_set_mem_eof_return(tls->outgoing, -1);
    SSL_set_bio(tls->ssl, tls->incoming, tls->outgoing);
    SSL_set_connect_state(tls->ssl);
    return 1;
}

void tls_end(tls *tls) {
    SSL_free(tls->ssl);
    memset(tls, 0, sizeof *tls);
}

int tls_handshake(tls *tls) {
    ERR_clear_error();
    int result = SSL_do_handshake(tls->ssl);
    if (result == 1) {
        return 1;
    }
    return SSL_get_error(tls->ssl, result) == SSL_ERROR_WANT_READ ? 0 : -1;
}

const char *tls_failure(const tls *tls) {
    long verdict = SSL_get_verify_result(tls->ssl);
    const char *reason =
        verdict != X509_V_OK ? X509_verify_cert_error_string(verdict) : ERR_reason_error_string(ERR_peek_last_error());
    return reason != NULL ? reason : "TLS failed";
}

int tls_feed(tls *tls, const uint8_t *bytes, size_t size) {
    return BIO_write(tls->incoming, bytes, (int)size) == (int)size;
}

int tls_read(tls *tls, buffer *into) {
    for (;;) {
        uint8_t *room = buffer_room(into, READ_SIZE);
        if (room == NULL) {
            return -1;
        }
        ERR_clear_error();
        int count = SSL_read(tls->ssl, room, READ_SIZE);
        if (count > 0) {
            buffer_grown(into, (size_t)count);
            continue;
        }
        switch (SSL_get_error(tls->ssl, count)) {
        case SSL_ERROR_WANT_READ:
        case SSL_ERROR_WANT_WRITE:
            return 1;
        case SSL_ERROR_ZERO_RETURN:
            return 0;
        default:
            return -1;
        }
    }
}

int tls_write(tls *tls, const uint8_t *bytes, size_t size) {
    ERR_clear_error();
    /* Into memory, so it takes all at once. */
    return size == 0 || SSL_write(tls->ssl, bytes, (int)size) == (int)size;
}

int tls_drain(tls *tls, buffer *into) {
    size_t size = BIO_ctrl_pending(tls->outgoing);
    if (size == 0) {
        return 1;
    }
    uint8_t *room = buffer_room(into, size);
    if (room == NULL || BIO_read(tls->outgoing, room, (int)size) != (int)size) {
        return 0;
    }
    buffer_grown(into, size);
    return 1;
}
