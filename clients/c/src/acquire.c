/* One logical acquire: retried only while the server provably did not take it. */
#include <stdlib.h>
#include <string.h>

#include "broker.h"
#include "clock.h"

typedef enum phase {
    /* No attempt; the next follows after a pause. */
    PHASE_PAUSING,
    /* An attempt is on a connection. */
    PHASE_ATTEMPTING,
    /* The caller is told, or about to be. A request left behind may still release a late grant. */
    PHASE_DONE
} phase;

struct acquire {
    /* In the broker's list until it is done; first, so that a link is an acquire. */
    list_link link;
    completion completion;
    ticketing_broker *broker;
    keys *keys;
    uint8_t wait_seconds;
    uint8_t lease_seconds;
    int64_t budget;
    int64_t deadline;
    phase phase;
    int64_t retry_pause;
    int was_usable;
    int was_leaderless;
    uint8_t wait_sent;
    request request;
    timer timer;
    ticketing_acquired callback;
    void *context;
    ticketing_status status;
    uint64_t token;
    int64_t valid_before;
    /* The user's handle, the completion to come, the request on its way. */
    unsigned references;
};

/* The user's handle. */
struct ticketing_operation {
    acquire *acquire;
};

static void step(acquire *acquire);

static void drop(acquire *acquire) {
    if (__atomic_sub_fetch(&acquire->references, 1, __ATOMIC_ACQ_REL) == 0) {
        keys_release(acquire->keys);
        ticketing_broker *broker = acquire->broker;
        free(acquire);
        broker_release(broker);
    }
}

static acquire *retain(acquire *acquire) {
    __atomic_add_fetch(&acquire->references, 1, __ATOMIC_RELAXED);
    return acquire;
}

/* Without the lock. */
static void tell(completion *completion) {
    acquire *acquire = (struct acquire *)((char *)completion - offsetof(struct acquire, completion));
    ticketing_ticket *ticket = NULL;
    ticketing_status status = acquire->status;
    if (status == TICKETING_OK) {
        ticket = ticket_new(acquire->broker, acquire->keys, acquire->token, acquire->valid_before);
        if (ticket == NULL) {
            pthread_mutex_lock(&acquire->broker->lock);
            release_begin(acquire->broker, acquire->keys, acquire->token, NULL, NULL);
            pthread_mutex_unlock(&acquire->broker->lock);
            status = TICKETING_ERROR_RESOURCES;
        }
    }
    acquire->callback(acquire->context, status, ticket);
    drop(acquire);
}

/* Decides the outcome. The permit goes back unless a request is left behind. */
static void finish(acquire *acquire, ticketing_status status, int is_outstanding) {
    acquire->phase = PHASE_DONE;
    acquire->status = status;
    timer_disarm(&acquire->broker->timers, &acquire->timer);
    acquire->link.previous->next = acquire->link.next;
    acquire->link.next->previous = acquire->link.previous;
    if (!is_outstanding) {
        acquire->broker->pending_count--;
    }
    broker_complete(acquire->broker, &acquire->completion);
}

/* The status when the wait is over and nothing is outstanding. */
static ticketing_status exhausted(const acquire *acquire) {
    if (acquire->was_leaderless) {
        return TICKETING_ERROR_NO_LEADER;
    }
    if (acquire->was_usable) {
        return TICKETING_ERROR_TIMEOUT;
    }
    return acquire->broker->is_refused ? TICKETING_ERROR_UNAUTHORIZED : TICKETING_ERROR_NOT_CONNECTED;
}

static void go_on_at(acquire *acquire, int64_t at) {
    acquire->phase = PHASE_PAUSING;
    timer_arm(&acquire->broker->timers, &acquire->timer, at < acquire->deadline ? at : acquire->deadline);
}

static void pause_then_go_on(acquire *acquire) {
    go_on_at(acquire, clock_now() + acquire->retry_pause);
    acquire->retry_pause *= 2;
    if (acquire->retry_pause > RETRY_PAUSE_MAX) {
        acquire->retry_pause = RETRY_PAUSE_MAX;
    }
}

static int64_t grace_end(const acquire *acquire) {
    return acquire->request.sent_at + MS(1000) * acquire->wait_sent + ANSWER_GRACE;
}

