package ticketing;

import java.time.Duration;

/** Every bound of the client, with its unit. The protocol's own are in the handbook's "Client protocol". */
final class Limits {
    static final int KEY_SIZE_BYTES_MAX = 128;
    static final int SET_KEY_COUNT_MAX = 16;
    static final int WAIT_SECONDS_MAX = 255;
    static final int LEASE_SECONDS_MIN = 1;
    static final int LEASE_SECONDS_MAX = 250;
    static final int TOKEN_SIZE_BYTES_MIN = 16;
    static final int TOKEN_SIZE_BYTES_MAX = 4096;

    /** Acquires between call and answer, over the whole broker. */
    static final int PENDING_COUNT_DEFAULT = 1024;

    static final int PENDING_COUNT_MAX = 16_384;

    /** Releases between call and answer. */
    static final int RELEASE_COUNT_MAX = 1024;

    static final int CONNECT_MILLIS = 5_000;

    /** TLS and challenge-response together. */
    static final int HANDSHAKE_MILLIS = 10_000;

    static final long BACKOFF_MILLIS_MIN = 100;
    static final long BACKOFF_MILLIS_MAX = 3_200;

    /** A session at least this long lets the back-off begin anew. */
    static final Duration LONG_SESSION = Duration.ofSeconds(1);

    /** How long a sent acquire may stay unanswered beyond its wait. */
    static final Duration ANSWER_GRACE = Duration.ofSeconds(5);

    /** How long an immediate try may look for a server that takes it. */
    static final Duration IMMEDIATE = Duration.ofSeconds(5);

    /** How long a release is retried, from the call. */
    static final Duration RELEASE_WINDOW = Duration.ofSeconds(5);

    /** How long one attempt of a release may stay unanswered before another is sent. */
    static final Duration RELEASE_ATTEMPT = Duration.ofSeconds(2);

    static final Duration RETRY_PAUSE_MIN = Duration.ofMillis(10);
    static final Duration RETRY_PAUSE_MAX = Duration.ofMillis(100);

    /** Bytes of requests that are handed to the socket at once. */
    static final int WRITE_BATCH_SIZE_BYTES = 65_536;

    private Limits() {}
}
