/* Checks golden vectors, one a line on standard input (see vectors.py); the argument is how many there must be. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol.h"

#define LINE_SIZE_MAX 16384
#define WORD_COUNT_MAX 32
#define BYTES_SIZE_MAX 4200

static const char *words[WORD_COUNT_MAX];
static size_t word_count;

static size_t unhex(const char *hex, uint8_t *bytes) {
    size_t size = strcmp(hex, "-") == 0 ? 0 : strlen(hex) / 2;
    for (size_t index = 0; index < size; index++) {
        unsigned value;
        sscanf(hex + 2 * index, "%2x", &value);
        bytes[index] = (uint8_t)value;
    }
    return size;
}

static uint64_t number(size_t word) { return strtoull(words[word], NULL, 10); }

static int check_request(void) {
    static uint8_t blocks[16][BYTES_SIZE_MAX];
    ticketing_key list[16];
    uint8_t wanted[BYTES_SIZE_MAX];
    uint8_t frame[REQUEST_SIZE_MAX];
    keys *keys = NULL;
    size_t count = word_count - 7;
    for (size_t index = 0; index < count; index++) {
        list[index].size = unhex(words[7 + index], blocks[index]);
        list[index].bytes = blocks[index];
    }
    if (keys_new(list, count, &keys) != TICKETING_OK) {
        return 0;
    }
    char op = words[3][0];
    size_t size = op == 'A' || op == 'S'
                      ? protocol_acquire(frame, number(4), (uint8_t)number(5), (uint8_t)number(6), keys)
                      : protocol_release(frame, number(4), number(5), keys);
    keys_release(keys);
    return size == unhex(words[2], wanted) && memcmp(frame, wanted, size) == 0;
}

static int check_reply(void) {
    uint8_t bytes[BYTES_SIZE_MAX];
    reply reply;
    size_t size = unhex(words[2], bytes);
    unsigned voter_count = (unsigned)number(3);
    for (size_t cut = 0; cut < size; cut++) {
        if (protocol_decode(bytes, cut, voter_count, &reply) != 0) {
            return 0;
        }
    }
    return protocol_decode(bytes, size, voter_count, &reply) == (int)size && reply.op == words[4][0] &&
           reply.request_id == number(5) && reply.token == number(6) && reply.detail == number(7);
}

static int check_bad_reply(void) {
    uint8_t bytes[BYTES_SIZE_MAX];
    reply reply;
    return protocol_decode(bytes, unhex(words[2], bytes), (unsigned)number(3), &reply) == -1;
}

static uint64_t id_of(const uint8_t *frame) {
    uint64_t id = 0;
    for (size_t index = HEAD_SIZE; index < HEAD_SIZE + 8; index++) {
        id = id << 8 | frame[index];
    }
    return id;
}

static int check_uncorrelated(void) {
    struct {
        uint64_t id;
        char kind;
    } waiting[WORD_COUNT_MAX];
    uint8_t bytes[BYTES_SIZE_MAX];
    size_t count = 0;
    for (size_t word = 4; word < word_count; word++) {
        unhex(words[word], bytes);
        waiting[count].id = id_of(bytes);
        waiting[count++].kind = (char)bytes[0];
    }
    size_t size = unhex(words[2], bytes);
    for (size_t at = 0; at < size;) {
        reply reply;
        int taken = protocol_decode(bytes + at, size - at, (unsigned)number(3), &reply);
        if (taken <= 0) {
            return 0;
        }
        at += (size_t)taken;
        size_t place = 0;
        while (place < count && waiting[place].id != reply.request_id) {
            place++;
        }
        if (place == count || !reply_answers(&reply, waiting[place].kind)) {
            return 1;
        }
        waiting[place] = waiting[--count];
    }
    return 0;
}

static int check_hello(void) {
    uint8_t hello[BYTES_SIZE_MAX];
    uint8_t proof[PROOF_SIZE];
    expected expected = {.slot = (uint8_t)number(3)};
    unhex(words[2], hello);
    return protocol_prove(hello, &expected, NULL, 0, proof) == (int)number(4);
}

static int check_proof(void) {
    uint8_t wanted[BYTES_SIZE_MAX];
    uint8_t hello[BYTES_SIZE_MAX];
    uint8_t token[BYTES_SIZE_MAX];
    uint8_t proof[PROOF_SIZE];
    expected expected = {.slot = (uint8_t)number(4)};
    unhex(words[2], wanted);
    unhex(words[3], hello);
    unhex(words[5], expected.fingerprint);
    size_t token_size = unhex(words[6], token);
    return protocol_prove(hello, &expected, token, token_size, proof) && memcmp(proof, wanted, PROOF_SIZE) == 0;
}

static int check(void) {
    uint8_t bytes[BYTES_SIZE_MAX];
    const char *what = words[0];
    if (strcmp(what, "request") == 0) {
        return check_request();
    }
    if (strcmp(what, "bad-key") == 0) {
        return !key_is_valid(bytes, unhex(words[2], bytes));
    }
    if (strcmp(what, "reply") == 0) {
        return check_reply();
    }
    if (strcmp(what, "bad-reply") == 0) {
        return check_bad_reply();
    }
    if (strcmp(what, "uncorrelated") == 0) {
        return check_uncorrelated();
    }
    if (strcmp(what, "hello") == 0) {
        return check_hello();
    }
    return strcmp(what, "proof") == 0 && check_proof();
}

int main(int argument_count, char **arguments) {
    static char line[LINE_SIZE_MAX];
    long passed = 0;
    long failed = 0;
    while (fgets(line, sizeof line, stdin) != NULL) {
        char *rest = line;
        line[strcspn(line, "\n")] = 0;
        word_count = 0;
        for (char *word = strtok_r(line, " ", &rest); word != NULL && word_count < WORD_COUNT_MAX;
             word = strtok_r(NULL, " ", &rest)) {
            words[word_count++] = word;
        }
        if (check()) {
            passed++;
        } else {
            failed++;
            printf("FAILED %s\n", words[1]);
        }
    }
    printf("%ld passed, %ld failed\n", passed, failed);
    return failed == 0 && argument_count == 2 && passed == strtol(arguments[1], NULL, 10) ? 0 : 1;
}
