#include "options.h"

#include <arpa/inet.h>
#include <openssl/crypto.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORT_DIGIT_COUNT_MAX 5
#define PORT_MAX 65535

ticketing_options *ticketing_options_new(void) {
    ticketing_options *options = calloc(1, sizeof *options);
    if (options != NULL) {
        options->pending_max = PENDING_COUNT_DEFAULT;
    }
    return options;
}

void ticketing_options_free(ticketing_options *options) {
    if (options == NULL) {
        return;
    }
    for (size_t index = 0; index < options->endpoint_count; index++) {
        free(options->endpoints[index].host);
    }
    if (options->token != NULL) {
        OPENSSL_cleanse(options->token, options->token_size);
        free(options->token);
    }
    free(options->ca_file);
    free(options->server_name);
    free(options);
}

const char *ticketing_options_error(const ticketing_options *options) { return options->error; }

ticketing_status options_fail(ticketing_options *options, ticketing_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(options->error, sizeof options->error, format, arguments);
    va_end(arguments);
    return status;
}

static ticketing_status no_memory(ticketing_options *options) {
    return options_fail(options, TICKETING_ERROR_RESOURCES, "no memory is left");
}

static char *copy_text(const char *text, size_t size) {
    char *copy = malloc(size + 1);
    if (copy != NULL) {
        memcpy(copy, text, size);
        copy[size] = 0;
    }
    return copy;
}

/* Replaces an owned text; 0 when no memory is left. */
static int set_text(char **place, const char *text) {
    char *copy = copy_text(text, strlen(text));
    if (copy == NULL) {
        return 0;
    }
    free(*place);
    *place = copy;
    return 1;
}

static int port_is_valid(const char *port) {
    size_t digits = strlen(port);
    if (digits < 1 || digits > PORT_DIGIT_COUNT_MAX || strspn(port, "0123456789") != digits) {
        return 0;
    }
    long value = strtol(port, NULL, 10);
    return value >= 1 && value <= PORT_MAX;
}

/* Finds host and port; 0 when the form is wrong. */
static int split_address(const char *address, const char **host, size_t *host_size, const char **port) {
    const char *colon = strrchr(address, ':');
    if (colon == NULL || !port_is_valid(colon + 1)) {
        return 0;
    }
    *port = colon + 1;
    *host = address;
    *host_size = (size_t)(colon - address);
    if (address[0] == '[') {
        struct in6_addr six;
        char text[INET6_ADDRSTRLEN];
        if (*host_size < 3 || address[*host_size - 1] != ']' || *host_size - 2 >= sizeof text) {
            return 0;
        }
        *host += 1;
        *host_size -= 2;
        memcpy(text, *host, *host_size);
        text[*host_size] = 0;
        return inet_pton(AF_INET6, text, &six) == 1;
    }
    return *host_size > 0 && strcspn(address, ":[] \t") == *host_size;
}

ticketing_status ticketing_options_add_address(ticketing_options *options, const char *address) {
    const char *host;
    const char *port;
    size_t host_size;
    if (!split_address(address, &host, &host_size, &port)) {
        return options_fail(options, TICKETING_ERROR_INVALID_INPUT,
                            "address \"%s\": expected host:port, or [addr]:port for IPv6", address);
    }
    if (options->endpoint_count == SLOT_COUNT_MAX) {
        return options_fail(options, TICKETING_ERROR_INVALID_INPUT, "a cluster has 3 or 5 addresses, not more");
    }
    endpoint *added = &options->endpoints[options->endpoint_count];
    added->host = copy_text(host, host_size);
    if (added->host == NULL) {
        return no_memory(options);
    }
    snprintf(added->port, sizeof added->port, "%s", port);
    options->endpoint_count++;
    return TICKETING_OK;
}

