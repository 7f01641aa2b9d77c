package ticketing;

import java.util.HexFormat;

/**
 * A fencing domain: one single server's history, or one cluster identity. Tokens of two domains must never be compared.
 *
 * @param fingerprint the cluster's identity in hexadecimal digits; empty for a single server
 */
public record Domain(String fingerprint) {
    static Domain of(byte[] fingerprint) {
        return new Domain(fingerprint == null ? "" : HexFormat.of().formatHex(fingerprint));
    }

    /**
     * Whether it is a cluster's.
     *
     * @return false for a single server
     */
    public boolean isCluster() {
        return !fingerprint.isEmpty();
    }

    /** "single", or the cluster's fingerprint, as the other clients write it. */
    @Override
    public String toString() {
        return isCluster() ? fingerprint : "single";
    }
}
