/* Brokers against a server of a few lines on a thread: the blocking calls, the polled form, and what outlives what. */
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "clock.h"
#include "protocol.h"
#include "ticketing/ticketing.h"

#define CALLER_COUNT 16
#define PAIR_COUNT 200

static const ticketing_acquire_options TIMES = {5000, 30, 0};

/* Answers every acquire with a rising token and every release; accepts any proof. */
typedef struct server {
    int listener;
    uint16_t port;
    uint64_t next_token;
    int release_count;
    /* Acquires are left without an answer. */
    int is_silent;
} server;

typedef struct peer {
    server *server;
    int fd;
} peer;

static int read_all(int fd, uint8_t *bytes, size_t size) {
    for (size_t at = 0; at < size;) {
        ssize_t count = recv(fd, bytes + at, size - at, 0);
        if (count <= 0) {
            return 0;
        }
        at += (size_t)count;
    }
    return 1;
}

static void answer(server *server, int fd, const uint8_t *head, const uint8_t *body) {
    uint8_t reply[19] = {head[0], 0, 8};
    size_t size = 11;
    memcpy(reply + 3, body, 8);
    if (head[0] == 'A' || head[0] == 'S') {
        if (__atomic_load_n(&server->is_silent, __ATOMIC_RELAXED)) {
            return;
        }
        uint64_t token = __atomic_add_fetch(&server->next_token, 1, __ATOMIC_RELAXED);
        reply[2] = 16;
        for (int index = 0; index < 8; index++) {
            reply[11 + index] = (uint8_t)(token >> (56 - 8 * index));
        }
        size = 19;
    } else {
        __atomic_add_fetch(&server->release_count, 1, __ATOMIC_RELAXED);
    }
    send(fd, reply, size, MSG_NOSIGNAL);
}

static void *serve(void *context) {
    peer peer = *(struct peer *)context;
    uint8_t hello[28] = {'T', 'C', 'K', 'C', 'L', 'I', '3', 0, 0, 3, 0, 255};
    uint8_t proof[32];
    uint8_t head[3];
    uint8_t body[2100];
    free(context);
    send(peer.fd, hello, sizeof hello, MSG_NOSIGNAL);
    if (read_all(peer.fd, proof, sizeof proof)) {
        send(peer.fd, "\1", 1, MSG_NOSIGNAL);
        while (read_all(peer.fd, head, 3) && read_all(peer.fd, body, (size_t)(head[1] << 8 | head[2]))) {
            answer(peer.server, peer.fd, head, body);
        }
    }
    close(peer.fd);
    return NULL;
}

static void *accept_all(void *context) {
    server *server = context;
    for (;;) {
        int fd = accept(server->listener, NULL, NULL);
        if (fd < 0) {
            return NULL;
        }
        peer *peer = malloc(sizeof *peer);
        pthread_t thread;
        peer->server = server;
        peer->fd = fd;
        pthread_create(&thread, NULL, serve, peer);
        pthread_detach(thread);
    }
}

/* One server for all tests; it lives as long as the process. */
static server *the_server(void) {
    static server server;
    if (server.port == 0) {
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof address;
        pthread_t thread;
        server.listener = socket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(bind(server.listener, (struct sockaddr *)&address, size), 0);
        assert_int_equal(listen(server.listener, 64), 0);
        assert_int_equal(getsockname(server.listener, (struct sockaddr *)&address, &size), 0);
        server.port = ntohs(address.sin_port);
        pthread_create(&thread, NULL, accept_all, &server);
        pthread_detach(thread);
    }
    return &server;
}

static ticketing_options *options_for(const server *server) {
    char address[32];
    ticketing_options *options = ticketing_options_new();
    snprintf(address, sizeof address, "127.0.0.1:%u", server->port);
    assert_int_equal(ticketing_options_add_address(options, address), TICKETING_OK);
    return options;
}

static ticketing_broker *connect_to(const server *server) {
    ticketing_broker *broker = NULL;
    ticketing_options *options = options_for(server);
    assert_int_equal(ticketing_broker_new(options, &broker), TICKETING_OK);
    ticketing_options_free(options);
    return broker;
}

