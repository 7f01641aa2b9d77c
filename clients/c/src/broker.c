#include "broker.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"

/* Timers beside those of acquires, tombstones and releases: one for each connection, and one for closing. */
#define OTHER_TIMER_COUNT (SLOT_COUNT_MAX + 1)

/* ---- References and wake-ups ---------------------------------------------------------------------------------- */

ticketing_broker *broker_retain(ticketing_broker *broker) {
    __atomic_add_fetch(&broker->references, 1, __ATOMIC_RELAXED);
    return broker;
}

void broker_release(ticketing_broker *broker) {
    if (__atomic_sub_fetch(&broker->references, 1, __ATOMIC_ACQ_REL) > 0) {
        return;
    }
    free(broker->connections);
    timers_free(&broker->timers);
    SSL_CTX_free(broker->tls_context);
    ticketing_options_free(broker->options);
    if (broker->wake_read >= 0) {
        close(broker->wake_read);
        close(broker->wake_write);
    }
    pthread_cond_destroy(&broker->change);
    pthread_mutex_destroy(&broker->lock);
    free(broker);
}

void broker_wake(ticketing_broker *broker) {
    if (!broker->is_woken) {
        broker->is_woken = 1;
        /* The pipe is empty, so one byte fits. */
        ssize_t written = write(broker->wake_write, "", 1);
        (void)written;
    }
}

void broker_complete(ticketing_broker *broker, completion *completion) {
    completion->next = NULL;
    *broker->completions_end = completion;
    broker->completions_end = &completion->next;
    broker_wake(broker);
}

static completion *take_completions(ticketing_broker *broker) {
    completion *first = broker->completions;
    broker->completions = NULL;
    broker->completions_end = &broker->completions;
    return first;
}

/* Without the lock. */
static void tell_all(completion *first) {
    while (first != NULL) {
        completion *next = first->next;
        first->tell(first);
        first = next;
    }
}

/* ---- What connections tell -------------------------------------------------------------------------------------- */

static void on_verdict(void *context, int is_refused) {
    ticketing_broker *broker = context;
    broker->is_refused = is_refused;
}

void broker_leads_no_more(ticketing_broker *broker, connection *connection) {
    if (broker->leader == connection) {
        broker->leader = NULL;
    }
}

static void on_changed(void *context, connection *connection) {
    ticketing_broker *broker = context;
    if (!connection_is_usable(connection)) {
        broker_leads_no_more(broker, connection);
    }
    pthread_cond_broadcast(&broker->change);
}

static void on_leader(void *context, uint8_t slot) {
    ticketing_broker *broker = context;
    broker->leader = slot == NO_SLOT ? NULL : &broker->connections[slot];
}

/* ---- One round of work ------------------------------------------------------------------------------------------ */

static void drain_wake_pipe(ticketing_broker *broker) {
    char bytes[64];
    while (read(broker->wake_read, bytes, sizeof bytes) > 0) {
    }
    broker->is_woken = 0;
}

/* Looks hosts up, which may block: without the lock. Only this thread changes a connection's state to or from LOOKUP.
 */
static void look_up_hosts(ticketing_broker *broker) {
    for (size_t index = 0; index < broker->connection_count; index++) {
        connection *connection = &broker->connections[index];
        if (connection->state != CONNECTION_LOOKUP) {
            continue;
        }
        struct addrinfo hints;
        struct addrinfo *found = NULL;
        memset(&hints, 0, sizeof hints);
        hints.ai_socktype = SOCK_STREAM;
        hints.ai_flags = AI_NUMERICSERV;
        pthread_mutex_unlock(&broker->lock);
        if (getaddrinfo(connection->endpoint->host, connection->endpoint->port, &hints, &found) != 0) {
            found = NULL;
        }
        pthread_mutex_lock(&broker->lock);
        connection_looked_up(connection, found);
    }
}

static size_t fill_polls(ticketing_broker *broker, struct pollfd *polls, connection **owners) {
    size_t count = 0;
    polls[count].fd = broker->wake_read;
    polls[count].events = POLLIN;
    owners[count++] = NULL;
    for (size_t index = 0; index < broker->connection_count; index++) {
        connection *connection = &broker->connections[index];
        int events = connection_events(connection);
        if (events != 0) {
            polls[count].fd = connection->fd;
            polls[count].events = (short)((events & 1 ? POLLIN : 0) | (events & 2 ? POLLOUT : 0));
            owners[count++] = connection;
        }
    }
    return count;
}

