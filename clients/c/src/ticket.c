/* A held lock, and the calls that wait. */
#include <stdlib.h>
#include <string.h>

#include "broker.h"
#include "clock.h"

struct ticketing_ticket {
    ticketing_broker *broker;
    keys *keys;
    uint64_t token;
    int64_t valid_before;
    /* Whether a release has begun; atomic. */
    int is_released;
};

/* Where a waiting thread is told. */
typedef struct waiting {
    pthread_mutex_t lock;
    pthread_cond_t told;
    int is_told;
    ticketing_status status;
    ticketing_ticket *ticket;
} waiting;

static void waiting_init(waiting *waiting) {
    memset(waiting, 0, sizeof *waiting);
    pthread_mutex_init(&waiting->lock, NULL);
    pthread_cond_init(&waiting->told, NULL);
}

static void acquire_told(void *context, ticketing_status status, ticketing_ticket *ticket) {
    waiting *waiting = context;
    pthread_mutex_lock(&waiting->lock);
    waiting->status = status;
    waiting->ticket = ticket;
    waiting->is_told = 1;
    pthread_cond_signal(&waiting->told);
    pthread_mutex_unlock(&waiting->lock);
}

static void release_told(void *context, ticketing_status status) { acquire_told(context, status, NULL); }

static void wait_until_told(waiting *waiting) {
    pthread_mutex_lock(&waiting->lock);
    while (!waiting->is_told) {
        pthread_cond_wait(&waiting->told, &waiting->lock);
    }
    pthread_mutex_unlock(&waiting->lock);
}

static void waiting_end(waiting *waiting) {
    pthread_cond_destroy(&waiting->told);
    pthread_mutex_destroy(&waiting->lock);
}

ticketing_status ticketing_acquire_set(ticketing_broker *broker, const ticketing_key *keys, size_t count,
                                       const ticketing_acquire_options *options, ticketing_ticket **ticket) {
    if (broker == NULL || broker->is_polled || ticket == NULL) {
        return TICKETING_ERROR_INVALID_INPUT;
    }
    waiting waiting;
    waiting_init(&waiting);
    ticketing_status status = ticketing_acquire_start(broker, keys, count, options, acquire_told, &waiting, NULL);
    if (status == TICKETING_OK) {
        wait_until_told(&waiting);
        status = waiting.status;
        if (status == TICKETING_OK) {
            *ticket = waiting.ticket;
        }
    }
    waiting_end(&waiting);
    return status;
}

ticketing_status ticketing_acquire(ticketing_broker *broker, const char *key, const ticketing_acquire_options *options,
                                   ticketing_ticket **ticket) {
    ticketing_key one = {key, key == NULL ? 0 : strlen(key)};
    return ticketing_acquire_set(broker, &one, 1, options, ticket);
}

ticketing_ticket *ticket_new(ticketing_broker *broker, keys *keys, uint64_t token, int64_t valid_before) {
    ticketing_ticket *ticket = calloc(1, sizeof *ticket);
    if (ticket != NULL) {
        ticket->broker = broker_retain(broker);
        ticket->keys = keys_retain(keys);
        ticket->token = token;
        ticket->valid_before = valid_before;
    }
    return ticket;
}

uint64_t ticketing_ticket_token(const ticketing_ticket *ticket) { return ticket->token; }

const char *ticketing_ticket_domain(const ticketing_ticket *ticket) { return ticket->broker->domain; }

uint32_t ticketing_ticket_remaining_ms(const ticketing_ticket *ticket) {
    int64_t left = ticket->valid_before - clock_now();
    return left <= 0 ? 0 : (uint32_t)(left / MS(1));
}

size_t ticketing_ticket_key_count(const ticketing_ticket *ticket) { return ticket->keys->count; }

ticketing_key ticketing_ticket_key(const ticketing_ticket *ticket, size_t index) {
    ticketing_key key = {NULL, 0};
    if (index < ticket->keys->count) {
        key.bytes = ticket->keys->bytes + ticket->keys->key[index].offset;
        key.size = ticket->keys->key[index].size;
    }
    return key;
}

ticketing_status ticketing_release_start(ticketing_ticket *ticket, ticketing_released callback, void *context) {
    if (broker_is_parents(ticket->broker)) {
        return TICKETING_ERROR_CLOSED;
    }
    if (__atomic_exchange_n(&ticket->is_released, 1, __ATOMIC_ACQ_REL)) {
        return TICKETING_NOT_HELD;
    }
    ticketing_broker *broker = ticket->broker;
    pthread_mutex_lock(&broker->lock);
    ticketing_status status = broker->is_closing
                                  ? TICKETING_ERROR_CLOSED
                                  : release_begin(broker, ticket->keys, ticket->token, callback, context);
    pthread_mutex_unlock(&broker->lock);
    return status;
}

ticketing_status ticketing_release(ticketing_ticket *ticket) {
    waiting waiting;
    if (ticket->broker->is_polled) {
        return TICKETING_ERROR_INVALID_INPUT;
    }
    waiting_init(&waiting);
    ticketing_status status = ticketing_release_start(ticket, release_told, &waiting);
    if (status == TICKETING_OK) {
        wait_until_told(&waiting);
        status = waiting.status;
    }
    waiting_end(&waiting);
    return status;
}

void ticketing_ticket_free(ticketing_ticket *ticket) {
    if (ticket == NULL) {
        return;
    }
    /* In the background; what fails is left to the lease. */
    ticketing_release_start(ticket, NULL, NULL);
    keys_release(ticket->keys);
    broker_release(ticket->broker);
    free(ticket);
}
