/* Why something failed, in words that a caller may log. */
#ifndef TICKETING_FAILURE_H
#define TICKETING_FAILURE_H

/* What a socket's error means. Static, unlike strerror's on some systems. */
const char *failure_of_errno(int error);

#endif
