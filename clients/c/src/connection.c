#include "connection.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "failure.h"

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

static void end_session(connection *connection);
static void try_address(connection *connection);

/* ---- Lists of requests, each around a head of its own. ------------------------------------------------------ */

static void list_init(request *head) { head->previous = head->next = head; }

static void list_append(request *head, request *request) {
    request->previous = head->previous;
    request->next = head;
    head->previous->next = request;
    head->previous = request;
}

static void list_remove(request *request) {
    request->previous->next = request->next;
    request->next->previous = request->previous;
    request->previous = request->next = NULL;
}

static request *bucket(connection *connection, uint64_t id) { return &connection->sent[id % SENT_BUCKET_COUNT]; }

static void settle(request *request, request_end end, const reply *reply) {
    list_remove(request);
    request->state = REQUEST_DONE;
    request->ended(request, end, reply);
}

/* ---- Life ---------------------------------------------------------------------------------------------------- */

/* The timer: back-off over, or connecting or shaking hands took too long. */
static void timer_is_due(void *owner) {
    connection *connection = owner;
    if (connection->state == CONNECTION_DOWN) {
        connection->state = CONNECTION_LOOKUP;
    } else if (connection->state == CONNECTION_CONNECTING) {
        connection->reason = "no connection within 5 s";
        try_address(connection);
    } else {
        connection->reason = "no handshake within 10 s; check that both sides use TLS or neither";
        end_session(connection);
    }
}

void connection_init(connection *connection, const ticketing_options *options, const endpoint *endpoint,
                     unsigned voter_count, const expected *expected, SSL_CTX *tls_context, timers *timers,
                     connection_listener listener) {
    memset(connection, 0, sizeof *connection);
    connection->options = options;
    connection->endpoint = endpoint;
    connection->voter_count = voter_count;
    connection->expected = *expected;
    connection->tls_context = tls_context;
    connection->timers = timers;
    connection->listener = listener;
    connection->state = CONNECTION_LOOKUP;
    connection->fd = -1;
    connection->backoff = BACKOFF_MIN;
    timer_init(&connection->timer, timer_is_due, connection);
    list_init(&connection->queue);
    for (size_t index = 0; index < SENT_BUCKET_COUNT; index++) {
        list_init(&connection->sent[index]);
    }
}

int connection_is_usable(const connection *connection) { return connection->state == CONNECTION_UP; }

static void drop_socket(connection *connection) {
    if (connection->fd >= 0) {
        /* A process forked meanwhile may have a copy of the descriptor, and the server is to see the end all the same.
         */
        shutdown(connection->fd, SHUT_RDWR);
        close(connection->fd);
        connection->fd = -1;
    }
    tls_end(&connection->tls);
    buffer_clear(&connection->incoming);
    buffer_clear(&connection->outgoing);
}

static void drop_addresses(connection *connection) {
    if (connection->addresses != NULL) {
        freeaddrinfo(connection->addresses);
    }
    connection->addresses = connection->next_address = NULL;
}

/* Moves everybody on board to two lists, then tells them: what they do next meets a connection that has ended. */
static void tell_requests(connection *connection) {
    request lost;
    request unsent;
    list_init(&lost);
    list_init(&unsent);
    for (size_t index = 0; index < SENT_BUCKET_COUNT; index++) {
        while (connection->sent[index].next != &connection->sent[index]) {
            request *request = connection->sent[index].next;
            list_remove(request);
            list_append(&lost, request);
        }
    }
    while (connection->queue.next != &connection->queue) {
        request *request = connection->queue.next;
        list_remove(request);
        list_append(&unsent, request);
    }
    while (lost.next != &lost) {
        settle(lost.next, END_LOST, NULL);
    }
    while (unsent.next != &unsent) {
        settle(unsent.next, END_UNSENT, NULL);
    }
}

static void end_session(connection *connection) {
    int was_up = connection->state == CONNECTION_UP;
    int64_t now = clock_now();
    connection->failure = connection->reason != NULL ? connection->reason : "the connection ended";
    connection->failed_at = now;
    connection->reason = NULL;
    drop_socket(connection);
    drop_addresses(connection);
    if (was_up && now - connection->usable_since >= LONG_SESSION) {
        connection->backoff = BACKOFF_MIN;
    }
    connection->state = CONNECTION_DOWN;
    timer_arm(connection->timers, &connection->timer, now + connection->backoff);
    connection->backoff = connection->backoff * 2 < BACKOFF_MAX ? connection->backoff * 2 : BACKOFF_MAX;
    if (was_up) {
        connection->listener.changed(connection->listener.context, connection);
        tell_requests(connection);
    }
}

void connection_abort(connection *connection) {
    if (connection->state != CONNECTION_DOWN && connection->state != CONNECTION_CLOSED) {
        end_session(connection);
    }
}

void connection_close(connection *connection) {
    drop_socket(connection);
    drop_addresses(connection);
    timer_disarm(connection->timers, &connection->timer);
    connection->state = CONNECTION_CLOSED;
    tell_requests(connection);
    buffer_free(&connection->incoming);
    buffer_free(&connection->outgoing);
}

