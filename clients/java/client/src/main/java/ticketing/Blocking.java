package ticketing;

import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;

/** Waits for futures in the calling thread. */
final class Blocking {
    private Blocking() {}

    /** The value; an interrupt cancels the future, stays set, and is reported as Cancelled. */
    static <T> T get(CompletableFuture<T> future, String interruptedMessage) {
        try {
            return future.get();
        } catch (InterruptedException interrupted) {
            future.cancel(false);
            Thread.currentThread().interrupt();
            throw new TicketingException.Cancelled(interruptedMessage, interrupted);
        } catch (CancellationException cancelled) {
            throw new TicketingException.Cancelled("the call was cancelled", cancelled);
        } catch (ExecutionException ended) {
            if (ended.getCause() instanceof TicketingException failure) {
                throw failure;
            }
            throw new IllegalStateException(ended.getCause());
        }
    }
}
