/* What a child process may do with its parent's broker: let go of it. */
#include <unistd.h>

#include "broker.h"

int broker_is_parents(const ticketing_broker *broker) { return getpid() != broker->process; }

/*
 * Closes this process's copies of the descriptors, so that the parent's connections end with the parent. The memory
 * stays: it is as the parent's thread, which is not here, left it. When that thread had the lock at the fork, not even
 * the descriptors are certain, and they stay too.
 */
void broker_leave_to_parent(ticketing_broker *broker) {
    if (pthread_mutex_trylock(&broker->lock) != 0) {
        return;
    }
    for (size_t index = 0; index < broker->connection_count; index++) {
        if (broker->connections[index].fd >= 0) {
            close(broker->connections[index].fd);
            broker->connections[index].fd = -1;
        }
    }
    close(broker->wake_read);
    close(broker->wake_write);
    broker->wake_read = broker->wake_write = -1;
    pthread_mutex_unlock(&broker->lock);
}