static void blocking_calls(void **state) {
    (void)state;
    ticketing_broker *broker = connect_to(the_server());
    ticketing_ticket *ticket = NULL;
    assert_int_equal(ticketing_broker_wait_ready(broker, 5000), TICKETING_OK);
    assert_int_equal(ticketing_acquire(broker, "order-1", &TIMES, &ticket), TICKETING_OK);
    assert_true(ticketing_ticket_token(ticket) > 0);
    assert_string_equal(ticketing_ticket_domain(ticket), "single");
    assert_in_range(ticketing_ticket_remaining_ms(ticket), 25000, 30000);
    assert_int_equal(ticketing_ticket_key_count(ticket), 1);
    assert_string_equal(ticketing_ticket_key(ticket, 0).bytes, "order-1");
    assert_null(ticketing_ticket_key(ticket, 1).bytes);
    assert_int_equal(ticketing_release(ticket), TICKETING_OK);
    assert_int_equal(ticketing_release(ticket), TICKETING_NOT_HELD);
    ticketing_ticket_free(ticket);
    const ticketing_key set[] = {{"b", 1}, {"a", 1}};
    assert_int_equal(ticketing_acquire_set(broker, set, 2, &TIMES, &ticket), TICKETING_OK);
    assert_string_equal(ticketing_ticket_key(ticket, 0).bytes, "a");
    ticketing_ticket_free(ticket);
    ticketing_broker_free(broker);
}

static void bad_input_is_refused(void **state) {
    (void)state;
    ticketing_broker *broker = connect_to(the_server());
    ticketing_ticket *ticket = NULL;
    const ticketing_acquire_options bad[] = {{255001, 30, 0}, {0, 0, 0}, {0, 251, 0}, {0, 30, 30000}};
    for (size_t index = 0; index < sizeof bad / sizeof *bad; index++) {
        assert_int_equal(ticketing_acquire(broker, "k", &bad[index], &ticket), TICKETING_ERROR_INVALID_INPUT);
    }
    assert_int_equal(ticketing_acquire(broker, "a b", &TIMES, &ticket), TICKETING_ERROR_INVALID_INPUT);
    assert_int_equal(ticketing_acquire(broker, NULL, &TIMES, &ticket), TICKETING_ERROR_INVALID_INPUT);
    assert_null(ticket);
    const ticketing_key good[] = {{"a", 1}, {"a", 1}};
    const ticketing_key spaced = {"a b", 3};
    assert_null(ticketing_acquire_problem(good, 2, &TIMES));
    assert_string_equal(ticketing_acquire_problem(good, 1, &bad[0]), "wait is 0 to 255 s");
    assert_string_equal(ticketing_acquire_problem(good, 1, &bad[2]), "lease is 1 to 250 s");
    assert_string_equal(ticketing_acquire_problem(good, 1, &bad[3]), "the budget is from 0 to less than the lease");
    assert_string_equal(ticketing_acquire_problem(good, 0, &TIMES), "a key set has 1 to 16 different keys");
    assert_non_null(strstr(ticketing_acquire_problem(&spaced, 1, &TIMES), "without space"));
    ticketing_broker_free(broker);
}

static void a_failure_is_named(void **state) {
    (void)state;
    ticketing_options *options = ticketing_options_new();
    ticketing_broker *broker = NULL;
    char text[200];
    /* Port 1 of loopback: nobody listens there. */
    assert_int_equal(ticketing_options_add_address(options, "127.0.0.1:1"), TICKETING_OK);
    assert_int_equal(ticketing_broker_new(options, &broker), TICKETING_OK);
    ticketing_options_free(options);
    assert_int_equal(ticketing_broker_wait_ready(broker, 500), TICKETING_ERROR_NOT_CONNECTED);
    ticketing_broker_failure(broker, text, sizeof text);
    assert_string_equal(text, "127.0.0.1:1: connection refused");
    ticketing_broker_failure(broker, text, 10);
    assert_string_equal(text, "127.0.0.1");
    ticketing_broker_free(broker);
}

static void a_freed_ticket_is_released_and_may_outlive_its_broker(void **state) {
    (void)state;
    server *server = the_server();
    ticketing_broker *broker = connect_to(server);
    ticketing_ticket *first = NULL;
    ticketing_ticket *second = NULL;
    assert_int_equal(ticketing_acquire(broker, "k", &TIMES, &first), TICKETING_OK);
    assert_int_equal(ticketing_acquire(broker, "l", &TIMES, &second), TICKETING_OK);
    int before = __atomic_load_n(&server->release_count, __ATOMIC_RELAXED);
    ticketing_ticket_free(first);
    /* Closing waits for releases under way. */
    ticketing_broker_free(broker);
    assert_int_equal(__atomic_load_n(&server->release_count, __ATOMIC_RELAXED), before + 1);
    assert_int_equal(ticketing_release(second), TICKETING_ERROR_CLOSED);
    ticketing_ticket_free(second);
}

typedef struct outcome {
    int is_told;
    ticketing_status status;
    ticketing_ticket *ticket;
} outcome;

static void note_acquire(void *context, ticketing_status status, ticketing_ticket *ticket) {
    outcome *outcome = context;
    outcome->status = status;
    outcome->ticket = ticket;
    __atomic_store_n(&outcome->is_told, 1, __ATOMIC_RELEASE);
}

