/* The one place that reads a clock. */
#ifndef TICKETING_CLOCK_H
#define TICKETING_CLOCK_H

#include <stdint.h>

/* Nanoseconds on the system's monotonic clock. */
int64_t clock_now(void);

#endif
