package ticketing;

import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ScheduledFuture;

/** One logical release: sent again for 5 s from the call, until some attempt's answer is definite. */
final class Release {
    final CompletableFuture<ReleaseOutcome> result = new CompletableFuture<>();

    private final Router router;
    private final Timers timers;
    private final List<byte[]> keys;
    private final long token;
    private final long deadline = System.nanoTime() + Limits.RELEASE_WINDOW.toNanos();

    // Guarded by this.
    private long retryPause = Limits.RETRY_PAUSE_MIN.toNanos();
    /** Connections that owe an answer to an attempt of this release. */
    private final Set<Connection> silent = new HashSet<>();

    private Connection last;
    private int attempt;
    private ScheduledFuture<?> timer;

    Release(Router router, Timers timers, List<byte[]> keys, long token) {
        this.router = router;
        this.timers = timers;
        this.keys = keys;
        this.token = token;
    }

    /** Sends an attempt if a connection is usable, and arranges for the next. */
    void step() {
        Connection connection;
        Attempt request;
        synchronized (this) {
            if (result.isDone()) {
                return;
            }
            long left = deadline - System.nanoTime();
            if (left <= 0) {
                result.completeExceptionally(new TicketingException.ReleaseUnconfirmed("no definite answer within "
                        + Limits.RELEASE_WINDOW.toMillis() + " ms; the lease ends the lock"));
                return;
            }
            connection = router.choose(silent);
            if (last != null && silent.contains(connection)) {
                // All are silent: anyone but the one asked last.
                connection = router.choose(Set.of(last));
            }
            last = connection;
            request = new Attempt(++attempt, connection);
            long pause = connection == null ? nextPause() : Limits.RELEASE_ATTEMPT.toNanos();
            arm(Math.min(pause, left));
            if (connection != null) {
                silent.add(connection);
            }
        }
        if (connection != null) {
            connection.submit(request);
        }
    }

    private long nextPause() {
        long pause = retryPause;
        retryPause = Math.min(pause * 2, Limits.RETRY_PAUSE_MAX.toNanos());
        return pause;
    }

    private void arm(long nanos) {
        if (timer != null) {
            timer.cancel(false);
        }
        timer = timers.after(nanos, this::step);
        if (timer == null) {
            result.completeExceptionally(new TicketingException.ReleaseUnconfirmed("the broker was closed"));
        }
    }

    private synchronized void attemptFailed(Attempt failed) {
        silent.remove(failed.connection);
        // A late failure of an earlier attempt changes nothing: a newer one is on its way.
        if (failed.number != attempt || result.isDone()) {
            return;
        }
        arm(Math.min(nextPause(), Math.max(0, deadline - System.nanoTime())));
    }

    private void finish(ReleaseOutcome outcome, RuntimeException failure) {
        synchronized (this) {
            if (timer != null) {
                timer.cancel(false);
            }
        }
        if (failure == null) {
            result.complete(outcome);
        } else {
            result.completeExceptionally(failure);
        }
    }

    private final class Attempt extends Request {
        private final int number;
        private final Connection connection;

        Attempt(int number, Connection connection) {
            super(Release.this.keys.size() == 1 ? RequestKind.RELEASE : RequestKind.RELEASE_SET, Release.this.keys);
            this.number = number;
            this.connection = connection;
        }

        @Override
        byte[] frame(long requestId, long now) {
            return Frames.release(requestId, token, keys);
        }

        @Override
        protected void ended(End end, Reply reply) {
            if (end != End.ANSWERED) {
                attemptFailed(this);
                return;
            }
            switch (reply.op()) {
                case 'R', 'G' -> finish(ReleaseOutcome.RELEASED, null);
                case 'N' -> finish(ReleaseOutcome.NOT_HELD, null);
                default -> {
                    if (reply.leaderless() || reply.op() == 'I') {
                        if (reply.op() == 'E') {
                            router.leadsNoMore(connection);
                        }
                        attemptFailed(this);
                    } else {
                        finish(null, new TicketingException.Rejected(reply.detail()));
                    }
                }
            }
        }
    }
}
