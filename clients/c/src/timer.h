/* What is due when: a heap of entries that live inside their owners. */
#ifndef TICKETING_TIMER_H
#define TICKETING_TIMER_H

#include <stddef.h>
#include <stdint.h>

typedef struct timer timer;
typedef void (*timer_due)(void *owner);

struct timer {
    int64_t at;
    timer_due due;
    void *owner;
    /* Place in the heap + 1; 0 when it is not armed. */
    size_t place;
};

typedef struct timers {
    timer **heap;
    size_t count;
    size_t capacity;
} timers;

void timers_free(timers *timers);
/* Makes sure that one more timer can be armed; 0 when no memory is left. Each owner reserves once. */
int timers_reserve(timers *timers, size_t count);
void timer_init(timer *timer, timer_due due, void *owner);
/* Arms it, or moves it when it is armed. */
void timer_arm(timers *timers, timer *timer, int64_t at);
void timer_disarm(timers *timers, timer *timer);
/* When the first is due; INT64_MAX for never. */
int64_t timers_next(const timers *timers);
/* Takes the first that is due; NULL when none is. */
timer *timers_pop(timers *timers, int64_t now);

#endif