/* The timer of an attempt: the wait or the answer's grace may be over. */
static void check_attempt(acquire *acquire) {
    int64_t now = clock_now();
    if (acquire->request.state == REQUEST_QUEUED) {
        if (now < acquire->deadline) {
            timer_arm(&acquire->broker->timers, &acquire->timer, acquire->deadline);
            return;
        }
        connection_withdraw(&acquire->request);
        drop(acquire);
        finish(acquire, exhausted(acquire), 0);
        return;
    }
    if (now < grace_end(acquire)) {
        timer_arm(&acquire->broker->timers, &acquire->timer, grace_end(acquire));
        return;
    }
    connection *connection = acquire->request.connection;
    int is_silent = connection->received_at <= acquire->request.sent_at;
    finish(acquire, TICKETING_ERROR_INDETERMINATE, 1);
    if (is_silent) {
        connection_abort(connection);
    }
}

static void timer_is_due(void *owner) {
    acquire *acquire = owner;
    if (acquire->phase == PHASE_PAUSING) {
        step(acquire);
    } else {
        check_attempt(acquire);
    }
}

static void granted(acquire *acquire, uint64_t token) {
    acquire->token = token;
    acquire->valid_before = acquire->request.sent_at + MS(1000) * acquire->lease_seconds;
    int64_t left = acquire->valid_before - clock_now();
    if (left > 0 && left >= acquire->budget) {
        finish(acquire, TICKETING_OK, 0);
        return;
    }
    release_begin(acquire->broker, acquire->keys, token, NULL, NULL);
    finish(acquire, TICKETING_ERROR_INSUFFICIENT_LEASE, 0);
}

static ticketing_status refusal(const reply *reply) {
    switch (reply->op) {
    case 'T':
        return TICKETING_ERROR_TIMEOUT;
    case 'B':
        return TICKETING_ERROR_BUSY;
    case 'I':
        return TICKETING_ERROR_INDETERMINATE;
    default:
        return (ticketing_status)(TICKETING_ERROR_REJECTED + 256 * reply->detail);
    }
}

/* The caller has gone: nobody wants the late grant. */
static void buried(acquire *acquire, request_end end, const reply *reply) {
    if (end == END_ANSWERED && reply_grants(reply)) {
        release_begin(acquire->broker, acquire->keys, reply->token, NULL, NULL);
    }
    acquire->broker->pending_count--;
}

static void attempt_ended(request *request, request_end end, const reply *reply) {
    acquire *acquire = request->owner;
    if (acquire->phase == PHASE_DONE) {
        buried(acquire, end, reply);
    } else if (end == END_UNSENT) {
        go_on_at(acquire, clock_now());
    } else if (end == END_LOST) {
        finish(acquire, TICKETING_ERROR_INDETERMINATE, 0);
    } else if (reply_is_leaderless(reply)) {
        acquire->was_leaderless = 1;
        if (reply->op == 'E') {
            broker_leads_no_more(acquire->broker, request->connection);
        }
        pause_then_go_on(acquire);
    } else if (reply_grants(reply)) {
        granted(acquire, reply->token);
    } else {
        finish(acquire, refusal(reply), 0);
    }
    drop(acquire);
}

/* The wait is rounded up, so that a wait of 1 never becomes the immediate try 0. */
static size_t frame(request *request, uint64_t id, int64_t now, uint8_t bytes[REQUEST_SIZE_MAX]) {
    acquire *acquire = request->owner;
    if (acquire->wait_seconds != 0) {
        int64_t left = (acquire->deadline - now + MS(1000) - 1) / MS(1000);
        acquire->wait_sent = (uint8_t)(left < 1 ? 1 : left);
    }
    return protocol_acquire(bytes, id, acquire->wait_sent, acquire->lease_seconds, acquire->keys);
}

/* Begins, or goes on after a pause. */
static void step(acquire *acquire) {
    connection *connection = broker_choose(acquire->broker, NULL, 0);
    if (clock_now() >= acquire->deadline) {
        finish(acquire, exhausted(acquire), 0);
    } else if (connection == NULL) {
        pause_then_go_on(acquire);
    } else {
        acquire->was_usable = 1;
        acquire->phase = PHASE_ATTEMPTING;
        timer_arm(&acquire->broker->timers, &acquire->timer, acquire->deadline);
        retain(acquire);
        connection_submit(connection, &acquire->request);
    }
}

/* The caller gives up, or the broker closes. */
static void give_up(acquire *acquire, ticketing_status unsent, ticketing_status maybe_sent) {
    int is_outstanding = 0;
    if (acquire->phase == PHASE_DONE) {
        return;
    }
    if (acquire->phase == PHASE_ATTEMPTING) {
        is_outstanding = acquire->request.state == REQUEST_SENT;
        if (!is_outstanding) {
            connection_withdraw(&acquire->request);
            drop(acquire);
        }
    }
    finish(acquire, is_outstanding ? maybe_sent : unsent, is_outstanding);
}