static void run_timers(ticketing_broker *broker) {
    int64_t now = clock_now();
    for (timer *due = timers_pop(&broker->timers, now); due != NULL; due = timers_pop(&broker->timers, now)) {
        due->due(due->owner);
    }
}

static void finish_closing(void *owner) {
    ticketing_broker *broker = owner;
    timer_disarm(&broker->timers, &broker->close_timer);
    for (size_t index = 0; index < broker->connection_count; index++) {
        connection_close(&broker->connections[index]);
    }
    broker->is_closed = 1;
    pthread_cond_broadcast(&broker->change);
}

/* Under the lock: waits at most `timeout_ms` for something to do, does it, and tells whom it concerns. */
static void run_once(ticketing_broker *broker, int timeout_ms) {
    struct pollfd polls[TICKETING_POLL_COUNT_MAX];
    connection *owners[TICKETING_POLL_COUNT_MAX];
    look_up_hosts(broker);
    size_t count = fill_polls(broker, polls, owners);
    pthread_mutex_unlock(&broker->lock);
    int ready = poll(polls, (nfds_t)count, timeout_ms);
    pthread_mutex_lock(&broker->lock);
    if (broker->is_woken) {
        drain_wake_pipe(broker);
    }
    for (size_t index = 1; ready > 0 && index < count; index++) {
        connection *connection = owners[index];
        int events = polls[index].revents;
        if (events != 0 && connection->fd == polls[index].fd) {
            connection_process(connection, (events & (POLLIN | POLLHUP | POLLERR)) != 0, (events & POLLOUT) != 0);
        }
    }
    run_timers(broker);
    for (size_t index = 0; index < broker->connection_count; index++) {
        connection_flush(&broker->connections[index]);
    }
    if (broker->is_closing && !broker->is_closed && broker->release_count == 0) {
        finish_closing(broker);
    }
    completion *completions = take_completions(broker);
    if (completions != NULL) {
        pthread_mutex_unlock(&broker->lock);
        tell_all(completions);
        pthread_mutex_lock(&broker->lock);
    }
}

/* Under the lock. */
static int timeout_ms(const ticketing_broker *broker) {
    if (broker->completions != NULL) {
        return 0;
    }
    for (size_t index = 0; index < broker->connection_count; index++) {
        if (broker->connections[index].state == CONNECTION_LOOKUP) {
            return 0;
        }
    }
    int64_t next = timers_next(&broker->timers);
    if (next == INT64_MAX) {
        return -1;
    }
    /* Rounded up: waking early would only lead to waiting again. */
    int64_t left = (next - clock_now() + MS(1) - 1) / MS(1);
    return left <= 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
}

static void *run(void *context) {
    ticketing_broker *broker = context;
    pthread_mutex_lock(&broker->lock);
    while (!broker->is_closed || broker->completions != NULL) {
        run_once(broker, timeout_ms(broker));
    }
    pthread_mutex_unlock(&broker->lock);
    broker_release(broker);
    return NULL;
}

/* ---- Making one ------------------------------------------------------------------------------------------------- */

static int open_wake_pipe(ticketing_broker *broker) {
    int ends[2];
    if (pipe(ends) != 0) {
        return 0;
    }
    for (int index = 0; index < 2; index++) {
        fcntl(ends[index], F_SETFL, O_NONBLOCK);
        fcntl(ends[index], F_SETFD, FD_CLOEXEC);
    }
    broker->wake_read = ends[0];
    broker->wake_write = ends[1];
    return 1;
}

static void init_lock(ticketing_broker *broker) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
#ifndef __APPLE__
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
#endif
    pthread_mutex_init(&broker->lock, NULL);
    pthread_cond_init(&broker->change, &attributes);
    pthread_condattr_destroy(&attributes);
}

