#include "failure.h"

#include <errno.h>
#include <stdio.h>

#include "broker.h"

const char *failure_of_errno(int error) {
    switch (error) {
    case ECONNREFUSED:
        return "connection refused";
    case ECONNRESET:
        return "connection reset";
    case ETIMEDOUT:
        return "connection timed out";
    case ENETUNREACH:
    case EHOSTUNREACH:
        return "the host cannot be reached";
    case EMFILE:
    case ENFILE:
        return "no file descriptor is left";
    default:
        return "the connection failed";
    }
}

/* The connection whose session ended last; NULL when none has. Under the lock. */
static const connection *last_failed(const ticketing_broker *broker) {
    const connection *last = NULL;
    for (size_t index = 0; index < broker->connection_count; index++) {
        const connection *connection = &broker->connections[index];
        if (connection->failure != NULL && (last == NULL || connection->failed_at >= last->failed_at)) {
            last = connection;
        }
    }
    return last;
}

void ticketing_broker_failure(ticketing_broker *broker, char *text, size_t size) {
    if (broker_is_parents(broker)) {
        snprintf(text, size, "the broker was made before a fork, by the parent; make one in the child");
        return;
    }
    pthread_mutex_lock(&broker->lock);
    const connection *last = last_failed(broker);
    if (last == NULL) {
        snprintf(text, size, "no answer yet; check the address, and that both sides use TLS or neither");
    } else {
        snprintf(text, size, "%s:%s: %s", last->endpoint->host, last->endpoint->port, last->failure);
    }
    pthread_mutex_unlock(&broker->lock);
}
