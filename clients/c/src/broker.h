/*
 * The broker's insides. One lock guards everything; nothing blocks under it, and no callback of the user's runs under
 * it: what they have to hear is queued as completions and told after the lock is gone.
 */
#ifndef TICKETING_BROKER_H
#define TICKETING_BROKER_H

#include <pthread.h>
#include <sys/types.h>

#include "connection.h"
#include "keys.h"
#include "bounds.h"
#include "timer.h"

typedef struct acquire acquire;
typedef struct release release;

/* Something to tell the user, without the broker's lock. */
typedef struct completion completion;
struct completion {
    completion *next;
    void (*tell)(completion *completion);
};

typedef struct list_link {
    struct list_link *previous;
    struct list_link *next;
} list_link;

struct ticketing_broker {
    pthread_mutex_t lock;
    /* Told at every change of a connection and when the thread has ended. */
    pthread_cond_t change;
    pthread_t thread;
    /* Which made it: a child after fork() has the memory, but not the thread. */
    pid_t process;
    int has_thread;
    int is_polled;
    /* The user's handle, the thread, every ticket and operation. */
    unsigned references;

    ticketing_options *options;
    SSL_CTX *tls_context;
    char domain[2 * FINGERPRINT_SIZE + 1];
    timers timers;
    timer close_timer;
    connection *connections;
    size_t connection_count;

    connection *leader;
    size_t turn;
    int is_refused;

    unsigned pending_count;
    unsigned release_count;
    list_link acquires;

    int wake_read;
    int wake_write;
    int is_woken;
    int is_closing;
    int is_closed;
    completion *completions;
    completion **completions_end;
};

/* All of these under the lock. */
void broker_wake(ticketing_broker *broker);
void broker_complete(ticketing_broker *broker, completion *completion);
/* A usable connection, another than those avoided if there is one. */
connection *broker_choose(ticketing_broker *broker, connection *const *avoided, size_t avoided_count);
/* The connection's server has said that it does not lead. */
void broker_leads_no_more(ticketing_broker *broker, connection *connection);
int broker_any_usable(const ticketing_broker *broker);

/* Without the lock, which a thread of the parent may have had when the process was forked. */
int broker_is_parents(const ticketing_broker *broker);
/* Frees it in the child, as far as that can be. */
void broker_leave_to_parent(ticketing_broker *broker);
/* Without the lock. */
ticketing_broker *broker_retain(ticketing_broker *broker);
void broker_release(ticketing_broker *broker);

/* Ends an acquire that is under way, because the broker closes. */
void acquire_close(list_link *link);
/* Begins to release a grant; `told` may be NULL. CLIENT_CAPACITY or RESOURCES when it cannot. */
ticketing_status release_begin(ticketing_broker *broker, keys *keys, uint64_t token, ticketing_released callback,
                               void *context);
/* Makes a ticket of a grant; NULL when no memory is left. */
ticketing_ticket *ticket_new(ticketing_broker *broker, keys *keys, uint64_t token, int64_t valid_before);

#endif