/* ---- Connecting ---------------------------------------------------------------------------------------------- */

void connection_looked_up(connection *connection, struct addrinfo *addresses) {
    if (connection->state != CONNECTION_LOOKUP) {
        if (addresses != NULL) {
            freeaddrinfo(addresses);
        }
        return;
    }
    connection->reason = addresses == NULL ? "the name of the host was not found" : NULL;
    connection->addresses = connection->next_address = addresses;
    try_address(connection);
}

static int open_socket(const struct addrinfo *address) {
    int fd = socket(address->ai_family, address->ai_socktype, address->ai_protocol);
    if (fd < 0) {
        return -1;
    }
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
#ifdef SO_NOSIGPIPE
    setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Connects to the host's next address; after the last one the session has failed. */
static void try_address(connection *connection) {
    drop_socket(connection);
    while (connection->next_address != NULL) {
        struct addrinfo *address = connection->next_address;
        connection->next_address = address->ai_next;
        connection->fd = open_socket(address);
        if (connection->fd < 0) {
            connection->reason = failure_of_errno(errno);
            continue;
        }
        if (connect(connection->fd, address->ai_addr, address->ai_addrlen) == 0 || errno == EINPROGRESS) {
            connection->state = CONNECTION_CONNECTING;
            timer_arm(connection->timers, &connection->timer, clock_now() + CONNECT_TIME);
            return;
        }
        connection->reason = failure_of_errno(errno);
        drop_socket(connection);
    }
    end_session(connection);
}

static void connected(connection *connection) {
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(connection->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 || error != 0) {
        connection->reason = failure_of_errno(error);
        try_address(connection);
        return;
    }
    connection->reason = NULL;
    drop_addresses(connection);
    timer_arm(connection->timers, &connection->timer, clock_now() + HANDSHAKE_TIME);
    if (connection->tls_context == NULL) {
        connection->state = CONNECTION_HELLO;
        return;
    }
    const char *name = connection->options->server_name;
    int verify = connection->options->tls != TLS_INSECURE;
    connection->state = CONNECTION_TLS;
    if (!tls_start(&connection->tls, connection->tls_context, name != NULL ? name : connection->endpoint->host,
                   verify)) {
        end_session(connection);
    }
}

/* ---- Bytes --------------------------------------------------------------------------------------------------- */

/* Hands plain bytes on, through TLS where there is some; 0 when the session cannot go on. */
static int put(connection *connection, const uint8_t *bytes, size_t size) {
    if (connection->tls.ssl != NULL) {
        return tls_write(&connection->tls, bytes, size) && tls_drain(&connection->tls, &connection->outgoing);
    }
    return buffer_append(&connection->outgoing, bytes, size);
}

/* Writes what has to go, as far as the socket takes it; 0 when it is broken. */
static int send_outgoing(connection *connection) {
    while (buffer_size(&connection->outgoing) > 0) {
        ssize_t count =
            send(connection->fd, buffer_bytes(&connection->outgoing), buffer_size(&connection->outgoing), MSG_NOSIGNAL);
        if (count < 0) {
            return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
        }
        buffer_taken(&connection->outgoing, (size_t)count);
    }
    return 1;
}

/* Reads what there is into `incoming`: 1 open, 0 the peer has closed, -1 broken. */
static int receive(connection *connection) {
    for (;;) {
        uint8_t *room = buffer_room(&connection->incoming, READ_SIZE);
        if (room == NULL) {
            return -1;
        }
        uint8_t encrypted[READ_SIZE];
        uint8_t *target = connection->tls.ssl != NULL ? encrypted : room;
        ssize_t count = recv(connection->fd, target, READ_SIZE, 0);
        if (count <= 0) {
            return count == 0 ? 0 : errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 1 : -1;
        }
        connection->received_at = clock_now();
        if (target == room) {
            buffer_grown(&connection->incoming, (size_t)count);
        } else if (!tls_feed(&connection->tls, encrypted, (size_t)count)) {
            return -1;
        }
        if (count < READ_SIZE) {
            return 1;
        }
    }
}

static void serve(connection *connection) {
    connection->state = CONNECTION_UP;
    connection->next_id = 1;
    connection->usable_since = connection->received_at = clock_now();
    timer_disarm(connection->timers, &connection->timer);
    connection->listener.verdict(connection->listener.context, 0);
    connection->listener.changed(connection->listener.context, connection);
}

/* Answers a whole hello; 0 when the session cannot go on. */
static int take_hello(connection *connection) {
    uint8_t proof[PROOF_SIZE];
    const ticketing_options *options = connection->options;
    if (!protocol_prove(buffer_bytes(&connection->incoming), &connection->expected, options->token, options->token_size,
                        proof)) {
        connection->reason =
            "a server of another version, mode or slot; list a cluster's addresses in slot order, with "
            "its fingerprint";
        return 0;
    }
    buffer_taken(&connection->incoming, HELLO_SIZE);
    connection->state = CONNECTION_VERDICT;
    return put(connection, proof, sizeof proof);
}

static int take_verdict(connection *connection) {
    uint8_t verdict = buffer_bytes(&connection->incoming)[0];
    if (verdict == 0) {
        connection->reason = "the server refused the token";
        connection->listener.verdict(connection->listener.context, 1);
    }
    if (verdict != 1) {
        return 0;
    }
    buffer_taken(&connection->incoming, 1);
    serve(connection);
    return 1;
}

static request *find_sent(connection *connection, uint64_t id) {
    request *head = bucket(connection, id);
    for (request *request = head->next; request != head; request = request->next) {
        if (request->id == id) {
            return request;
        }
    }
    return NULL;
}

/* Routes the whole replies; 0 when one breaks the protocol. */
static int take_replies(connection *connection) {
    while (connection->state == CONNECTION_UP) {
        reply reply;
        int size = protocol_decode(buffer_bytes(&connection->incoming), buffer_size(&connection->incoming),
                                   connection->voter_count, &reply);
        if (size <= 0) {
            return size == 0;
        }
        buffer_taken(&connection->incoming, (size_t)size);
        request *answered = NULL;
        if (reply.op != 'L') {
            answered = find_sent(connection, reply.request_id);
            if (answered == NULL || !reply_answers(&reply, answered->kind)) {
                return 0;
            }
        }
        if (reply.op == 'L' || reply.op == 'M') {
            connection->listener.leader(connection->listener.context, reply.detail);
        }
        if (answered != NULL) {
            settle(answered, END_ANSWERED, &reply);
        }
    }
    return 1;
}

/* Takes in what has been received, from whatever state it meets; 0 when the session cannot go on. */
static int advance(connection *connection) {
    int is_open = 1;
    if (connection->state == CONNECTION_TLS) {
        int result = tls_handshake(&connection->tls);
        if (result < 0) {
            connection->reason = tls_failure(&connection->tls);
        }
        if (!tls_drain(&connection->tls, &connection->outgoing) || result < 0) {
            return 0;
        }
        if (result == 0) {
            return 1;
        }
        connection->state = CONNECTION_HELLO;
    }
    if (connection->tls.ssl != NULL) {
        is_open = tls_read(&connection->tls, &connection->incoming);
        if (is_open < 0 || !tls_drain(&connection->tls, &connection->outgoing)) {
            return 0;
        }
    }
    if (connection->state == CONNECTION_HELLO && buffer_size(&connection->incoming) >= HELLO_SIZE &&
        !take_hello(connection)) {
        return 0;
    }
    if (connection->state == CONNECTION_VERDICT && buffer_size(&connection->incoming) >= 1 &&
        !take_verdict(connection)) {
        return 0;
    }
    return take_replies(connection) && is_open;
}

int connection_events(const connection *connection) {
    if (connection->fd < 0) {
        return 0;
    }
    if (connection->state == CONNECTION_CONNECTING) {
        return 2;
    }
    return buffer_size(&connection->outgoing) > 0 ? 3 : 1;
}

void connection_process(connection *connection, int is_readable, int is_writable) {
    if (connection->state == CONNECTION_CONNECTING) {
        if (!is_writable && !is_readable) {
            return;
        }
        connected(connection);
        is_readable = 1;
    }
    if (connection->fd < 0 || connection->state == CONNECTION_CONNECTING) {
        return;
    }
    int fd = connection->fd;
    int open = is_readable ? receive(connection) : 1;
    /* What came before the end still counts. */
    int goes_on = open >= 0 && advance(connection);
    if (connection->fd != fd) {
        /* Somebody who was told has ended the session. */
        return;
    }
    if (!goes_on || open == 0 || !send_outgoing(connection)) {
        end_session(connection);
        return;
    }
    connection_flush(connection);
}

/* ---- Requests ------------------------------------------------------------------------------------------------ */

void connection_submit(connection *connection, request *request) {
    request->connection = connection;
    request->state = REQUEST_QUEUED;
    list_append(&connection->queue, request);
    if (connection->state != CONNECTION_UP) {
        settle(request, END_UNSENT, NULL);
    }
}

void connection_withdraw(request *request) {
    list_remove(request);
    request->state = REQUEST_DONE;
}

void connection_flush(connection *connection) {
    if (connection->state != CONNECTION_UP) {
        return;
    }
    int64_t now = clock_now();
    int is_whole = 1;
    while (is_whole && buffer_size(&connection->outgoing) < WRITE_BUFFER_SIZE &&
           connection->queue.next != &connection->queue) {
        uint8_t frame[REQUEST_SIZE_MAX];
        request *request = connection->queue.next;
        list_remove(request);
        request->id = connection->next_id++;
        request->state = REQUEST_SENT;
        request->sent_at = now;
        list_append(bucket(connection, request->id), request);
        is_whole = put(connection, frame, request->frame(request, request->id, now, frame));
    }
    if (!is_whole || !send_outgoing(connection)) {
        end_session(connection);
    }
}
