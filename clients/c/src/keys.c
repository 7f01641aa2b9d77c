#include "keys.h"

#include <stdlib.h>
#include <string.h>

#include "bounds.h"

static int is_continuation(uint8_t byte) { return (byte & 0xc0) == 0x80; }

/* Length of the UTF-8 sequence at `at`, 0 when there is none. */
static size_t utf8_sequence(const uint8_t *at, size_t left) {
    uint8_t first = at[0];
    if (first < 0x80) {
        return 1;
    }
    if (first >= 0xc2 && first <= 0xdf) {
        return left >= 2 && is_continuation(at[1]) ? 2 : 0;
    }
    if (first >= 0xe0 && first <= 0xef) {
        if (left < 3 || !is_continuation(at[1]) || !is_continuation(at[2])) {
            return 0;
        }
        /* Overlong forms and surrogates. */
        if ((first == 0xe0 && at[1] < 0xa0) || (first == 0xed && at[1] > 0x9f)) {
            return 0;
        }
        return 3;
    }
    if (first >= 0xf0 && first <= 0xf4) {
        if (left < 4 || !is_continuation(at[1]) || !is_continuation(at[2]) || !is_continuation(at[3])) {
            return 0;
        }
        /* Overlong forms and what is above U+10FFFF. */
        if ((first == 0xf0 && at[1] < 0x90) || (first == 0xf4 && at[1] > 0x8f)) {
            return 0;
        }
        return 4;
    }
    return 0;
}

int key_is_valid(const void *bytes, size_t size) {
    const uint8_t *at = bytes;
    if (at == NULL || size < 1 || size > KEY_SIZE_MAX) {
        return 0;
    }
    for (size_t index = 0; index < size;) {
        if (at[index] == ' ' || at[index] == '\n' || at[index] == '\r') {
            return 0;
        }
        size_t length = utf8_sequence(at + index, size - index);
        if (length == 0) {
            return 0;
        }
        index += length;
    }
    return 1;
}

static int compare(const ticketing_key *left, const ticketing_key *right) {
    size_t common = left->size < right->size ? left->size : right->size;
    int order = memcmp(left->bytes, right->bytes, common);
    if (order != 0) {
        return order;
    }
    return left->size < right->size ? -1 : left->size > right->size;
}

/* Puts the key into its place among `*count` sorted ones, unless it is there already; 0 when there is no room. */
static int insert(ticketing_key *sorted, size_t *count, ticketing_key key) {
    size_t place = 0;
    while (place < *count && compare(&sorted[place], &key) < 0) {
        place++;
    }
    if (place < *count && compare(&sorted[place], &key) == 0) {
        return 1;
    }
    if (*count == SET_KEY_COUNT_MAX) {
        return 0;
    }
    memmove(&sorted[place + 1], &sorted[place], (*count - place) * sizeof *sorted);
    sorted[place] = key;
    (*count)++;
    return 1;
}

const char *keys_problem(const ticketing_key *list, size_t count) {
    ticketing_key sorted[SET_KEY_COUNT_MAX];
    size_t unique = 0;
    for (size_t index = 0; list != NULL && index < count; index++) {
        if (!key_is_valid(list[index].bytes, list[index].size)) {
            return "a key has 1 to 128 bytes of UTF-8 without space, LF and CR";
        }
        if (!insert(sorted, &unique, list[index])) {
            break;
        }
        if (index + 1 == count) {
            return NULL;
        }
    }
    return "a key set has 1 to 16 different keys";
}

ticketing_status keys_new(const ticketing_key *list, size_t count, keys **result) {
    ticketing_key sorted[SET_KEY_COUNT_MAX];
    size_t unique = 0;
    size_t size = 0;
    if (list == NULL || count < 1) {
        return TICKETING_ERROR_INVALID_INPUT;
    }
    for (size_t index = 0; index < count; index++) {
        if (!key_is_valid(list[index].bytes, list[index].size) || !insert(sorted, &unique, list[index])) {
            return TICKETING_ERROR_INVALID_INPUT;
        }
    }
    for (size_t index = 0; index < unique; index++) {
        size += sorted[index].size + 1;
    }
    keys *made = calloc(1, sizeof *made + size);
    if (made == NULL) {
        return TICKETING_ERROR_RESOURCES;
    }
    made->references = 1;
    made->count = unique;
    uint16_t offset = 0;
    for (size_t index = 0; index < unique; index++) {
        made->key[index].size = (uint8_t)sorted[index].size;
        made->key[index].offset = offset;
        memcpy(made->bytes + offset, sorted[index].bytes, sorted[index].size);
        offset = (uint16_t)(offset + sorted[index].size + 1);
    }
    *result = made;
    return TICKETING_OK;
}

keys *keys_retain(keys *keys) {
    __atomic_add_fetch(&keys->references, 1, __ATOMIC_RELAXED);
    return keys;
}

void keys_release(keys *keys) {
    if (keys != NULL && __atomic_sub_fetch(&keys->references, 1, __ATOMIC_ACQ_REL) == 0) {
        free(keys);
    }
}
