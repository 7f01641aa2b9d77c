package ticketing;

import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.Executor;
import java.util.concurrent.ForkJoinPool;

/** What a broker is told. Immutable; each {@code with} method gives a changed copy. */
public final class BrokerOptions {
    private final List<Endpoint> endpoints;
    private final byte[] fingerprint;
    private final byte[] token;
    private final TlsOptions tls;
    private final int pendingCountMax;
    private final Executor callbackExecutor;

    private BrokerOptions(
            List<Endpoint> endpoints,
            byte[] fingerprint,
            byte[] token,
            TlsOptions tls,
            int pendingCountMax,
            Executor callbackExecutor) {
        this.endpoints = endpoints;
        this.fingerprint = fingerprint;
        this.token = token;
        this.tls = tls;
        this.pendingCountMax = pendingCountMax;
        this.callbackExecutor = callbackExecutor;
    }

    /**
     * A single server.
     *
     * @param address {@code host:port}, IPv6 as {@code [addr]:port}
     * @return the options
     * @throws TicketingException.InvalidInput for another form
     */
    public static BrokerOptions single(String address) {
        return new BrokerOptions(List.of(Endpoint.parse(Objects.requireNonNull(address, "address"))), null, new byte[0], null,
                Limits.PENDING_COUNT_DEFAULT, ForkJoinPool.commonPool());
    }

    /**
     * A cluster.
     *
     * @param addresses 3 or 5 of the form {@code host:port}, in slot order
     * @param fingerprint the cluster's identity: 64 hexadecimal digits
     * @return the options
     * @throws TicketingException.InvalidInput for another count or form
     */
    public static BrokerOptions cluster(List<String> addresses, String fingerprint) {
        Objects.requireNonNull(fingerprint, "fingerprint");
        List<Endpoint> endpoints = Objects.requireNonNull(addresses, "addresses").stream()
                .map(address -> Endpoint.parse(Objects.requireNonNull(address, "an element of addresses")))
                .toList();
        if (endpoints.size() != 3 && endpoints.size() != 5) {
            throw new TicketingException.InvalidInput(
                    "a cluster has 3 or 5 addresses in slot order, got " + endpoints.size());
        }
        if (!fingerprint.matches("[0-9a-fA-F]{64}")) {
            throw new TicketingException.InvalidInput("a fingerprint has 64 hexadecimal digits");
        }
        return new BrokerOptions(endpoints, HexFormat.of().parseHex(fingerprint), new byte[0], null,
                Limits.PENDING_COUNT_DEFAULT, ForkJoinPool.commonPool());
    }

    /**
     * Sets the client token. Without one every address must be a loopback address.
     *
     * @param token 16–4096 bytes of UTF-8
     * @return the changed options
     * @throws TicketingException.InvalidInput for another size
     */
    public BrokerOptions withToken(String token) {
        return withToken(Objects.requireNonNull(token, "token").getBytes(StandardCharsets.UTF_8));
    }

    /**
     * Sets the client token. Without one every address must be a loopback address.
     *
     * @param token 16–4096 bytes
     * @return the changed options
     * @throws TicketingException.InvalidInput for another size
     */
    public BrokerOptions withToken(byte[] token) {
        Objects.requireNonNull(token, "token");
        if (token.length < Limits.TOKEN_SIZE_BYTES_MIN || token.length > Limits.TOKEN_SIZE_BYTES_MAX) {
            throw new TicketingException.InvalidInput("a token has " + Limits.TOKEN_SIZE_BYTES_MIN + " to "
                    + Limits.TOKEN_SIZE_BYTES_MAX + " bytes, got " + token.length);
        }
        return new BrokerOptions(endpoints, fingerprint, token.clone(), tls, pendingCountMax, callbackExecutor);
    }

    /**
     * Secures the connections with TLS. The default is none.
     *
     * @param options whom to trust
     * @return the changed options
     */
    public BrokerOptions withTls(TlsOptions options) {
        Objects.requireNonNull(options, "options");
        return new BrokerOptions(endpoints, fingerprint, token, options, pendingCountMax, callbackExecutor);
    }

    /**
     * Bounds the acquires between call and answer, over the whole broker. The default is 1024.
     *
     * @param countMax 1–16,384
     * @return the changed options
     * @throws TicketingException.InvalidInput for another count
     */
    public BrokerOptions withPendingCountMax(int countMax) {
        if (countMax < 1 || countMax > Limits.PENDING_COUNT_MAX) {
            throw new TicketingException.InvalidInput(
                    "the pending limit is from 1 to " + Limits.PENDING_COUNT_MAX + ", got " + countMax);
        }
        return new BrokerOptions(endpoints, fingerprint, token, tls, countMax, callbackExecutor);
    }

    /**
     * Sets what completes the futures, and so runs their dependent actions. The default is the common pool. An executor
     * that runs its tasks in place is fast but must never be given an action that blocks.
     *
     * @param executor the executor
     * @return the changed options
     */
    public BrokerOptions withCallbackExecutor(Executor executor) {
        Objects.requireNonNull(executor, "executor");
        return new BrokerOptions(endpoints, fingerprint, token, tls, pendingCountMax, executor);
    }

    /** The checks that need more than one option. */
    BrokerOptions checked() {
        if (token.length == 0) {
            endpoints.stream().filter(endpoint -> !endpoint.isLoopback()).findFirst().ifPresent(remote -> {
                throw new TicketingException.InvalidInput(
                        "a token is needed: " + remote.host() + " is not a loopback address");
            });
        }
        return this;
    }

    List<Endpoint> endpoints() {
        return endpoints;
    }

    /** {@code null} in single mode. */
    byte[] fingerprint() {
        return fingerprint;
    }

    byte[] token() {
        return token;
    }

    /** {@code null} for none. */
    TlsOptions tls() {
        return tls;
    }

    int pendingCountMax() {
        return pendingCountMax;
    }

    Executor callbackExecutor() {
        return callbackExecutor;
    }
}