static void note_release(void *context, ticketing_status status) { note_acquire(context, status, NULL); }

static void closing_ends_what_is_under_way(void **state) {
    (void)state;
    server *server = the_server();
    ticketing_broker *broker = connect_to(server);
    const ticketing_key key = {"k", 1};
    outcome cancelled = {0};
    outcome closed = {0};
    ticketing_operation *operation = NULL;
    ticketing_ticket *ticket = NULL;
    assert_int_equal(ticketing_broker_wait_ready(broker, 5000), TICKETING_OK);
    __atomic_store_n(&server->is_silent, 1, __ATOMIC_RELAXED);
    assert_int_equal(ticketing_acquire_start(broker, &key, 1, &TIMES, note_acquire, &cancelled, &operation),
                     TICKETING_OK);
    assert_int_equal(ticketing_acquire_start(broker, &key, 1, &TIMES, note_acquire, &closed, NULL), TICKETING_OK);
    ticketing_operation_cancel(operation);
    ticketing_operation_cancel(operation);
    ticketing_operation_free(operation);
    ticketing_broker_close(broker);
    ticketing_broker_close(broker);
    assert_int_equal(cancelled.is_told, 1);
    assert_int_equal(cancelled.status, TICKETING_ERROR_CANCELLED);
    assert_int_equal(closed.is_told, 1);
    assert_true(closed.status == TICKETING_ERROR_INDETERMINATE || closed.status == TICKETING_ERROR_CLOSED);
    assert_int_equal(ticketing_acquire(broker, "k", &TIMES, &ticket), TICKETING_ERROR_CLOSED);
    __atomic_store_n(&server->is_silent, 0, __ATOMIC_RELAXED);
    ticketing_broker_free(broker);
}

/* Every call of the API on what the parent made. Exits with 0 when each is right. */
static void be_the_child(ticketing_broker *broker, ticketing_broker *polled, ticketing_ticket *ticket,
                         ticketing_operation *operation) {
    ticketing_poll polls[TICKETING_POLL_COUNT_MAX];
    ticketing_ticket *other = NULL;
    outcome outcome = {0};
    const ticketing_key key = {"k", 1};
    char text[100];
    /* A call that hangs ends the child. */
    alarm(20);
    ticketing_broker_failure(broker, text, sizeof text);
    const int wrong[] = {
        ticketing_broker_wait_ready(broker, 5000) != TICKETING_ERROR_CLOSED,
        ticketing_acquire(broker, "k", &TIMES, &other) != TICKETING_ERROR_CLOSED,
        ticketing_acquire_start(broker, &key, 1, &TIMES, note_acquire, &outcome, NULL) != TICKETING_ERROR_CLOSED,
        ticketing_acquire_start(polled, &key, 1, &TIMES, note_acquire, &outcome, NULL) != TICKETING_ERROR_CLOSED,
        ticketing_release(ticket) != TICKETING_ERROR_CLOSED,
        ticketing_release_start(ticket, note_release, &outcome) != TICKETING_ERROR_CLOSED,
        ticketing_ticket_token(ticket) == 0,
        ticketing_broker_polls(polled, polls) != 0,
        ticketing_broker_timeout_ms(polled) != -1,
        ticketing_broker_process(polled) != 0,
        strstr(text, "fork") == NULL,
        outcome.is_told,
    };
    ticketing_operation_cancel(operation);
    ticketing_operation_free(operation);
    ticketing_ticket_free(ticket);
    ticketing_broker_close(broker);
    ticketing_broker_free(broker);
    ticketing_broker_free(polled);
    int wrong_count = 0;
    for (int index = 0; index < (int)(sizeof wrong / sizeof *wrong); index++) {
        if (wrong[index]) {
            fprintf(stderr, "in the child, call %d is wrong\n", index);
            wrong_count++;
        }
    }
    /* Another program, so that no leak checker counts what threads had that stayed in the parent. */
    execlp(wrong_count == 0 ? "true" : "false", "child", (char *)NULL);
    _exit(1);
}

