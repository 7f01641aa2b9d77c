package ticketing;

import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** All releases of a broker, bounded apart from its acquires. */
final class Releaser {
    private final Router router;
    private final Timers timers;
    private final Semaphore permits = new Semaphore(Limits.RELEASE_COUNT_MAX);
    private final Set<CompletableFuture<ReleaseOutcome>> underWay = ConcurrentHashMap.newKeySet();
    private volatile boolean closed;

    Releaser(Router router, Timers timers) {
        this.router = router;
        this.timers = timers;
    }

    /** For a caller's ticket. Fails with ClientCapacity, Closed, Rejected or ReleaseUnconfirmed. */
    CompletableFuture<ReleaseOutcome> release(List<byte[]> keys, long token) {
        if (closed) {
            return CompletableFuture.failedFuture(
                    new TicketingException.Closed("the broker is closed; the lease ends this lock"));
        }
        return giveBack(keys, token);
    }

    /** Refuses what callers ask for from now on. A grant that nobody wants is still given back. */
    void close() {
        closed = true;
    }

    /** For a grant that nobody wants. */
    CompletableFuture<ReleaseOutcome> giveBack(List<byte[]> keys, long token) {
        if (!permits.tryAcquire()) {
            return CompletableFuture.failedFuture(new TicketingException.ClientCapacity(
                    Limits.RELEASE_COUNT_MAX + " releases are under way; the lease ends this lock"));
        }
        Release release = new Release(router, timers, keys, token);
        underWay.add(release.result);
        release.result.whenComplete((outcome, failure) -> {
            underWay.remove(release.result);
            permits.release();
        });
        release.step();
        return release.result;
    }

    /** Waits until no release is under way, at most for the release window. */
    void drain() {
        long deadline = System.nanoTime() + Limits.RELEASE_WINDOW.toNanos();
        for (CompletableFuture<ReleaseOutcome> release : underWay) {
            try {
                release.get(Math.max(0, deadline - System.nanoTime()), TimeUnit.NANOSECONDS);
            } catch (ExecutionException ended) {
                // Its caller hears of it.
            } catch (TimeoutException enough) {
                return;
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
                return;
            }
        }
    }
}
