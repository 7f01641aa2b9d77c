#include "buffer.h"

#include <stdlib.h>
#include <string.h>

void buffer_free(buffer *buffer) {
    free(buffer->block);
    memset(buffer, 0, sizeof *buffer);
}

void buffer_clear(buffer *buffer) { buffer->begin = buffer->end = 0; }

size_t buffer_size(const buffer *buffer) { return buffer->end - buffer->begin; }

const uint8_t *buffer_bytes(const buffer *buffer) {
    return buffer->block == NULL ? NULL : buffer->block + buffer->begin;
}

uint8_t *buffer_room(buffer *buffer, size_t size) {
    if (buffer->begin > 0 && buffer->capacity - buffer->end < size) {
        memmove(buffer->block, buffer->block + buffer->begin, buffer_size(buffer));
        buffer->end -= buffer->begin;
        buffer->begin = 0;
    }
    if (buffer->capacity - buffer->end < size) {
        size_t capacity = buffer->capacity == 0 ? 1024 : buffer->capacity;
        while (capacity - buffer->end < size) {
            capacity *= 2;
        }
        uint8_t *block = realloc(buffer->block, capacity);
        if (block == NULL) {
            return NULL;
        }
        buffer->block = block;
        buffer->capacity = capacity;
    }
    return buffer->block + buffer->end;
}

void buffer_grown(buffer *buffer, size_t size) { buffer->end += size; }

void buffer_taken(buffer *buffer, size_t size) {
    buffer->begin += size;
    if (buffer->begin == buffer->end) {
        buffer_clear(buffer);
    }
}

int buffer_append(buffer *buffer, const void *bytes, size_t size) {
    uint8_t *room = buffer_room(buffer, size);
    if (room == NULL) {
        return 0;
    }
    memcpy(room, bytes, size);
    buffer_grown(buffer, size);
    return 1;
}
