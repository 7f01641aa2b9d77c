#include "protocol.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

#define NONCE_OFFSET 12
#define NONCE_SIZE 16
#define VERSION 3
#define CODE_MAX 7
#define MESSAGE_SIZE (16 + 2 + 1 + FINGERPRINT_SIZE + 1 + NONCE_SIZE)

static const uint8_t MAGIC[8] = {'T', 'C', 'K', 'C', 'L', 'I', '3', 0};
static const char PROOF_DOMAIN[] = "TCK/CLIENT/AUTH3";

static void put_u64(uint8_t *at, uint64_t value) {
    for (int index = 7; index >= 0; index--) {
        at[index] = (uint8_t)value;
        value >>= 8;
    }
}

static uint64_t get_u64(const uint8_t *at) {
    uint64_t value = 0;
    for (int index = 0; index < 8; index++) {
        value = value << 8 | at[index];
    }
    return value;
}

void protocol_single_fingerprint(uint8_t fingerprint[FINGERPRINT_SIZE]) {
    static const char TEXT[] = "ticketing/single/v3";
    EVP_Digest(TEXT, sizeof TEXT - 1, fingerprint, NULL, EVP_sha256(), NULL);
}

int protocol_prove(const uint8_t hello[HELLO_SIZE], const expected *expected, const uint8_t *token, size_t token_size,
                   uint8_t proof[PROOF_SIZE]) {
    uint8_t mode = expected->slot == SINGLE_SLOT ? 0 : 1;
    if (memcmp(hello, MAGIC, sizeof MAGIC) != 0 || hello[8] != 0 || hello[9] != VERSION || hello[10] != mode ||
        hello[11] != expected->slot) {
        return 0;
    }
    uint8_t message[MESSAGE_SIZE];
    memcpy(message, PROOF_DOMAIN, 16);
    message[16] = 0;
    message[17] = VERSION;
    message[18] = mode;
    memcpy(message + 19, expected->fingerprint, FINGERPRINT_SIZE);
    message[51] = expected->slot;
    memcpy(message + 52, hello + NONCE_OFFSET, NONCE_SIZE);
    /* The empty key of the no-auth mode must not be NULL. */
    const void *key = token_size == 0 ? (const void *)"" : token;
    unsigned size = 0;
    return HMAC(EVP_sha256(), key, (int)token_size, message, sizeof message, proof, &size) != NULL &&
           size == PROOF_SIZE;
}

char protocol_acquire_kind(const keys *keys) { return keys->count == 1 ? 'A' : 'S'; }

char protocol_release_kind(const keys *keys) { return keys->count == 1 ? 'R' : 'G'; }

/* Puts header, request id and keys around the `fixed_size` bytes before the keys; returns the size. */
static size_t finish(uint8_t *frame, char kind, uint64_t request_id, size_t fixed_size, const keys *keys) {
    size_t size = HEAD_SIZE + fixed_size;
    int is_set = keys->count > 1;
    if (is_set) {
        frame[size++] = (uint8_t)keys->count;
    }
    for (size_t index = 0; index < keys->count; index++) {
        uint8_t key_size = keys->key[index].size;
        if (is_set) {
            frame[size++] = key_size;
        }
        memcpy(frame + size, keys->bytes + keys->key[index].offset, key_size);
        size += key_size;
    }
    size_t body_size = size - HEAD_SIZE;
    frame[0] = (uint8_t)kind;
    frame[1] = (uint8_t)(body_size >> 8);
    frame[2] = (uint8_t)body_size;
    put_u64(frame + HEAD_SIZE, request_id);
    return size;
}

size_t protocol_acquire(uint8_t frame[REQUEST_SIZE_MAX], uint64_t request_id, uint8_t wait_seconds,
                        uint8_t lease_seconds, const keys *keys) {
    frame[HEAD_SIZE + 8] = wait_seconds;
    frame[HEAD_SIZE + 9] = lease_seconds;
    return finish(frame, protocol_acquire_kind(keys), request_id, 10, keys);
}

size_t protocol_release(uint8_t frame[REQUEST_SIZE_MAX], uint64_t request_id, uint64_t token, const keys *keys) {
    put_u64(frame + HEAD_SIZE + 8, token);
    return finish(frame, protocol_release_kind(keys), request_id, 16, keys);
}

static int body_size_of(uint8_t op) {
    switch (op) {
    case 'A':
    case 'S':
        return 16;
    case 'M':
    case 'E':
        return 9;
    case 'R':
    case 'G':
    case 'N':
    case 'T':
    case 'B':
    case 'I':
        return 8;
    case 'L':
        return 1;
    default:
        return -1;
    }
}

static int slot_is_valid(uint8_t slot, unsigned voter_count) { return slot == NO_SLOT || slot < voter_count; }

static int decode_body(const uint8_t *body, unsigned voter_count, reply *reply) {
    if (reply->op == 'L') {
        reply->detail = body[0];
        return slot_is_valid(body[0], voter_count);
    }
    reply->request_id = get_u64(body);
    if (reply->request_id == 0) {
        return 0;
    }
    switch (reply->op) {
    case 'A':
    case 'S':
        reply->token = get_u64(body + 8);
        return reply->token != 0;
    case 'M':
        reply->detail = body[8];
        return slot_is_valid(body[8], voter_count);
    case 'E':
        reply->detail = body[8];
        return body[8] >= 1 && body[8] <= CODE_MAX;
    default:
        return 1;
    }
}

int protocol_decode(const uint8_t *bytes, size_t size, unsigned voter_count, reply *reply) {
    if (size == 0) {
        return 0;
    }
    int body_size = body_size_of(bytes[0]);
    if (body_size < 0 || (bytes[0] == 'L' && voter_count == 0)) {
        return -1;
    }
    if (size < HEAD_SIZE) {
        return 0;
    }
    if ((bytes[1] << 8 | bytes[2]) != body_size) {
        return -1;
    }
    if (size < HEAD_SIZE + (size_t)body_size) {
        return 0;
    }
    memset(reply, 0, sizeof *reply);
    reply->op = (char)bytes[0];
    return decode_body(bytes + HEAD_SIZE, voter_count, reply) ? HEAD_SIZE + body_size : -1;
}

int reply_answers(const reply *reply, char kind) {
    static const char *const CODE_KINDS[] = {"", "ARSG", "AS", "ARSG", "ARSG", "SG", "RG", "RG"};
    const char *kinds = "";
    switch (reply->op) {
    case 'A':
    case 'S':
    case 'R':
    case 'G':
        return reply->op == kind;
    case 'N':
        kinds = "RG";
        break;
    case 'T':
    case 'B':
        kinds = "AS";
        break;
    case 'M':
    case 'I':
        kinds = "ARSG";
        break;
    case 'E':
        kinds = CODE_KINDS[reply->detail];
        break;
    default:
        break;
    }
    return strchr(kinds, kind) != NULL;
}

int reply_grants(const reply *reply) { return reply->op == 'A' || reply->op == 'S'; }

int reply_is_leaderless(const reply *reply) {
    return reply->op == 'M' ||
           (reply->op == 'E' && (reply->detail == CODE_NOT_ACTIVE || reply->detail == CODE_NO_LEADER));
}
