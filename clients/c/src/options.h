/* Broker options, as they are set and as a broker keeps them. */
#ifndef TICKETING_OPTIONS_H
#define TICKETING_OPTIONS_H

#include "bounds.h"
#include "protocol.h"
#include "ticketing/ticketing.h"

typedef struct endpoint {
    char *host;
    char port[6];
} endpoint;

typedef enum tls_mode { TLS_OFF, TLS_SYSTEM_ROOTS, TLS_CA_FILE, TLS_INSECURE } tls_mode;

struct ticketing_options {
    endpoint endpoints[SLOT_COUNT_MAX];
    size_t endpoint_count;
    int is_cluster;
    uint8_t fingerprint[FINGERPRINT_SIZE];
    uint8_t *token;
    size_t token_size;
    tls_mode tls;
    char *ca_file;
    char *server_name;
    unsigned pending_max;
    char error[256];
};

/* The checks that need more than one option. */
ticketing_status options_check(ticketing_options *options);
/* NULL when no memory is left. */
ticketing_options *options_copy(const ticketing_options *options);
ticketing_status options_fail(ticketing_options *options, ticketing_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
