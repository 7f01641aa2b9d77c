package ticketing;

import java.util.List;
import java.util.Set;
import java.util.concurrent.ScheduledFuture;

/** One logical acquire: retried only while the server provably did not take it. */
final class Acquire {
    /** Whom it tells, exactly once. */
    interface Listener {
        void granted(long token, long validBefore);

        void failed(TicketingException failure);
    }

    private enum Phase {
        /** An attempt is on a connection. */
        ATTEMPTING,
        /** Told. A request left behind may still release a late grant. */
        DONE,
        /** No attempt; the next follows after a pause. */
        PAUSING
    }

    private final Router router;
    private final Timers timers;
    private final Releaser releaser;
    private final List<byte[]> keys;
    private final AcquireOptions options;
    private final Listener listener;
    /** Run when nothing of this acquire is outstanding any more. */
    private final Runnable finished;

    private final long deadline;

    // Guarded by this.
    private Phase phase = Phase.PAUSING;
    private long retryPause = Limits.RETRY_PAUSE_MIN.toNanos();
    private boolean everUsable;
    private boolean leaderless;
    private Attempt attempt;
    private ScheduledFuture<?> timer;

    Acquire(
            Router router,
            Timers timers,
            Releaser releaser,
            List<byte[]> keys,
            AcquireOptions options,
            Listener listener,
            Runnable finished) {
        this.router = router;
        this.timers = timers;
        this.releaser = releaser;
        this.keys = keys;
        this.options = options;
        this.listener = listener;
        this.finished = finished;
        long wait = options.waitSeconds() == 0 ? Limits.IMMEDIATE.toNanos() : options.waitSeconds() * 1_000_000_000L;
        this.deadline = System.nanoTime() + wait;
    }

    /** Begins, or goes on after a pause. */
    void step() {
        Connection connection;
        Attempt next = null;
        TicketingException failure = null;
        synchronized (this) {
            if (phase != Phase.PAUSING) {
                return;
            }
            connection = router.choose(Set.of());
            if (connection == null || System.nanoTime() - deadline >= 0) {
                failure = pauseOrFail();
            } else {
                everUsable = true;
                phase = Phase.ATTEMPTING;
                next = new Attempt(connection);
                attempt = next;
                arm(deadline - System.nanoTime(), this::check);
            }
        }
        if (next != null) {
            connection.submit(next);
        } else if (failure != null) {
            tell(failure, true);
        }
    }

    /** Goes on at once: no byte of the last attempt left. */
    private TicketingException retryOrFail() {
        phase = Phase.PAUSING;
        if (System.nanoTime() - deadline >= 0) {
            done();
            return exhausted();
        }
        arm(0, this::step);
        return null;
    }

    /** The caller gives up. What may have been sent stays behind and releases a late grant. */
    void cancel(TicketingException unsent, TicketingException maybeSent) {
        boolean outstanding;
        synchronized (this) {
            if (phase == Phase.DONE) {
                return;
            }
            outstanding = phase == Phase.ATTEMPTING && !attempt.withdraw();
            done();
        }
        tell(outstanding ? maybeSent : unsent, !outstanding);
    }

    /** The timer: the wait or the answer's grace may be over. */
    private void check() {
        boolean graceOver = false;
        TicketingException failure = null;
        synchronized (this) {
            if (phase != Phase.ATTEMPTING) {
                return;
            }
            long now = System.nanoTime();
            if (attempt.state() == Request.State.QUEUED) {
                if (now >= deadline && attempt.withdraw()) {
                    done();
                    failure = exhausted();
                } else {
                    arm(Math.max(deadline - now, Limits.RETRY_PAUSE_MIN.toNanos()), this::check);
                }
            } else {
                long end = attempt.graceEnd();
                if (now < end) {
                    arm(end - now, this::check);
                } else {
                    done();
                    graceOver = true;
                }
            }
        }
        if (graceOver) {
            if (attempt.connection.receivedAt() - attempt.sentAt() <= 0) {
                attempt.connection.abort();
            }
            tell(new TicketingException.Indeterminate("no answer within the wait and "
                    + Limits.ANSWER_GRACE.toMillis() + " ms more; do not enter the critical section"), false);
        } else if (failure != null) {
            tell(failure, true);
        }
    }