void acquire_close(list_link *link) { give_up((acquire *)link, TICKETING_ERROR_CLOSED, TICKETING_ERROR_INDETERMINATE); }

static const char *options_problem(const ticketing_acquire_options *options) {
    if (options == NULL) {
        return "wait and lease are needed";
    }
    if (options->wait_ms > WAIT_MS_MAX) {
        return "wait is 0 to 255 s";
    }
    if (options->lease_seconds < LEASE_SECONDS_MIN || options->lease_seconds > LEASE_SECONDS_MAX) {
        return "lease is 1 to 250 s";
    }
    return options->budget_ms < options->lease_seconds * 1000 ? NULL : "the budget is from 0 to less than the lease";
}

const char *ticketing_acquire_problem(const ticketing_key *list, size_t count,
                                      const ticketing_acquire_options *options) {
    const char *problem = keys_problem(list, count);
    return problem != NULL ? problem : options_problem(options);
}

static acquire *new_acquire(ticketing_broker *broker, keys *keys, const ticketing_acquire_options *options,
                            ticketing_acquired callback, void *context) {
    acquire *acquire = calloc(1, sizeof *acquire);
    if (acquire == NULL) {
        return NULL;
    }
    acquire->broker = broker_retain(broker);
    acquire->keys = keys;
    acquire->wait_seconds = (uint8_t)((options->wait_ms + 999) / 1000);
    acquire->lease_seconds = (uint8_t)options->lease_seconds;
    acquire->budget = MS(options->budget_ms);
    acquire->deadline = clock_now() + (acquire->wait_seconds == 0 ? IMMEDIATE_TIME : MS(1000) * acquire->wait_seconds);
    acquire->retry_pause = RETRY_PAUSE_MIN;
    acquire->callback = callback;
    acquire->context = context;
    acquire->completion.tell = tell;
    acquire->request.kind = protocol_acquire_kind(keys);
    acquire->request.owner = acquire;
    acquire->request.frame = frame;
    acquire->request.ended = attempt_ended;
    /* The completion to come. */
    acquire->references = 1;
    timer_init(&acquire->timer, timer_is_due, acquire);
    return acquire;
}

ticketing_status ticketing_acquire_start(ticketing_broker *broker, const ticketing_key *list, size_t count,
                                         const ticketing_acquire_options *options, ticketing_acquired callback,
                                         void *context, ticketing_operation **operation) {
    keys *keys = NULL;
    if (broker == NULL || callback == NULL || options_problem(options) != NULL) {
        return TICKETING_ERROR_INVALID_INPUT;
    }
    if (broker_is_parents(broker)) {
        return TICKETING_ERROR_CLOSED;
    }
    ticketing_status status = keys_new(list, count, &keys);
    if (status != TICKETING_OK) {
        return status;
    }
    acquire *acquire = new_acquire(broker, keys, options, callback, context);
    ticketing_operation *handle = operation == NULL ? NULL : malloc(sizeof *handle);
    if (acquire == NULL) {
        keys_release(keys);
        free(handle);
        return TICKETING_ERROR_RESOURCES;
    }
    pthread_mutex_lock(&broker->lock);
    if (operation != NULL && handle == NULL) {
        status = TICKETING_ERROR_RESOURCES;
    } else if (broker->is_closing) {
        status = TICKETING_ERROR_CLOSED;
    } else if (broker->pending_count >= broker->options->pending_max) {
        status = TICKETING_ERROR_CLIENT_CAPACITY;
    } else {
        broker->pending_count++;
        acquire->link.previous = broker->acquires.previous;
        acquire->link.next = &broker->acquires;
        acquire->link.previous->next = acquire->link.next->previous = &acquire->link;
        if (handle != NULL) {
            handle->acquire = retain(acquire);
            *operation = handle;
        }
        step(acquire);
        broker_wake(broker);
    }
    pthread_mutex_unlock(&broker->lock);
    if (status != TICKETING_OK) {
        drop(acquire);
        free(handle);
    }
    return status;
}

void ticketing_operation_cancel(ticketing_operation *operation) {
    acquire *acquire = operation->acquire;
    if (broker_is_parents(acquire->broker)) {
        return;
    }
    pthread_mutex_lock(&acquire->broker->lock);
    give_up(acquire, TICKETING_ERROR_CANCELLED, TICKETING_ERROR_CANCELLED);
    pthread_mutex_unlock(&acquire->broker->lock);
}

void ticketing_operation_free(ticketing_operation *operation) {
    if (operation != NULL) {
        drop(operation->acquire);
        free(operation);
    }
}