static void set_domain(ticketing_broker *broker) {
    static const char DIGITS[] = "0123456789abcdef";
    if (!broker->options->is_cluster) {
        strcpy(broker->domain, "single");
        return;
    }
    for (size_t index = 0; index < FINGERPRINT_SIZE; index++) {
        broker->domain[2 * index] = DIGITS[broker->options->fingerprint[index] >> 4];
        broker->domain[2 * index + 1] = DIGITS[broker->options->fingerprint[index] & 15];
    }
}

/* 0 when no memory is left. */
static int make_connections(ticketing_broker *broker) {
    const ticketing_options *options = broker->options;
    connection_listener listener = {broker, on_verdict, on_changed, on_leader};
    expected expected = {.slot = SINGLE_SLOT};
    unsigned voter_count = options->is_cluster ? (unsigned)options->endpoint_count : 0;
    size_t count = options->is_cluster ? options->endpoint_count : SINGLE_CONNECTION_COUNT;
    broker->connections = calloc(count, sizeof *broker->connections);
    if (broker->connections == NULL) {
        return 0;
    }
    protocol_single_fingerprint(expected.fingerprint);
    for (size_t index = 0; index < count; index++) {
        const endpoint *endpoint = &options->endpoints[options->is_cluster ? index : 0];
        if (options->is_cluster) {
            expected.slot = (uint8_t)index;
            memcpy(expected.fingerprint, options->fingerprint, FINGERPRINT_SIZE);
        }
        connection_init(&broker->connections[index], options, endpoint, voter_count, &expected, broker->tls_context,
                        &broker->timers, listener);
    }
    broker->connection_count = count;
    return 1;
}

/* Signals are for the program's own threads. */
static int start_thread(ticketing_broker *broker) {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    broker_retain(broker);
    broker->has_thread = pthread_create(&broker->thread, NULL, run, broker) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!broker->has_thread) {
        broker_release(broker);
    }
    return broker->has_thread;
}

static ticketing_status new_broker(ticketing_options *options, int is_polled, ticketing_broker **result) {
    ticketing_status status = options_check(options);
    if (status != TICKETING_OK) {
        return status;
    }
    ticketing_broker *broker = calloc(1, sizeof *broker);
    if (broker == NULL) {
        return options_fail(options, TICKETING_ERROR_RESOURCES, "no memory is left");
    }
    broker->references = 1;
    broker->process = getpid();
    broker->is_polled = is_polled;
    broker->wake_read = broker->wake_write = -1;
    broker->completions_end = &broker->completions;
    broker->acquires.previous = broker->acquires.next = &broker->acquires;
    timer_init(&broker->close_timer, finish_closing, broker);
    init_lock(broker);
    options->error[0] = 0;
    broker->options = options_copy(options);
    if (options->tls != TLS_OFF) {
        broker->tls_context = tls_context_new(options);
    }
    size_t timer_count = options->pending_max + RELEASE_COUNT_MAX + OTHER_TIMER_COUNT;
    if (options->error[0] != 0) {
        status = options->tls == TLS_CA_FILE ? TICKETING_ERROR_INVALID_INPUT : TICKETING_ERROR_RESOURCES;
    } else if (broker->options == NULL || !open_wake_pipe(broker) || !timers_reserve(&broker->timers, timer_count) ||
               !make_connections(broker)) {
        status = options_fail(options, TICKETING_ERROR_RESOURCES, "no memory or descriptor is left");
    } else {
        set_domain(broker);
        if (!is_polled && !start_thread(broker)) {
            status = options_fail(options, TICKETING_ERROR_RESOURCES, "no thread is left");
        }
    }
    if (status != TICKETING_OK) {
        broker_release(broker);
        return status;
    }
    *result = broker;
    return TICKETING_OK;
}

ticketing_status ticketing_broker_new(ticketing_options *options, ticketing_broker **broker) {
    return new_broker(options, 0, broker);
}

ticketing_status ticketing_broker_new_polled(ticketing_options *options, ticketing_broker **broker) {
    return new_broker(options, 1, broker);
}

/* ---- Using and closing it -----------------------------------------------------------------------------------------
 */

