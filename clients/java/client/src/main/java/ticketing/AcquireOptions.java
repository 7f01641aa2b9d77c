package ticketing;

import java.time.Duration;
import java.util.Objects;

/** How long an acquire may queue and hold. Immutable. */
public final class AcquireOptions {
    private final int waitSeconds;
    private final int leaseSeconds;
    private final Duration budget;

    private AcquireOptions(int waitSeconds, int leaseSeconds, Duration budget) {
        this.waitSeconds = waitSeconds;
        this.leaseSeconds = leaseSeconds;
        this.budget = budget;
    }

    /**
     * Wait and lease, without a work budget.
     *
     * @param wait longest time to queue, 0–255 s; fractions are rounded up; zero is one immediate try
     * @param lease whole seconds, 1–250
     * @return the options
     * @throws TicketingException.InvalidInput for values out of range; nothing is clamped
     */
    public static AcquireOptions of(Duration wait, Duration lease) {
        Objects.requireNonNull(wait, "wait");
        Objects.requireNonNull(lease, "lease");
        if (wait.isNegative() || wait.compareTo(Duration.ofSeconds(Limits.WAIT_SECONDS_MAX)) > 0) {
            throw new TicketingException.InvalidInput("wait is 0 to " + Limits.WAIT_SECONDS_MAX + " s, got " + wait);
        }
        long leaseSeconds = lease.toSeconds();
        if (lease.toNanosPart() != 0
                || leaseSeconds < Limits.LEASE_SECONDS_MIN
                || leaseSeconds > Limits.LEASE_SECONDS_MAX) {
            throw new TicketingException.InvalidInput("lease is a whole number of seconds from "
                    + Limits.LEASE_SECONDS_MIN + " to " + Limits.LEASE_SECONDS_MAX + ", got " + lease);
        }
        int waitSeconds = (int) wait.plusNanos(999_999_999).toSeconds();
        return new AcquireOptions(waitSeconds, (int) leaseSeconds, Duration.ZERO);
    }

    /**
     * Sets the work budget: the least time that must be left of the lease when the grant arrives.
     *
     * @param budget zero or more, less than the lease
     * @return the changed options
     * @throws TicketingException.InvalidInput for another value
     */
    public AcquireOptions withBudget(Duration budget) {
        Objects.requireNonNull(budget, "budget");
        if (budget.isNegative() || budget.compareTo(Duration.ofSeconds(leaseSeconds)) >= 0) {
            throw new TicketingException.InvalidInput(
                    "the budget is from 0 to less than the lease (" + leaseSeconds + " s), got " + budget);
        }
        return new AcquireOptions(waitSeconds, leaseSeconds, budget);
    }

    int waitSeconds() {
        return waitSeconds;
    }

    int leaseSeconds() {
        return leaseSeconds;
    }

    Duration budget() {
        return budget;
    }
}