    private void ended(Attempt ended, Request.End end, Reply reply) {
        boolean abandoned;
        TicketingException failure = null;
        synchronized (this) {
            abandoned = phase == Phase.DONE;
            if (!abandoned) {
                failure = judge(end, reply);
                if (phase != Phase.DONE) {
                    return;
                }
            }
        }
        if (failure != null) {
            tell(failure, true);
        } else if (!abandoned) {
            tellGrant(ended, reply.token());
        } else {
            // The caller has gone: nobody wants the late grant.
            if (end == Request.End.ANSWERED && reply.grants()) {
                releaser.giveBack(keys, reply.token());
            }
            finished.run();
        }
    }

    /** What the end of an attempt means: a failure, {@code null} with phase DONE for a grant, or a pause. */
    private TicketingException judge(Request.End end, Reply reply) {
        if (end == Request.End.UNSENT) {
            return retryOrFail();
        }
        if (end == Request.End.ANSWERED && reply.leaderless()) {
            leaderless = true;
            if (reply.op() != 'M') {
                router.leadsNoMore(attempt.connection);
            }
            return pauseOrFail();
        }
        done();
        if (end == Request.End.LOST) {
            return new TicketingException.Indeterminate(
                    "the connection ended before the acquire was answered; do not enter the critical section");
        }
        return reply.grants() ? null : refusal(reply);
    }

    private void tellGrant(Attempt ended, long token) {
        long validBefore = ended.sentAt() + options.leaseSeconds() * 1_000_000_000L;
        long left = validBefore - System.nanoTime();
        if (left <= 0 || left < options.budget().toNanos()) {
            releaser.giveBack(keys, token);
            tell(new TicketingException.InsufficientLease("granted with " + Math.max(0, left / 1_000_000)
                    + " ms of lease left; it is being released"), true);
        } else {
            finished.run();
            listener.granted(token, validBefore);
        }
    }

    private static TicketingException refusal(Reply reply) {
        return switch (reply.op()) {
            case 'T' -> new TicketingException.Timeout();
            case 'B' -> new TicketingException.Busy();
            case 'I' -> new TicketingException.Indeterminate(
                    "the leader changed while the acquire was in progress; do not enter the critical section");
            default -> new TicketingException.Rejected(reply.detail());
        };
    }

    /** Arranges the next attempt after a pause; the failure when the wait is over. */
    private TicketingException pauseOrFail() {
        phase = Phase.PAUSING;
        long left = deadline - System.nanoTime();
        if (left <= 0) {
            done();
            return exhausted();
        }
        arm(Math.min(retryPause, left), this::step);
        retryPause = Math.min(retryPause * 2, Limits.RETRY_PAUSE_MAX.toNanos());
        return null;
    }

    private void arm(long nanos, Runnable task) {
        if (timer != null) {
            timer.cancel(false);
        }
        timer = timers.after(nanos, task);
    }

    private void done() {
        phase = Phase.DONE;
        if (timer != null) {
            timer.cancel(false);
        }
    }

    private void tell(TicketingException failure, boolean nothingOutstanding) {
        if (nothingOutstanding) {
            finished.run();
        }
        listener.failed(failure);
    }

    /** The error when the wait is over and nothing is outstanding. */
    private TicketingException exhausted() {
        if (leaderless) {
            return new TicketingException.NoLeader();
        }
        if (everUsable) {
            return new TicketingException.Timeout();
        }
        if (router.refused()) {
            return new TicketingException.Unauthorized();
        }
        return new TicketingException.NotConnected(
                "no server was reachable within the wait: " + router.lastFailure());
    }

    private final class Attempt extends Request {
        final Connection connection;
        private volatile int waitSent;

        Attempt(Connection connection) {
            super(Acquire.this.keys.size() == 1 ? RequestKind.ACQUIRE : RequestKind.ACQUIRE_SET, Acquire.this.keys);
            this.connection = connection;
        }

        /** The wait is rounded up, so that a wait of 1 never becomes the immediate try 0. */
        @Override
        byte[] frame(long requestId, long now) {
            if (options.waitSeconds() != 0) {
                waitSent = (int) Math.max(1, (deadline - now + 999_999_999L) / 1_000_000_000L);
            }
            return Frames.acquire(requestId, waitSent, options.leaseSeconds(), keys);
        }

        long graceEnd() {
            return sentAt() + waitSent * 1_000_000_000L + Limits.ANSWER_GRACE.toNanos();
        }

        @Override
        protected void ended(End end, Reply reply) {
            Acquire.this.ended(this, end, reply);
        }
    }
}
