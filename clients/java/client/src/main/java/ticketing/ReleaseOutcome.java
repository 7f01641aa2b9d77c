package ticketing;

/** A definite answer to a release. */
public enum ReleaseOutcome {
    /** That token holds nothing: the lease had ended, or an earlier attempt had released it. */
    NOT_HELD,
    /** Released. */
    RELEASED
}
