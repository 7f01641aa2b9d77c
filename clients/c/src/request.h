/* The life of one request on one connection: queued, sent, done. */
#ifndef TICKETING_REQUEST_H
#define TICKETING_REQUEST_H

#include "protocol.h"

typedef struct request request;
typedef struct connection connection;

typedef enum request_state {
    REQUEST_DONE,
    /* No byte of it was handed to the socket. */
    REQUEST_QUEUED,
    /* It may have been taken. Begins before its first byte is handed to the socket. */
    REQUEST_SENT
} request_state;

typedef enum request_end {
    END_ANSWERED,
    /* It may have been taken, and no answer will come. */
    END_LOST,
    /* No byte of it was handed to the socket: the server provably did not take it. */
    END_UNSENT
} request_end;

struct request {
    char kind;
    request_state state;
    connection *connection;
    uint64_t id;
    int64_t sent_at;
    void *owner;
    /* Writes the frame at the moment of sending; returns its size. */
    size_t (*frame)(request *request, uint64_t id, int64_t now, uint8_t frame[REQUEST_SIZE_MAX]);
    /* Told once; the reply is there only when it was answered. */
    void (*ended)(request *request, request_end end, const reply *reply);
    /* In the connection's queue, or in a bucket of its sent requests. */
    request *previous;
    request *next;
};

#endif
