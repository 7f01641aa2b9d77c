/*
 * One address: connects, shakes hands, carries pipelined requests, and reconnects until closed. Everything here runs
 * under the broker's lock and never blocks.
 */
#ifndef TICKETING_CONNECTION_H
#define TICKETING_CONNECTION_H

#include <netdb.h>

#include "buffer.h"
#include "options.h"
#include "request.h"
#include "timer.h"
#include "tls.h"

#define SENT_BUCKET_COUNT 1024

typedef enum connection_state {
    /* Waits for its back-off. */
    CONNECTION_DOWN,
    /* Wants its host looked up. */
    CONNECTION_LOOKUP,
    CONNECTION_CONNECTING,
    CONNECTION_TLS,
    CONNECTION_HELLO,
    CONNECTION_VERDICT,
    CONNECTION_UP,
    CONNECTION_CLOSED
} connection_state;

typedef struct connection_listener {
    void *context;
    /* The server accepted or refused the token. */
    void (*verdict)(void *context, int is_refused);
    /* It became usable, or stopped being so. */
    void (*changed)(void *context, connection *connection);
    /* M or L named a leader; NO_SLOT for none. */
    void (*leader)(void *context, uint8_t slot);
} connection_listener;

struct connection {
    const ticketing_options *options;
    const endpoint *endpoint;
    expected expected;
    unsigned voter_count;
    SSL_CTX *tls_context;
    timers *timers;
    connection_listener listener;

    connection_state state;
    int fd;
    int64_t backoff;
    int64_t usable_since;
    int64_t received_at;
    /* Why this session is about to end, and why and when the last one did. Static texts, NULL for none. */
    const char *reason;
    const char *failure;
    int64_t failed_at;
    timer timer;
    struct addrinfo *addresses;
    struct addrinfo *next_address;
    tls tls;
    buffer incoming;
    buffer outgoing;

    uint64_t next_id;
    request queue;
    request sent[SENT_BUCKET_COUNT];
};

void connection_init(connection *connection, const ticketing_options *options, const endpoint *endpoint,
                     unsigned voter_count, const expected *expected, SSL_CTX *tls_context, timers *timers,
                     connection_listener listener);
/* Ends it for good. Its requests are told. */
void connection_close(connection *connection);
int connection_is_usable(const connection *connection);
/* Queues a request, which is told how it ends; at once as unsent when the connection is not usable. */
void connection_submit(connection *connection, request *request);
/* Takes a queued request back. Its end is then not told. */
void connection_withdraw(request *request);
/* Ends the session; the back-off leads to the next. */
void connection_abort(connection *connection);
/* Goes on with the addresses of its host; NULL when there are none. Takes them over. */
void connection_looked_up(connection *connection, struct addrinfo *addresses);
/* What to wait for: 1 readable, 2 writable; 0 when it has no socket. */
int connection_events(const connection *connection);
/* Does what the socket allows. */
void connection_process(connection *connection, int is_readable, int is_writable);
/* Sends what is queued, as far as the socket takes it. */
void connection_flush(connection *connection);

#endif
