package ticketing;

import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** One thread that runs what is due. What it runs must be short. */
final class Timers {
    private final ScheduledThreadPoolExecutor executor;

    Timers() {
        executor = new ScheduledThreadPoolExecutor(1, task -> {
            Thread thread = new Thread(task, "ticketing-timers");
            thread.setDaemon(true);
            return thread;
        });
        executor.setRemoveOnCancelPolicy(true);
    }

    /** Runs the task after {@code nanos}; {@code null} when the broker has closed and nothing is run any more. */
    ScheduledFuture<?> after(long nanos, Runnable task) {
        try {
            return executor.schedule(task, nanos, TimeUnit.NANOSECONDS);
        } catch (RejectedExecutionException closed) {
            return null;
        }
    }

    void close() {
        executor.shutdownNow();
    }
}
