package ticketing;

import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * A client of one Ticketing server or cluster. It keeps its connections for ever: a dead server never breaks it. One
 * broker serves any number of threads; {@link #close()} ends it.
 */
public final class Broker implements AutoCloseable {
    /** For futures that no caller sees: completing them only wakes a waiting thread. */
    private static final Executor IN_PLACE = Runnable::run;

    private final Router router;
    private final Timers timers = new Timers();
    private final Releaser releaser;
    private final BrokerOptions options;
    private final Domain domain;
    private final Semaphore permits;
    private final Set<Acquire> underWay = ConcurrentHashMap.newKeySet();
    private final Object closeLock = new Object();
    private volatile boolean closed;

    private Broker(BrokerOptions options) {
        this.options = options;
        this.router = new Router(options);
        this.releaser = new Releaser(router, timers);
        this.domain = Domain.of(options.fingerprint());
        this.permits = new Semaphore(options.pendingCountMax());
    }

    /**
     * Makes a broker, which begins to connect in the background.
     *
     * @param options whom to connect to
     * @return the broker
     * @throws TicketingException.InvalidInput when no token is given for an address that is not a loopback address
     */
    public static Broker connect(BrokerOptions options) {
        return new Broker(Objects.requireNonNull(options, "options").checked());
    }

    /**
     * Waits until a connection is usable. Acquires need no such call: they wait for a connection themselves.
     *
     * @param timeout how long at most
     * @throws TicketingException.Unauthorized when the server refused the token
     * @throws TicketingException.NotConnected when no connection is usable after the timeout
     * @throws TicketingException.Closed when the broker is closed
     * @throws TicketingException.Cancelled when the thread is interrupted
     */
    public void awaitReady(Duration timeout) {
        Objects.requireNonNull(timeout, "timeout");
        throwIfClosed();
        try {
            if (router.awaitUsable(timeout.toNanos())) {
                return;
            }
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new TicketingException.Cancelled("interrupted while waiting for a connection", interrupted);
        }
        throwIfClosed();
        if (router.refused()) {
            throw new TicketingException.Unauthorized();
        }
        throw new TicketingException.NotConnected(
                "no server was reachable within " + timeout + ": " + router.lastFailure());
    }

    /**
     * Acquires one key. Callers queue strictly first in, first out; the lock is not re-entrant.
     *
     * @param key 1–128 bytes of UTF-8 without space, LF and CR
     * @param options wait, lease and work budget
     * @return the ticket; cancelling the future gives up, and a late grant is released. It fails with every {@link
     *     TicketingException} but ReleaseUnconfirmed; each tells what is known about the lock
     * @throws TicketingException.InvalidInput when the key breaks the rule
     */
    public CompletableFuture<Ticket> acquireAsync(String key, AcquireOptions options) {
        return acquire(List.of(Keys.checked(key)), options, this.options.callbackExecutor());
    }

    /**
     * Acquires up to 16 keys, all or nothing, under one token.
     *
     * @param keys the keys; order and duplicates do not matter
     * @param options wait, lease and work budget
     * @return as {@link #acquireAsync}
     * @throws TicketingException.InvalidInput when a key breaks the rule, or there are none or more than 16
     */
    public CompletableFuture<Ticket> acquireSetAsync(Collection<String> keys, AcquireOptions options) {
        return acquire(Keys.checkedSet(keys), options, this.options.callbackExecutor());
    }

    /**
     * Acquires one key and waits for it.
     *
     * @param key 1–128 bytes of UTF-8 without space, LF and CR
     * @param options wait, lease and work budget
     * @return the ticket; close it to release the lock
     * @throws TicketingException as {@link #acquireAsync}; Cancelled when the thread is interrupted
     */
    public Ticket acquire(String key, AcquireOptions options) {
        CompletableFuture<Ticket> future = acquire(List.of(Keys.checked(key)), options, IN_PLACE);
        return Blocking.get(future, "interrupted while waiting for " + key);
    }

    /**
     * Acquires up to 16 keys, all or nothing, and waits for them.
     *
     * @param keys the keys; order and duplicates do not matter
     * @param options wait, lease and work budget
     * @return the ticket; close it to release the locks
     * @throws TicketingException as {@link #acquireAsync}; Cancelled when the thread is interrupted
     */
    public Ticket acquireSet(Collection<String> keys, AcquireOptions options) {
        CompletableFuture<Ticket> future = acquire(Keys.checkedSet(keys), options, IN_PLACE);
        return Blocking.get(future, "interrupted while waiting for a key set");
    }

    /**
     * Refuses new calls, lets releases under way finish for at most 5 s, and ends every thread and socket. Locks still
     * held end with their lease. Idempotent.
     */
    @Override
    public void close() {
        synchronized (closeLock) {
            if (closed) {
                return;
            }
            closed = true;
            for (Acquire acquire : underWay) {
                acquire.cancel(
                        new TicketingException.Closed("the broker was closed"),
                        new TicketingException.Indeterminate("the broker was closed before the acquire was answered"));
            }
            releaser.close();
            releaser.drain();
            timers.close();
            router.close();
        }
    }

    /** The executor runs the dependent actions of the future, and must not be in place when a caller can add some. */
    private CompletableFuture<Ticket> acquire(List<byte[]> keys, AcquireOptions times, Executor executor) {
        Objects.requireNonNull(times, "options");
        if (closed) {
            return CompletableFuture.failedFuture(new TicketingException.Closed("the broker is closed"));
        }
        if (!permits.tryAcquire()) {
            return CompletableFuture.failedFuture(new TicketingException.ClientCapacity(
                    options.pendingCountMax() + " acquires are pending; raise the limit or wait"));
        }
        CompletableFuture<Ticket> future = new CompletableFuture<>();
        Delivery delivery = new Delivery(keys, future, executor);
        AtomicBoolean permit = new AtomicBoolean(true);
        Runnable finished = () -> {
            if (permit.getAndSet(false)) {
                permits.release();
            }
        };
        Acquire acquire = new Acquire(router, timers, releaser, keys, times, delivery, finished);
        underWay.add(acquire);
        future.whenComplete((ticket, failure) -> {
            underWay.remove(acquire);
            if (future.isCancelled()) {
                TicketingException.Cancelled cancelled = new TicketingException.Cancelled("the acquire was cancelled");
                acquire.cancel(cancelled, cancelled);
            }
        });
        acquire.step();
        if (closed) {
            // It may have come after close() looked for what is under way.
            acquire.cancel(
                    new TicketingException.Closed("the broker was closed"),
                    new TicketingException.Indeterminate("the broker was closed before the acquire was answered"));
        }
        return future;
    }

    private void throwIfClosed() {
        if (closed) {
            throw new TicketingException.Closed("the broker is closed");
        }
    }

    /** Completes a caller's future. */
    private final class Delivery implements Acquire.Listener {
        private final List<byte[]> keys;
        private final CompletableFuture<Ticket> future;
        private final Executor executor;

        Delivery(List<byte[]> keys, CompletableFuture<Ticket> future, Executor executor) {
            this.keys = keys;
            this.future = future;
            this.executor = executor;
        }

        @Override
        public void granted(long token, long validBefore) {
            executor.execute(() -> {
                Ticket ticket = new Ticket(releaser, keys, token, validBefore, domain, options.callbackExecutor());
                if (!future.complete(ticket)) {
                    // Cancelled meanwhile.
                    ticket.abandon();
                }
            });
        }

        @Override
        public void failed(TicketingException failure) {
            executor.execute(() -> future.completeExceptionally(failure));
        }
    }
}
