/* Client wire protocol, version 3: requests to bytes, bytes to replies, hello to proof. No I/O. */
#ifndef TICKETING_PROTOCOL_H
#define TICKETING_PROTOCOL_H

#include <stddef.h>
#include <stdint.h>

#include "keys.h"

#define HEAD_SIZE 3
#define HELLO_SIZE 28
#define PROOF_SIZE 32
#define FINGERPRINT_SIZE 32
#define SINGLE_SLOT 255
#define NO_SLOT 255
#define CODE_NOT_ACTIVE 3
#define CODE_NO_LEADER 4
/* Largest request: G with sixteen keys of 128 bytes. */
#define REQUEST_SIZE_MAX (HEAD_SIZE + 2081)

typedef struct reply {
    char op;
    /* 0 for L, which answers none. */
    uint64_t request_id;
    /* The token of A and S, else 0. */
    uint64_t token;
    /* The slot of M and L (255: none), the code of E, else 0. */
    uint8_t detail;
} reply;

/* Whom the client expects to find: a slot of a cluster, or SINGLE_SLOT. */
typedef struct expected {
    uint8_t slot;
    uint8_t fingerprint[FINGERPRINT_SIZE];
} expected;

/* The fingerprint of single mode. */
void protocol_single_fingerprint(uint8_t fingerprint[FINGERPRINT_SIZE]);
/* Checks the hello and makes the proof; 0 when it is not the expected one. */
int protocol_prove(const uint8_t hello[HELLO_SIZE], const expected *expected, const uint8_t *token, size_t token_size,
                   uint8_t proof[PROOF_SIZE]);

char protocol_acquire_kind(const keys *keys);
char protocol_release_kind(const keys *keys);
/* A for one key, S for a set; returns the size. */
size_t protocol_acquire(uint8_t frame[REQUEST_SIZE_MAX], uint64_t request_id, uint8_t wait_seconds,
                        uint8_t lease_seconds, const keys *keys);
/* R for one key, G for a set; returns the size. */
size_t protocol_release(uint8_t frame[REQUEST_SIZE_MAX], uint64_t request_id, uint64_t token, const keys *keys);

/*
 * Decodes the reply at the start; returns its size, 0 when it is not whole yet, -1 when it breaks the protocol.
 * `voter_count` is the number of slots, 0 in single mode.
 */
int protocol_decode(const uint8_t *bytes, size_t size, unsigned voter_count, reply *reply);
/* Whether it may answer a request with that opcode. */
int reply_answers(const reply *reply, char kind);
int reply_grants(const reply *reply);
/* Whether nothing was done because this node does not lead. */
int reply_is_leaderless(const reply *reply);

#endif