ticketing_status ticketing_broker_wait_ready(ticketing_broker *broker, unsigned timeout_ms) {
    int64_t deadline = clock_now() + MS(timeout_ms);
    ticketing_status status = TICKETING_OK;
    if (broker_is_parents(broker)) {
        return TICKETING_ERROR_CLOSED;
    }
    pthread_mutex_lock(&broker->lock);
    while (!broker->is_closing && !broker_any_usable(broker) && clock_now() < deadline) {
        int64_t at = deadline;
#ifdef __APPLE__
        struct timespec left = {(time_t)((at - clock_now()) / MS(1000)), (long)((at - clock_now()) % MS(1000))};
        pthread_cond_timedwait_relative_np(&broker->change, &broker->lock, &left);
#else
        struct timespec until = {(time_t)(at / MS(1000)), (long)(at % MS(1000))};
        pthread_cond_timedwait(&broker->change, &broker->lock, &until);
#endif
    }
    if (broker->is_closing) {
        status = TICKETING_ERROR_CLOSED;
    } else if (!broker_any_usable(broker)) {
        status = broker->is_refused ? TICKETING_ERROR_UNAUTHORIZED : TICKETING_ERROR_NOT_CONNECTED;
    }
    pthread_mutex_unlock(&broker->lock);
    return status;
}

/* Under the lock. */
static void begin_closing(ticketing_broker *broker) {
    if (broker->is_closing) {
        return;
    }
    broker->is_closing = 1;
    while (broker->acquires.next != &broker->acquires) {
        acquire_close(broker->acquires.next);
    }
    timer_arm(&broker->timers, &broker->close_timer, clock_now() + RELEASE_WINDOW);
    pthread_cond_broadcast(&broker->change);
    broker_wake(broker);
}

void ticketing_broker_close(ticketing_broker *broker) {
    if (broker_is_parents(broker)) {
        return;
    }
    pthread_mutex_lock(&broker->lock);
    begin_closing(broker);
    int is_on_own_thread = broker->has_thread && pthread_equal(pthread_self(), broker->thread);
    while (!broker->is_polled && !broker->is_closed && !is_on_own_thread) {
        pthread_cond_wait(&broker->change, &broker->lock);
    }
    int must_join = broker->has_thread && !is_on_own_thread;
    broker->has_thread = broker->has_thread && is_on_own_thread;
    pthread_mutex_unlock(&broker->lock);
    if (must_join) {
        pthread_join(broker->thread, NULL);
    }
}

void ticketing_broker_free(ticketing_broker *broker) {
    if (broker == NULL) {
        return;
    }
    if (broker_is_parents(broker)) {
        broker_leave_to_parent(broker);
        return;
    }
    ticketing_broker_close(broker);
    if (broker->is_polled) {
        pthread_mutex_lock(&broker->lock);
        if (!broker->is_closed) {
            finish_closing(broker);
        }
        completion *completions = take_completions(broker);
        pthread_mutex_unlock(&broker->lock);
        tell_all(completions);
    } else if (broker->has_thread) {
        /* Freed by one of its own callbacks: the thread ends by itself. */
        pthread_detach(broker->thread);
    }
    broker_release(broker);
}

size_t ticketing_broker_polls(ticketing_broker *broker, ticketing_poll *polls) {
    struct pollfd system[TICKETING_POLL_COUNT_MAX];
    connection *owners[TICKETING_POLL_COUNT_MAX];
    if (broker_is_parents(broker)) {
        return 0;
    }
    pthread_mutex_lock(&broker->lock);
    size_t count = fill_polls(broker, system, owners);
    pthread_mutex_unlock(&broker->lock);
    for (size_t index = 0; index < count; index++) {
        polls[index].fd = system[index].fd;
        polls[index].events = (system[index].events & POLLIN ? 1 : 0) | (system[index].events & POLLOUT ? 2 : 0);
    }
    return count;
}

int ticketing_broker_timeout_ms(ticketing_broker *broker) {
    if (broker_is_parents(broker)) {
        return -1;
    }
    pthread_mutex_lock(&broker->lock);
    int result = timeout_ms(broker);
    pthread_mutex_unlock(&broker->lock);
    return result;
}

int ticketing_broker_process(ticketing_broker *broker) {
    if (broker_is_parents(broker)) {
        return 0;
    }
    pthread_mutex_lock(&broker->lock);
    if (!broker->is_closed) {
        run_once(broker, 0);
    }
    int goes_on = !broker->is_closed || broker->completions != NULL;
    pthread_mutex_unlock(&broker->lock);
    return goes_on;
}
