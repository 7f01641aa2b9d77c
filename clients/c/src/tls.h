/* TLS between two blocks of bytes: no socket is touched here, so no signal can be raised. */
#ifndef TICKETING_TLS_H
#define TICKETING_TLS_H

#include <openssl/ssl.h>

#include "buffer.h"
#include "options.h"

typedef struct tls {
    SSL *ssl;
    /* Owned by ssl: what comes from the socket, and what goes to it. */
    BIO *incoming;
    BIO *outgoing;
} tls;

/* The context for all connections of a broker; NULL on failure, with the reason in the options' error. */
SSL_CTX *tls_context_new(ticketing_options *options);
/* 0 on failure. `name` is what the certificate must carry. */
int tls_start(tls *tls, SSL_CTX *context, const char *name, int verify);
void tls_end(tls *tls);
/* Goes on with the handshake: 1 done, 0 more bytes are needed, -1 refused. */
int tls_handshake(tls *tls);
/* Why the handshake has just been refused. Static. */
const char *tls_failure(const tls *tls);
/* Puts what came from the socket in; 0 when no memory is left. */
int tls_feed(tls *tls, const uint8_t *bytes, size_t size);
/* Appends decrypted bytes; 1 open, 0 the peer has closed, -1 broken. */
int tls_read(tls *tls, buffer *into);
/* Encrypts; 0 when it is broken. */
int tls_write(tls *tls, const uint8_t *bytes, size_t size);
/* Moves what has to go to the socket; 0 when no memory is left. */
int tls_drain(tls *tls, buffer *into);

#endif
