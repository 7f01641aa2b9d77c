/* The conformance driver: the public API over standard input and output. Contract: conformance/DRIVER.md. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ticketing/ticketing.h"

#define LINE_SIZE_MAX 65536
#define WORD_COUNT_MAX 16
#define KEY_COUNT_MAX 64

static const char *const KNOWN[][8] = {
    {"open", "addrs", "mode", "fingerprint", "token", "tls", "server_name", "pending"},
    {"ready", "broker", "timeout_ms"},
    {"acquire", "broker", "key", "wait_ms", "lease", "budget_ms"},
    {"acquire-set", "broker", "keys", "wait_ms", "lease", "budget_ms"},
    {"cancel", "target"},
    {"release", "ticket"},
    {"drop", "ticket"},
    {"close", "broker"},
    {"pairs", "broker", "key", "callers", "count"},
};

/* Something that a tag names. */
typedef struct entry {
    char *tag;
    ticketing_broker *broker;
    ticketing_ticket *ticket;
    ticketing_operation *operation;
    struct entry *next;
} entry;

static entry *entries;
static pthread_mutex_t entries_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t output_lock = PTHREAD_MUTEX_INITIALIZER;

typedef struct command {
    char *line;
    const char *verb;
    const char *tag;
    const char *names[WORD_COUNT_MAX];
    const char *values[WORD_COUNT_MAX];
    size_t count;
} command;

static void print(const char *tag, const char *text) {
    pthread_mutex_lock(&output_lock);
    printf("%s %s\n", tag, text);
    fflush(stdout);
    pthread_mutex_unlock(&output_lock);
}

static void print_error(const char *tag, ticketing_status status) {
    char text[64];
    if (ticketing_kind(status) == TICKETING_ERROR_REJECTED) {
        snprintf(text, sizeof text, "error Rejected %d", ticketing_rejection_code(status));
    } else {
        snprintf(text, sizeof text, "error %s", ticketing_status_name(status));
    }
    print(tag, text);
}

static entry *find(const char *tag) {
    pthread_mutex_lock(&entries_lock);
    entry *found = entries;
    while (found != NULL && (tag == NULL || strcmp(found->tag, tag) != 0)) {
        found = found->next;
    }
    pthread_mutex_unlock(&entries_lock);
    return found;
}

static entry *add(const char *tag) {
    entry *added = calloc(1, sizeof *added);
    added->tag = strdup(tag);
    pthread_mutex_lock(&entries_lock);
    added->next = entries;
    entries = added;
    pthread_mutex_unlock(&entries_lock);
    return added;
}

static const char *option(const command *command, const char *name) {
    for (size_t index = 0; index < command->count; index++) {
        if (strcmp(command->names[index], name) == 0) {
            return command->values[index];
        }
    }
    return NULL;
}

static int is_known(const command *command) {
    for (size_t verb = 0; verb < sizeof KNOWN / sizeof *KNOWN; verb++) {
        if (strcmp(KNOWN[verb][0], command->verb) != 0) {
            continue;
        }
        for (size_t index = 0; index < command->count; index++) {
            int is_found = 0;
            for (size_t name = 1; name < 8 && KNOWN[verb][name] != NULL; name++) {
                is_found |= strcmp(KNOWN[verb][name], command->names[index]) == 0;
            }
            if (!is_found) {
                return 0;
            }
        }
        return 1;
    }
    return 0;
}

/* Bytes of hexadecimal digits, "-" for none; the caller frees. */
static uint8_t *unhex(const char *hex, size_t *size) {
    if (strcmp(hex, "-") == 0) {
        hex = "";
    }
    *size = strlen(hex) / 2;
    uint8_t *bytes = malloc(*size + 1);
    for (size_t index = 0; index < *size; index++) {
        unsigned value;
        sscanf(hex + 2 * index, "%2x", &value);
        bytes[index] = (uint8_t)value;
    }
    return bytes;
}

/* ---- Commands ------------------------------------------------------------------------------------------------- */

static ticketing_status set_options(ticketing_options *options, const command *command, int *is_bad) {
    char *addresses = strdup(option(command, "addrs"));
    ticketing_status status = TICKETING_OK;
    char *rest = addresses;
    for (char *address = strtok_r(rest, ",", &rest); address != NULL && status == TICKETING_OK;
         address = strtok_r(NULL, ",", &rest)) {
        status = ticketing_options_add_address(options, address);
    }
    free(addresses);
    const char *mode = option(command, "mode");
    if (strcmp(mode, "cluster") == 0 && status == TICKETING_OK) {
        const char *fingerprint = option(command, "fingerprint");
        status = ticketing_options_set_fingerprint(options, fingerprint == NULL ? "" : fingerprint);
    } else if (strcmp(mode, "cluster") != 0 && strcmp(mode, "single") != 0) {
        *is_bad = 1;
    }
    const char *token = option(command, "token");
    if (token != NULL && status == TICKETING_OK) {
        size_t size;
        uint8_t *bytes = unhex(token, &size);
        status = ticketing_options_set_token(options, bytes, size);
        free(bytes);
    }
    const char *pending = option(command, "pending");
    if (pending != NULL && status == TICKETING_OK) {
        status = ticketing_options_set_pending_max(options, (unsigned)strtoul(pending, NULL, 10));
    }
    const char *name = option(command, "server_name");
    if (name != NULL && status == TICKETING_OK) {
        status = ticketing_options_set_server_name(options, name);
    }
    const char *tls = option(command, "tls");
    if (tls == NULL || status != TICKETING_OK || strcmp(tls, "off") == 0) {
        return status;
    }
    if (strcmp(tls, "system") == 0) {
        return ticketing_options_set_tls_system_roots(options);
    }
    if (strcmp(tls, "insecure") == 0) {
        return ticketing_options_set_tls_insecure(options);
    }
    if (strncmp(tls, "ca:", 3) == 0) {
        return ticketing_options_set_tls_ca_file(options, tls + 3);
    }
    *is_bad = 1;
    return status;
}

