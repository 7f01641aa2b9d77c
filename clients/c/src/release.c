/* One logical release: sent again for 5 s from the call, until some attempt's answer is definite. */
#include <stdlib.h>

#include "broker.h"
#include "clock.h"

typedef struct attempt {
    request request;
    int number;
} attempt;

struct release {
    completion completion;
    ticketing_broker *broker;
    keys *keys;
    uint64_t token;
    int64_t deadline;
    int64_t retry_pause;
    int is_done;
    int attempt_count;
    connection *last;
    attempt attempts[RELEASE_ATTEMPT_COUNT_MAX];
    timer timer;
    ticketing_released callback;
    void *context;
    ticketing_status status;
    /* The completion to come, and the attempts without an end. */
    unsigned references;
};

static void drop(release *release) {
    if (__atomic_sub_fetch(&release->references, 1, __ATOMIC_ACQ_REL) == 0) {
        ticketing_broker *broker = release->broker;
        keys_release(release->keys);
        free(release);
        broker_release(broker);
    }
}

/* Without the lock. */
static void tell(completion *completion) {
    release *release = (struct release *)((char *)completion - offsetof(struct release, completion));
    if (release->callback != NULL) {
        release->callback(release->context, release->status);
    }
    drop(release);
}

static void finish(release *release, ticketing_status status) {
    if (release->is_done) {
        return;
    }
    release->is_done = 1;
    release->status = status;
    release->broker->release_count--;
    timer_disarm(&release->broker->timers, &release->timer);
    broker_complete(release->broker, &release->completion);
}

static void arm(release *release, int64_t pause) {
    int64_t at = clock_now() + pause;
    timer_arm(&release->broker->timers, &release->timer, at < release->deadline ? at : release->deadline);
}

static void pause_then_go_on(release *release) {
    arm(release, release->retry_pause);
    release->retry_pause *= 2;
    if (release->retry_pause > RETRY_PAUSE_MAX) {
        release->retry_pause = RETRY_PAUSE_MAX;
    }
}

static void judge(release *release, connection *connection, const reply *reply) {
    switch (reply->op) {
    case 'R':
    case 'G':
        finish(release, TICKETING_OK);
        break;
    case 'N':
        finish(release, TICKETING_NOT_HELD);
        break;
    case 'E':
        if (reply_is_leaderless(reply)) {
            broker_leads_no_more(release->broker, connection);
        } else {
            finish(release, (ticketing_status)(TICKETING_ERROR_REJECTED + 256 * reply->detail));
        }
        break;
    default:
        break;
    }
}

static void attempt_ended(request *request, request_end end, const reply *reply) {
    release *release = request->owner;
    attempt *ended = (attempt *)request;
    if (end == END_ANSWERED) {
        judge(release, request->connection, reply);
    }
    /* A late failure of an earlier attempt changes nothing: a newer one is on its way. */
    if (!release->is_done && ended->number == release->attempt_count) {
        pause_then_go_on(release);
    }
    drop(release);
}

static size_t frame(request *request, uint64_t id, int64_t now, uint8_t bytes[REQUEST_SIZE_MAX]) {
    release *release = request->owner;
    (void)now;
    return protocol_release(bytes, id, release->token, release->keys);
}

/* An attempt that is not under way; there always is one. */
static attempt *free_attempt(release *release) {
    for (size_t index = 0; index < RELEASE_ATTEMPT_COUNT_MAX; index++) {
        if (release->attempts[index].request.state == REQUEST_DONE) {
            return &release->attempts[index];
        }
    }
    return NULL;
}

/* A connection without a silent attempt of this release; when all have one, another than the last. */
static connection *choose(release *release) {
    connection *silent[RELEASE_ATTEMPT_COUNT_MAX];
    size_t count = 0;
    int is_silent = 0;
    for (size_t index = 0; index < RELEASE_ATTEMPT_COUNT_MAX; index++) {
        if (release->attempts[index].request.state != REQUEST_DONE) {
            silent[count++] = release->attempts[index].request.connection;
        }
    }
    connection *connection = broker_choose(release->broker, silent, count);
    for (size_t index = 0; index < count; index++) {
        is_silent |= silent[index] == connection;
    }
    return is_silent ? broker_choose(release->broker, &release->last, 1) : connection;
}

/* Sends an attempt if a connection is usable, and arranges for the next. */
static void step(void *owner) {
    release *release = owner;
    if (clock_now() >= release->deadline) {
        finish(release, TICKETING_ERROR_RELEASE_UNCONFIRMED);
        return;
    }
    connection *connection = choose(release);
    attempt *next = free_attempt(release);
    if (connection == NULL || next == NULL) {
        pause_then_go_on(release);
        return;
    }
    release->last = connection;
    release->references++;
    next->number = ++release->attempt_count;
    next->request.kind = protocol_release_kind(release->keys);
    next->request.owner = release;
    next->request.frame = frame;
    next->request.ended = attempt_ended;
    arm(release, RELEASE_ATTEMPT_TIME);
    connection_submit(connection, &next->request);
}

ticketing_status release_begin(ticketing_broker *broker, keys *keys, uint64_t token, ticketing_released callback,
                               void *context) {
    if (broker->is_closed) {
        return TICKETING_ERROR_CLOSED;
    }
    if (broker->release_count >= RELEASE_COUNT_MAX) {
        return TICKETING_ERROR_CLIENT_CAPACITY;
    }
    release *release = calloc(1, sizeof *release);
    if (release == NULL) {
        return TICKETING_ERROR_RESOURCES;
    }
    broker->release_count++;
    release->broker = broker_retain(broker);
    release->keys = keys_retain(keys);
    release->token = token;
    release->deadline = clock_now() + RELEASE_WINDOW;
    release->retry_pause = RETRY_PAUSE_MIN;
    release->callback = callback;
    release->context = context;
    release->completion.tell = tell;
    release->references = 1;
    timer_init(&release->timer, step, release);
    step(release);
    broker_wake(broker);
    return TICKETING_OK;
}
