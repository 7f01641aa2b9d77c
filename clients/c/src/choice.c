/* Which connection takes a request. Under the lock. */
#include "broker.h"

static int is_among(connection *connection, struct connection *const *list, size_t count) {
    for (size_t index = 0; index < count; index++) {
        if (list[index] == connection) {
            return 1;
        }
    }
    return 0;
}

connection *broker_choose(ticketing_broker *broker, connection *const *avoided, size_t avoided_count) {
    if (broker->leader != NULL && connection_is_usable(broker->leader) &&
        !is_among(broker->leader, avoided, avoided_count)) {
        return broker->leader;
    }
    connection *fallback = NULL;
    size_t start = broker->turn++;
    for (size_t step = 0; step < broker->connection_count; step++) {
        connection *candidate = &broker->connections[(start + step) % broker->connection_count];
        if (!connection_is_usable(candidate)) {
            continue;
        }
        if (!is_among(candidate, avoided, avoided_count)) {
            return candidate;
        }
        if (fallback == NULL) {
            fallback = candidate;
        }
    }
    return fallback;
}

int broker_any_usable(const ticketing_broker *broker) {
    for (size_t index = 0; index < broker->connection_count; index++) {
        if (connection_is_usable(&broker->connections[index])) {
            return 1;
        }
    }
    return 0;
}