static void do_open(const command *command) {
    ticketing_options *options = ticketing_options_new();
    ticketing_broker *broker = NULL;
    int is_bad = 0;
    ticketing_status status = set_options(options, command, &is_bad);
    if (status == TICKETING_OK && !is_bad) {
        status = ticketing_broker_new(options, &broker);
    }
    if (is_bad) {
        print(command->tag, "error BadCommand");
    } else if (status != TICKETING_OK) {
        fprintf(stderr, "%s\n", ticketing_options_error(options));
        print_error(command->tag, status);
    } else {
        add(command->tag)->broker = broker;
        print(command->tag, "ok");
    }
    ticketing_options_free(options);
}

static void acquired(void *context, ticketing_status status, ticketing_ticket *ticket) {
    entry *entry = context;
    if (status != TICKETING_OK) {
        print_error(entry->tag, status);
        return;
    }
    char text[96];
    entry->ticket = ticket;
    snprintf(text, sizeof text, "granted token=%" PRIu64 " remaining_ms=%" PRIu32, ticketing_ticket_token(ticket),
             ticketing_ticket_remaining_ms(ticket));
    print(entry->tag, text);
}

static size_t parse_keys(const command *command, ticketing_key *keys) {
    const char *one = option(command, "key");
    char *list = strdup(one != NULL ? one : option(command, "keys"));
    size_t count = 0;
    char *rest = list;
    for (char *hex = strtok_r(rest, ",", &rest); hex != NULL && count < KEY_COUNT_MAX;
         hex = strtok_r(NULL, ",", &rest)) {
        keys[count].bytes = unhex(hex, &keys[count].size);
        count++;
    }
    free(list);
    return count;
}

/* 0 when the API's type cannot even hold the number. */
static int parse_u32(const char *text, uint32_t *value) {
    char *end;
    long long parsed = strtoll(text, &end, 10);
    *value = (uint32_t)parsed;
    return *end == 0 && parsed >= 0 && parsed <= UINT32_MAX;
}

static void do_acquire(const command *command) {
    entry *broker = find(option(command, "broker"));
    const char *budget = option(command, "budget_ms");
    ticketing_acquire_options options = {0, 0, 0};
    ticketing_status status = TICKETING_ERROR_INVALID_INPUT;
    if (broker == NULL || broker->broker == NULL) {
        print(command->tag, "error BadCommand");
        return;
    }
    if (parse_u32(option(command, "wait_ms"), &options.wait_ms) &&
        parse_u32(option(command, "lease"), &options.lease_seconds) &&
        (budget == NULL || parse_u32(budget, &options.budget_ms))) {
        ticketing_key keys[KEY_COUNT_MAX];
        size_t count = parse_keys(command, keys);
        entry *entry = add(command->tag);
        status = ticketing_acquire_start(broker->broker, keys, count, &options, acquired, entry, &entry->operation);
        for (size_t index = 0; index < count; index++) {
            free((void *)(uintptr_t)keys[index].bytes);
        }
    }
    if (status != TICKETING_OK) {
        print_error(command->tag, status);
    }
}

static void released(void *context, ticketing_status status) {
    char *tag = context;
    if (status == TICKETING_OK) {
        print(tag, "released");
    } else if (status == TICKETING_NOT_HELD) {
        print(tag, "not-held");
    } else {
        print_error(tag, status);
    }
    free(tag);
}

static void do_release(const command *command) {
    entry *entry = find(option(command, "ticket"));
    if (entry == NULL || entry->ticket == NULL) {
        print(command->tag, "error BadCommand");
        return;
    }
    char *tag = strdup(command->tag);
    ticketing_status status = ticketing_release_start(entry->ticket, released, tag);
    if (status != TICKETING_OK) {
        released(tag, status);
    }
}

static void do_drop(const command *command) {
    entry *entry = find(option(command, "ticket"));
    if (entry == NULL || entry->ticket == NULL) {
        print(command->tag, "error BadCommand");
        return;
    }
    ticketing_ticket_free(entry->ticket);
    entry->ticket = NULL;
    print(command->tag, "ok");
}

