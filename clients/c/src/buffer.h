/* Bytes on their way, in a block that grows. */
#ifndef TICKETING_BUFFER_H
#define TICKETING_BUFFER_H

#include <stddef.h>
#include <stdint.h>

typedef struct buffer {
    uint8_t *block;
    size_t capacity;
    /* What is in it: block[begin..end]. */
    size_t begin;
    size_t end;
} buffer;

void buffer_free(buffer *buffer);
void buffer_clear(buffer *buffer);
size_t buffer_size(const buffer *buffer);
const uint8_t *buffer_bytes(const buffer *buffer);
/* Room for `size` more bytes at the end, to be counted by buffer_grown; NULL when no memory is left. */
uint8_t *buffer_room(buffer *buffer, size_t size);
void buffer_grown(buffer *buffer, size_t size);
/* Drops bytes from the front. */
void buffer_taken(buffer *buffer, size_t size);
/* 0 when no memory is left. */
int buffer_append(buffer *buffer, const void *bytes, size_t size);

#endif
