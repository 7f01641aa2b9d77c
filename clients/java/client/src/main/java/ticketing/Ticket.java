package ticketing;

import java.lang.ref.Cleaner;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;

/**
 * A held lock on one key or a set of keys. Thread-safe.
 *
 * <p>Give {@link #token()} to the protected resource, which must refuse any token below the highest it has seen, and
 * stop working when {@link #remaining()} is zero. A ticket that is forgotten is released when it is collected.
 */
public final class Ticket implements AutoCloseable {
    private static final Cleaner FORGOTTEN = Cleaner.create();

    private final List<String> keys;
    private final Domain domain;
    private final long validBefore;
    private final Executor callbackExecutor;
    private final Hold hold;
    private final Cleaner.Cleanable cleanable;

    Ticket(
            Releaser releaser,
            List<byte[]> keys,
            long token,
            long validBefore,
            Domain domain,
            Executor callbackExecutor) {
        this.keys = keys.stream()
                .map(key -> new String(key, StandardCharsets.UTF_8))
                .toList();
        this.domain = domain;
        this.callbackExecutor = callbackExecutor;
        this.validBefore = validBefore;
        this.hold = new Hold(releaser, keys, token);
        this.cleanable = FORGOTTEN.register(this, hold);
    }

    /**
     * The keys held.
     *
     * @return the keys, ascending bytewise
     */
    public List<String> keys() {
        return keys;
    }

    /**
     * The fencing token: strictly larger than every token granted before it in the same domain.
     *
     * @return an unsigned 64-bit number; print it with {@link Long#toUnsignedString(long)} and compare it with
     *     {@link Long#compareUnsigned(long, long)}
     */
    public long token() {
        return hold.token;
    }

    /**
     * The token's fencing domain.
     *
     * @return the domain
     */
    public Domain domain() {
        return domain;
    }

    /**
     * Until when the lock may be relied on: send time + lease.
     *
     * @return an instant on the clock of {@link System#nanoTime()}
     */
    public long validBeforeNanoTime() {
        return validBefore;
    }

    /**
     * How long the lock may still be relied on.
     *
     * @return the time left, zero when it has passed
     */
    public Duration remaining() {
        return Duration.ofNanos(Math.max(0, validBefore - System.nanoTime()));
    }

    /**
     * Releases the lock. The future has a value only when the server's answer is definite. Retried for at most 5 s; a
     * second call gives the first one's result.
     *
     * @return the outcome; it fails with {@link TicketingException.ReleaseUnconfirmed}, {@link
     *     TicketingException.ClientCapacity}, {@link TicketingException.Closed} or {@link TicketingException.Rejected},
     *     and then the lease ends the lock
     */
    public CompletableFuture<ReleaseOutcome> releaseAsync() {
        return begin().whenCompleteAsync((outcome, failure) -> {}, callbackExecutor);
    }

    /**
     * Releases the lock and waits for the server's definite answer, at most 5 s.
     *
     * @return the outcome
     * @throws TicketingException as {@link #releaseAsync()}; {@link TicketingException.Cancelled} when the thread is
     *     interrupted: the release goes on in the background
     */
    public ReleaseOutcome release() {
        return Blocking.get(begin().copy(), "the wait for the release was interrupted; it goes on in the background");
    }

    /** Releases the lock in the background, by the same rules and without a report. */
    public void abandon() {
        begin();
    }

    /**
     * Releases the lock and waits, at most 5 s. A release that stays unconfirmed is not reported: the lease ends the
     * lock. Call {@link #release()} to know.
     */
    @Override
    public void close() {
        try {
            release();
        } catch (TicketingException unconfirmed) {
            // The lease is the safety net.
        }
    }

    private CompletableFuture<ReleaseOutcome> begin() {
        // Also unregisters: released tickets must not lie with the cleaner until they are collected.
        cleanable.clean();
        return hold.release();
    }

    @Override
    public String toString() {
        return "Ticket[keys=" + keys + ", token=" + Long.toUnsignedString(token()) + "]";
    }

    /** What the cleaner needs: everything of the ticket but the ticket. */
    private static final class Hold implements Runnable {
        private final Releaser releaser;
        private final List<byte[]> keys;
        private final long token;
        private CompletableFuture<ReleaseOutcome> result;

        Hold(Releaser releaser, List<byte[]> keys, long token) {
            this.releaser = releaser;
            this.keys = keys;
            this.token = token;
        }

        synchronized CompletableFuture<ReleaseOutcome> release() {
            if (result == null) {
                result = releaser.release(keys, token);
            }
            return result;
        }

        @Override
        public void run() {
            release();
        }
    }
}