static void a_forked_child_leaves_the_parents_broker_alone(void **state) {
    (void)state;
    server *server = the_server();
    ticketing_broker *broker = connect_to(server);
    ticketing_broker *polled = NULL;
    ticketing_options *options = options_for(server);
    ticketing_ticket *ticket = NULL;
    ticketing_operation *operation = NULL;
    const ticketing_key key = {"l", 1};
    outcome pending = {0};
    int status = -1;
    assert_int_equal(ticketing_broker_new_polled(options, &polled), TICKETING_OK);
    ticketing_options_free(options);
    assert_int_equal(ticketing_acquire(broker, "k", &TIMES, &ticket), TICKETING_OK);
    __atomic_store_n(&server->is_silent, 1, __ATOMIC_RELAXED);
    assert_int_equal(ticketing_acquire_start(broker, &key, 1, &TIMES, note_acquire, &pending, &operation),
                     TICKETING_OK);
    int before = __atomic_load_n(&server->release_count, __ATOMIC_RELAXED);
    pid_t child = fork();
    if (child == 0) {
        be_the_child(broker, polled, ticket, operation);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    /* The parent's acquire, lock and connections are as before. */
    assert_int_equal(__atomic_load_n(&pending.is_told, __ATOMIC_ACQUIRE), 0);
    assert_int_equal(__atomic_load_n(&server->release_count, __ATOMIC_RELAXED), before);
    __atomic_store_n(&server->is_silent, 0, __ATOMIC_RELAXED);
    assert_int_equal(ticketing_release(ticket), TICKETING_OK);
    ticketing_ticket_free(ticket);
    ticketing_operation_cancel(operation);
    ticketing_operation_free(operation);
    ticketing_broker_free(broker);
    ticketing_broker_free(polled);
}

/* One turn of an event loop. */
static int turn(ticketing_broker *broker) {
    ticketing_poll wanted[TICKETING_POLL_COUNT_MAX];
    struct pollfd polls[TICKETING_POLL_COUNT_MAX];
    size_t count = ticketing_broker_polls(broker, wanted);
    for (size_t index = 0; index < count; index++) {
        polls[index].fd = wanted[index].fd;
        polls[index].events =
            (short)((wanted[index].events & 1 ? POLLIN : 0) | (wanted[index].events & 2 ? POLLOUT : 0));
    }
    poll(polls, (nfds_t)count, ticketing_broker_timeout_ms(broker));
    return ticketing_broker_process(broker);
}

static void the_polled_form(void **state) {
    (void)state;
    ticketing_options *options = options_for(the_server());
    ticketing_broker *broker = NULL;
    ticketing_ticket *ticket = NULL;
    const ticketing_key key = {"k", 1};
    outcome acquire = {0};
    outcome release = {0};
    assert_int_equal(ticketing_broker_new_polled(options, &broker), TICKETING_OK);
    ticketing_options_free(options);
    assert_int_equal(ticketing_acquire(broker, "k", &TIMES, &ticket), TICKETING_ERROR_INVALID_INPUT);
    assert_int_equal(ticketing_acquire_start(broker, &key, 1, &TIMES, note_acquire, &acquire, NULL), TICKETING_OK);
    int64_t deadline = clock_now() + 10000000000;
    while (!acquire.is_told && clock_now() < deadline) {
        assert_true(turn(broker));
    }
    assert_int_equal(acquire.status, TICKETING_OK);
    assert_int_equal(ticketing_release_start(acquire.ticket, note_release, &release), TICKETING_OK);
    while (!release.is_told && clock_now() < deadline) {
        assert_true(turn(broker));
    }
    assert_int_equal(release.status, TICKETING_OK);
    ticketing_ticket_free(acquire.ticket);
    ticketing_broker_close(broker);
    while (turn(broker) && clock_now() < deadline) {
    }
    assert_false(ticketing_broker_process(broker));
    ticketing_broker_free(broker);
}

static void *run_pairs(void *context) {
    ticketing_broker *broker = context;
    intptr_t failed = 0;
    for (int pair = 0; pair < PAIR_COUNT; pair++) {
        ticketing_ticket *ticket = NULL;
        failed += ticketing_acquire(broker, "shared", &TIMES, &ticket) != TICKETING_OK;
        failed += ticketing_release(ticket) != TICKETING_OK;
        ticketing_ticket_free(ticket);
    }
    return (void *)failed;
}

static void many_threads_share_one_broker(void **state) {
    (void)state;
    ticketing_broker *broker = connect_to(the_server());
    pthread_t threads[CALLER_COUNT];
    for (size_t index = 0; index < CALLER_COUNT; index++) {
        assert_int_equal(pthread_create(&threads[index], NULL, run_pairs, broker), 0);
    }
    for (size_t index = 0; index < CALLER_COUNT; index++) {
        void *failed = NULL;
        pthread_join(threads[index], &failed);
        assert_null(failed);
    }
    ticketing_broker_free(broker);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocking_calls),
        cmocka_unit_test(bad_input_is_refused),
        cmocka_unit_test(a_failure_is_named),
        cmocka_unit_test(a_freed_ticket_is_released_and_may_outlive_its_broker),
        cmocka_unit_test(closing_ends_what_is_under_way),
        cmocka_unit_test(a_forked_child_leaves_the_parents_broker_alone),
        cmocka_unit_test(the_polled_form),
        cmocka_unit_test(many_threads_share_one_broker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