static void do_cancel(const command *command) {
    entry *entry = find(option(command, "target"));
    if (entry == NULL || entry->operation == NULL) {
        print(command->tag, "error BadCommand");
        return;
    }
    ticketing_operation_cancel(entry->operation);
    print(command->tag, "ok");
}

typedef struct caller {
    pthread_t thread;
    ticketing_broker *broker;
    char key[192];
    long *left;
    long *failed;
} caller;

static void *run_pairs(void *context) {
    caller *caller = context;
    const ticketing_acquire_options options = {5000, 30, 0};
    while (__atomic_fetch_sub(caller->left, 1, __ATOMIC_RELAXED) > 0) {
        ticketing_ticket *ticket = NULL;
        if (ticketing_acquire(caller->broker, caller->key, &options, &ticket) != TICKETING_OK ||
            ticketing_release(ticket) != TICKETING_OK) {
            __atomic_fetch_add(caller->failed, 1, __ATOMIC_RELAXED);
        }
        ticketing_ticket_free(ticket);
    }
    return NULL;
}

static void do_pairs(const command *command, ticketing_broker *broker) {
    size_t count = strtoul(option(command, "callers"), NULL, 10);
    long left = strtol(option(command, "count"), NULL, 10);
    long total = left;
    long failed = 0;
    size_t size;
    uint8_t *prefix = unhex(option(command, "key"), &size);
    caller *callers = calloc(count, sizeof *callers);
    struct timespec begin;
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (size_t index = 0; index < count; index++) {
        callers[index].broker = broker;
        callers[index].left = &left;
        callers[index].failed = &failed;
        snprintf(callers[index].key, sizeof callers[index].key, "%.*s%zu", (int)size, (const char *)prefix, index);
        pthread_create(&callers[index].thread, NULL, run_pairs, &callers[index]);
    }
    for (size_t index = 0; index < count; index++) {
        pthread_join(callers[index].thread, NULL);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    long long nanoseconds = (end.tv_sec - begin.tv_sec) * 1000000000LL + end.tv_nsec - begin.tv_nsec;
    char text[128];
    snprintf(text, sizeof text, "pairs count=%ld failed=%ld nanoseconds=%lld", total, failed, nanoseconds);
    print(command->tag, text);
    free(callers);
    free(prefix);
}

/* Commands that block have a thread of their own. */
static void *run_blocking(void *context) {
    command *command = context;
    entry *entry = find(option(command, "broker"));
    if (entry == NULL || entry->broker == NULL) {
        print(command->tag, "error BadCommand");
    } else if (strcmp(command->verb, "ready") == 0) {
        unsigned timeout_ms = (unsigned)strtoul(option(command, "timeout_ms"), NULL, 10);
        ticketing_status status = ticketing_broker_wait_ready(entry->broker, timeout_ms);
        if (status == TICKETING_OK) {
            print(command->tag, "ok");
        } else {
            print_error(command->tag, status);
        }
    } else if (strcmp(command->verb, "close") == 0) {
        ticketing_broker_close(entry->broker);
        print(command->tag, "ok");
    } else {
        do_pairs(command, entry->broker);
    }
    free(command->line);
    free(command);
    return NULL;
}

/* Takes the command over. */
static void run(command *command) {
    const char *verb = command->verb;
    pthread_t thread;
    if (!is_known(command)) {
        print(command->tag, "error BadCommand");
    } else if (strcmp(verb, "open") == 0) {
        do_open(command);
    } else if (strncmp(verb, "acquire", 7) == 0) {
        do_acquire(command);
    } else if (strcmp(verb, "cancel") == 0) {
        do_cancel(command);
    } else if (strcmp(verb, "release") == 0) {
        do_release(command);
    } else if (strcmp(verb, "drop") == 0) {
        do_drop(command);
    } else if (pthread_create(&thread, NULL, run_blocking, command) == 0) {
        pthread_detach(thread);
        return;
    }
    free(command->line);
    free(command);
}

static void parse(const char *line) {
    command *parsed = calloc(1, sizeof *parsed);
    parsed->line = strdup(line);
    parsed->line[strcspn(parsed->line, "\n")] = 0;
    char *rest = parsed->line;
    parsed->verb = strtok_r(rest, " ", &rest);
    parsed->tag = strtok_r(NULL, " ", &rest);
    for (char *word = strtok_r(NULL, " ", &rest); word != NULL && parsed->count < WORD_COUNT_MAX;
         word = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(word, '=');
        *equals = 0;
        parsed->names[parsed->count] = word;
        parsed->values[parsed->count++] = equals + 1;
    }
    run(parsed);
}

int main(void) {
    static char line[LINE_SIZE_MAX];
    while (fgets(line, sizeof line, stdin) != NULL) {
        parse(line);
    }
    for (entry *entry = entries; entry != NULL; entry = entry->next) {
        ticketing_operation_free(entry->operation);
        ticketing_ticket_free(entry->ticket);
    }
    for (entry *entry = entries; entry != NULL; entry = entry->next) {
        ticketing_broker_free(entry->broker);
    }
    return 0;
}
