#include "timer.h"

#include <stdlib.h>

void timers_free(timers *timers) { free(timers->heap); }

int timers_reserve(timers *timers, size_t count) {
    if (count > timers->capacity) {
        size_t capacity = timers->capacity == 0 ? 64 : timers->capacity;
        while (capacity < count) {
            capacity *= 2;
        }
        timer **heap = realloc(timers->heap, capacity * sizeof *heap);
        if (heap == NULL) {
            return 0;
        }
        timers->heap = heap;
        timers->capacity = capacity;
    }
    return 1;
}

void timer_init(timer *timer, timer_due due, void *owner) {
    timer->at = 0;
    timer->due = due;
    timer->owner = owner;
    timer->place = 0;
}

static void put(timers *timers, size_t index, timer *timer) {
    timers->heap[index] = timer;
    timer->place = index + 1;
}

static void sift_up(timers *timers, size_t index) {
    timer *moved = timers->heap[index];
    while (index > 0 && timers->heap[(index - 1) / 2]->at > moved->at) {
        put(timers, index, timers->heap[(index - 1) / 2]);
        index = (index - 1) / 2;
    }
    put(timers, index, moved);
}

static void sift_down(timers *timers, size_t index) {
    timer *moved = timers->heap[index];
    for (;;) {
        size_t child = 2 * index + 1;
        if (child >= timers->count) {
            break;
        }
        if (child + 1 < timers->count && timers->heap[child + 1]->at < timers->heap[child]->at) {
            child++;
        }
        if (timers->heap[child]->at >= moved->at) {
            break;
        }
        put(timers, index, timers->heap[child]);
        index = child;
    }
    put(timers, index, moved);
}

void timer_arm(timers *timers, timer *timer, int64_t at) {
    timer_disarm(timers, timer);
    timer->at = at;
    put(timers, timers->count, timer);
    timers->count++;
    sift_up(timers, timers->count - 1);
}

void timer_disarm(timers *timers, timer *timer) {
    if (timer->place == 0) {
        return;
    }
    size_t index = timer->place - 1;
    timer->place = 0;
    timers->count--;
    if (index < timers->count) {
        put(timers, index, timers->heap[timers->count]);
        sift_up(timers, index);
        sift_down(timers, timers->heap[index]->place - 1);
    }
}

int64_t timers_next(const timers *timers) { return timers->count == 0 ? INT64_MAX : timers->heap[0]->at; }

timer *timers_pop(timers *timers, int64_t now) {
    if (timers->count == 0 || timers->heap[0]->at > now) {
        return NULL;
    }
    timer *first = timers->heap[0];
    timer_disarm(timers, first);
    return first;
}
