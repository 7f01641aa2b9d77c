/* The key rule and the key-set rule: the same checks as the server's, before anything is sent. */
#ifndef TICKETING_KEYS_H
#define TICKETING_KEYS_H

#include "ticketing/ticketing.h"

/* A checked key or set: ascending bytewise, without duplicates. Shared by counting; immutable. */
typedef struct keys {
    unsigned references;
    size_t count;
    struct {
        uint8_t size;
        uint16_t offset;
    } key[16];
    /* Zero-terminated each, so that a caller may print them. */
    uint8_t bytes[];
} keys;

/* 0 when the key breaks the rule. */
int key_is_valid(const void *bytes, size_t size);
/* Which rule a key or set breaks, in words; NULL when none. Static. */
const char *keys_problem(const ticketing_key *list, size_t count);
/* INVALID_INPUT or RESOURCES when *result is not set. */
ticketing_status keys_new(const ticketing_key *list, size_t count, keys **result);
keys *keys_retain(keys *keys);
void keys_release(keys *keys);

#endif