static int hex_digit(char digit) {
    if (digit >= '0' && digit <= '9') {
        return digit - '0';
    }
    if (digit >= 'a' && digit <= 'f') {
        return digit - 'a' + 10;
    }
    return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

ticketing_status ticketing_options_set_fingerprint(ticketing_options *options, const char *fingerprint) {
    uint8_t bytes[FINGERPRINT_SIZE];
    int is_valid = strlen(fingerprint) == 2 * FINGERPRINT_SIZE;
    for (size_t index = 0; is_valid && index < FINGERPRINT_SIZE; index++) {
        int high = hex_digit(fingerprint[2 * index]);
        int low = hex_digit(fingerprint[2 * index + 1]);
        is_valid = high >= 0 && low >= 0;
        bytes[index] = (uint8_t)(high * 16 + low);
    }
    if (!is_valid) {
        return options_fail(options, TICKETING_ERROR_INVALID_INPUT, "a fingerprint has 64 hexadecimal digits");
    }
    memcpy(options->fingerprint, bytes, sizeof bytes);
    options->is_cluster = 1;
    return TICKETING_OK;
}

ticketing_status ticketing_options_set_token(ticketing_options *options, const void *token, size_t size) {
    if (size < TOKEN_SIZE_MIN || size > TOKEN_SIZE_MAX) {
        return options_fail(options, TICKETING_ERROR_INVALID_INPUT, "a token has %d to %d bytes, got %zu",
                            TOKEN_SIZE_MIN, TOKEN_SIZE_MAX, size);
    }
    uint8_t *copy = malloc(size);
    if (copy == NULL) {
        return no_memory(options);
    }
    memcpy(copy, token, size);
    free(options->token);
    options->token = copy;
    options->token_size = size;
    return TICKETING_OK;
}

ticketing_status ticketing_options_set_tls_system_roots(ticketing_options *options) {
    options->tls = TLS_SYSTEM_ROOTS;
    return TICKETING_OK;
}

ticketing_status ticketing_options_set_tls_ca_file(ticketing_options *options, const char *path) {
    if (!set_text(&options->ca_file, path)) {
        return no_memory(options);
    }
    options->tls = TLS_CA_FILE;
    return TICKETING_OK;
}

ticketing_status ticketing_options_set_tls_insecure(ticketing_options *options) {
    options->tls = TLS_INSECURE;
    return TICKETING_OK;
}

ticketing_status ticketing_options_set_server_name(ticketing_options *options, const char *name) {
    return set_text(&options->server_name, name) ? TICKETING_OK : no_memory(options);
}

ticketing_status ticketing_options_set_pending_max(ticketing_options *options, unsigned count) {
    if (count < 1 || count > PENDING_COUNT_MAX) {
        return options_fail(options, TICKETING_ERROR_INVALID_INPUT, "the pending limit is from 1 to %d, got %u",
                            PENDING_COUNT_MAX, count);
    }
    options->pending_max = count;
    return TICKETING_OK;
}

static int is_loopback(const char *host) {
    struct in_addr four;
    struct in6_addr six;
    if (inet_pton(AF_INET, host, &four) == 1) {
        return ntohl(four.s_addr) >> 24 == 127;
    }
    if (inet_pton(AF_INET6, host, &six) == 1) {
        return IN6_IS_ADDR_LOOPBACK(&six);
    }
    return strcmp(host, "localhost") == 0;
}

ticketing_status options_check(ticketing_options *options) {
    size_t count = options->endpoint_count;
    if (!options->is_cluster && count != 1) {
        return options_fail(options, TICKETING_ERROR_INVALID_INPUT,
                            "without a fingerprint exactly 1 address is needed, got %zu", count);
    }
    if (options->is_cluster && count != 3 && count != 5) {
        return options_fail(options, TICKETING_ERROR_INVALID_INPUT,
                            "a cluster has 3 or 5 addresses in slot order, got %zu", count);
    }
    for (size_t index = 0; options->token == NULL && index < count; index++) {
        if (!is_loopback(options->endpoints[index].host)) {
            return options_fail(options, TICKETING_ERROR_INVALID_INPUT,
                                "a token is needed: %s is not a loopback address", options->endpoints[index].host);
        }
    }
    if (options->server_name != NULL && options->tls == TLS_OFF) {
        return options_fail(
            options, TICKETING_ERROR_INVALID_INPUT,
            "server name \"%s\" without TLS: no certificate is looked at; turn TLS on too, or set no name",
            options->server_name);
    }
    return TICKETING_OK;
}

ticketing_options *options_copy(const ticketing_options *options) {
    ticketing_options *copy = ticketing_options_new();
    if (copy == NULL) {
        return NULL;
    }
    int is_whole = 1;
    for (size_t index = 0; is_whole && index < options->endpoint_count; index++) {
        const endpoint *from = &options->endpoints[index];
        copy->endpoints[index].host = copy_text(from->host, strlen(from->host));
        memcpy(copy->endpoints[index].port, from->port, sizeof from->port);
        is_whole = copy->endpoints[index].host != NULL;
        copy->endpoint_count += (size_t)is_whole;
    }
    copy->is_cluster = options->is_cluster;
    memcpy(copy->fingerprint, options->fingerprint, sizeof copy->fingerprint);
    copy->tls = options->tls;
    copy->pending_max = options->pending_max;
    if (options->token != NULL) {
        is_whole &= ticketing_options_set_token(copy, options->token, options->token_size) == TICKETING_OK;
    }
    if (options->ca_file != NULL) {
        is_whole &= set_text(&copy->ca_file, options->ca_file);
    }
    if (options->server_name != NULL) {
        is_whole &= set_text(&copy->server_name, options->server_name);
    }
    if (!is_whole) {
        ticketing_options_free(copy);
        return NULL;
    }
    return copy;
}
