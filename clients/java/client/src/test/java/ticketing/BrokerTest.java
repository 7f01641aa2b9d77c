package ticketing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static ticketing.ScriptedServer.friendly;
import static ticketing.ScriptedServer.until;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.function.Executable;

/** The client's behaviour against a scripted server. */
@Timeout(60)
class BrokerTest {
    private static final AcquireOptions TIMES = AcquireOptions.of(Duration.ofSeconds(5), Duration.ofSeconds(30));
    private static final AcquireOptions SHORT = AcquireOptions.of(Duration.ofSeconds(1), Duration.ofSeconds(30));

    private final List<AutoCloseable> open = new ArrayList<>();

    @AfterEach
    void closeAll() throws Exception {
        Collections.reverse(open);
        for (AutoCloseable closeable : open) {
            closeable.close();
        }
    }

    private ScriptedServer serve(java.util.function.Consumer<ScriptedServer.Received> script) throws Exception {
        ScriptedServer server = ScriptedServer.single(script);
        open.add(server);
        return server;
    }

    private Broker connect(BrokerOptions options) {
        Broker broker = Broker.connect(options);
        open.add(broker);
        return broker;
    }

    private Broker connect(ScriptedServer server) {
        return connect(BrokerOptions.single(server.address()));
    }

    private static void assertFails(ErrorCode code, org.junit.jupiter.api.function.Executable call) {
        assertEquals(code, assertThrows(TicketingException.class, call).code());
    }

    @Test
    void acquiresAndReleasesOneKeyAndASet() throws Exception {
        ScriptedServer server = serve(friendly());
        Broker broker = connect(server);
        Ticket ticket = broker.acquire("order-1", TIMES);
        assertEquals(1, ticket.token());
        assertEquals(List.of("order-1"), ticket.keys());
        assertFalse(ticket.domain().isCluster());
        assertEquals("single", ticket.domain().toString());
        assertTrue(ticket.remaining().compareTo(Duration.ofSeconds(29)) > 0);
        assertTrue(ticket.remaining().compareTo(Duration.ofSeconds(30)) <= 0);
        assertEquals(ReleaseOutcome.RELEASED, ticket.release());
        assertEquals(ReleaseOutcome.RELEASED, ticket.release());
        try (Ticket set = broker.acquireSet(List.of("b", "a", "b"), TIMES)) {
            assertEquals(List.of("a", "b"), set.keys());
        }
        broker.acquireSet(List.of("x", "x"), TIMES).close();
        assertEquals("ARSGAR", server.requests.stream().map(r -> "" + r.op()).collect(Collectors.joining()));
    }

    @Test
    void opensTwoConnectionsToOneAddressAndUsesBoth() throws Exception {
        ScriptedServer server = serve(friendly());
        Broker broker = connect(server);
        until(() -> server.peers.size() == 2, "two connections");
        until(() -> {
            broker.acquire("k", TIMES).close();
            return server.requests.stream().map(r -> r.peer().index()).collect(Collectors.toSet()).equals(Set.of(0, 1));
        }, "both are used");
    }

    @Test
    void aRefusedTokenIsNamed() throws Exception {
        ScriptedServer server = new ScriptedServer(
                ScriptedServer.socket(0), 255, ScriptedServer.singleFingerprint(), "0123456789abcdef", friendly());
        open.add(server);
        Broker wrong = connect(BrokerOptions.single(server.address()).withToken("another-token-16"));
        assertFails(ErrorCode.UNAUTHORIZED, () -> wrong.awaitReady(Duration.ofMillis(300)));
        assertFails(ErrorCode.UNAUTHORIZED, () -> wrong.acquire("k", SHORT));
        Broker right = connect(BrokerOptions.single(server.address()).withToken("0123456789abcdef"));
        right.acquire("k", TIMES).close();
    }

    @Test
    void recoversWhenAServerComes() throws Exception {
        int port;
        try (ScriptedServer gone = ScriptedServer.single(friendly())) {
            port = gone.port();
        }
        Broker broker = connect(BrokerOptions.single("127.0.0.1:" + port));
        TicketingException failure =
                assertThrows(TicketingException.NotConnected.class, () -> broker.acquire("k", SHORT));
        assertTrue(failure.getMessage().contains("127.0.0.1:" + port + ": "), failure.getMessage());
        assertTrue(failure.getMessage().contains("refused"), failure.getMessage());
        open.add(new ScriptedServer(
                ScriptedServer.socket(port), 255, ScriptedServer.singleFingerprint(), "", friendly()));
        assertEquals(1, broker.acquire("k", TIMES).token());
    }

    @Test
    void theServersRefusalsAreReportedAtOnce() throws Exception {
        AtomicReference<Character> op = new AtomicReference<>('T');
        ScriptedServer server = serve(r -> r.peer().reply(op.get(), r.requestId()));
        Broker broker = connect(server);
        assertFails(ErrorCode.TIMEOUT, () -> broker.acquire("k", TIMES));
        op.set('B');
        assertFails(ErrorCode.BUSY, () -> broker.acquire("k", TIMES));
        op.set('I');
        assertFails(ErrorCode.INDETERMINATE, () -> broker.acquire("k", TIMES));
        server.script(r -> r.peer().reply('E', r.requestId(), (byte) 2));
        TicketingException.Rejected rejected =
                assertThrows(TicketingException.Rejected.class, () -> broker.acquire("k", TIMES));
        assertEquals(2, rejected.rejectionCode());
    }

    @Test
    void aCutAfterTheRequestLeftIsIndeterminateAndNotSentAgain() throws Exception {
        ScriptedServer server = serve(r -> r.peer().cut());
        Broker broker = connect(server);
        assertFails(ErrorCode.INDETERMINATE, () -> broker.acquire("k", TIMES));
        broker.awaitReady(Duration.ofSeconds(5));
        assertEquals(1, server.requests.size());
    }

    @Test
    void notActiveIsRetriedWithinTheWait() throws Exception {
        AtomicInteger count = new AtomicInteger();
        var grant = friendly();
        ScriptedServer server = serve(r -> {
            if (count.incrementAndGet() < 3) {
                r.peer().reply('E', r.requestId(), (byte) Reply.CODE_NOT_ACTIVE);
            } else {
                grant.accept(r);
            }
        });
        Broker broker = connect(server);
        assertEquals(1, broker.acquire("k", TIMES).token());
        server.script(r -> r.peer().reply('E', r.requestId(), (byte) Reply.CODE_NO_LEADER));
        assertFails(ErrorCode.NO_LEADER, () -> broker.acquire("k", SHORT));
    }

    @Test
    void movedLeadsToTheLeaderWhichLaterRequestsAskFirst() throws Exception {
        byte[] fingerprint = new byte[32];
        var grant = friendly();
        List<ScriptedServer> servers = new ArrayList<>();
        for (int slot = 0; slot < 3; slot++) {
            boolean leads = slot == 2;
            servers.add(new ScriptedServer(ScriptedServer.socket(0), slot, fingerprint, "", r -> {
                if (leads) {
                    grant.accept(r);
                } else {
                    r.peer().reply('M', r.requestId(), (byte) 2);
                }
            }));
        }
        open.addAll(servers);
        Broker broker = connect(BrokerOptions.cluster(
                servers.stream().map(ScriptedServer::address).toList(), "00".repeat(32)));
        Ticket ticket = broker.acquire("k", TIMES);
        assertTrue(ticket.domain().isCluster());
        assertEquals(ticket.domain().fingerprint(), ticket.domain().toString());
        ticket.close();
        int misled = servers.get(0).requests.size() + servers.get(1).requests.size();
        IntStream.range(0, 5).forEach(turn -> broker.acquire("k", TIMES).close());
        assertEquals(misled, servers.get(0).requests.size() + servers.get(1).requests.size());
    }

    @Test
    void aCancelledAcquireReleasesItsLateGrantAndKeepsTheConnection() throws Exception {
        AtomicReference<ScriptedServer.Received> late = new AtomicReference<>();
        ScriptedServer server = serve(r -> {
            if (r.op() == 'A') {
                late.set(r);
            } else {
                r.peer().reply('R', r.requestId());
            }
        });
        Broker broker = connect(BrokerOptions.single(server.address()).withPendingCountMax(1));
        CompletableFuture<Ticket> future = broker.acquireAsync("k", TIMES);
        until(() -> late.get() != null, "the request arrives");
        assertTrue(future.cancel(true));
        // The request is still outstanding, and counts.
        assertFails(ErrorCode.CLIENT_CAPACITY, () -> broker.acquire("k", TIMES));
        late.get().peer().grant(late.get(), 77);
        until(() -> server.requests.stream().anyMatch(r -> r.op() == 'R' && r.token() == 77), "the release");
        assertFalse(late.get().peer().socket().isClosed());
        server.script(friendly());
        until(() -> {
            try {
                broker.acquire("k", TIMES).close();
                return true;
            } catch (TicketingException.ClientCapacity notYet) {
                return false;
            }
        }, "the permit comes back");
    }

    @Test
    void anInterruptGivesUpAndStaysSet() throws Exception {
        ScriptedServer server = serve(r -> {});
        Broker broker = connect(server);
        AtomicReference<Throwable> failure = new AtomicReference<>();
        AtomicInteger interrupted = new AtomicInteger();
        Thread caller = new Thread(() -> {
            try {
                broker.acquire("k", TIMES);
            } catch (TicketingException cancelled) {
                failure.set(cancelled);
                interrupted.set(Thread.currentThread().isInterrupted() ? 1 : 0);
            }
        });
        caller.start();
        until(() -> server.requests.size() == 1, "the request");
        caller.interrupt();
        caller.join();
        assertTrue(failure.get() instanceof TicketingException.Cancelled);
        assertEquals(1, interrupted.get());
    }

    @Test
    void tooLittleLeaseLeftIsReleasedAndReported() throws Exception {
        var timer = Executors.newSingleThreadScheduledExecutor();
        open.add(timer::shutdownNow);
        ScriptedServer server = serve(r -> {
            if (r.op() == 'A') {
                timer.schedule(() -> r.peer().grant(r, 5), 300, TimeUnit.MILLISECONDS);
            } else {
                r.peer().reply('R', r.requestId());
            }
        });
        Broker broker = connect(server);
        AcquireOptions times =
                AcquireOptions.of(Duration.ofSeconds(5), Duration.ofSeconds(1)).withBudget(Duration.ofMillis(800));
        assertFails(ErrorCode.INSUFFICIENT_LEASE, () -> broker.acquire("k", times));
        until(() -> server.requests.stream().anyMatch(r -> r.op() == 'R' && r.token() == 5), "the release");
    }

    @Test
    void aReleaseSurvivesACutAndALeadershipLoss() throws Exception {
        AtomicInteger releases = new AtomicInteger();
        var grant = friendly();
        ScriptedServer server = serve(r -> {
            if (r.op() == 'A') {
                grant.accept(r);
                return;
            }
            switch (releases.incrementAndGet()) {
                case 1 -> r.peer().cut();
                case 2 -> r.peer().reply('I', r.requestId());
                default -> r.peer().reply('N', r.requestId());
            }
        });
        Broker broker = connect(server);
        assertEquals(ReleaseOutcome.NOT_HELD, broker.acquire("k", TIMES).release());
        assertEquals(3, releases.get());
    }

    @Test
    void aReplyToAnUnknownIdEndsTheSessionAndTheNextOneWorks() throws Exception {
        ScriptedServer server = serve(r -> r.peer().reply('R', 99));
        Broker broker = connect(server);
        assertFails(ErrorCode.INDETERMINATE, () -> broker.acquire("k", TIMES));
        server.script(friendly());
        assertEquals(1, broker.acquire("k", TIMES).token());
    }

    @Test
    void badInputIsRefusedBeforeAnythingIsSent() throws Exception {
        ScriptedServer server = serve(friendly());
        Broker broker = connect(server);
        for (String key : List.of("", "a b", "a\n", "a\r", "k".repeat(129), "\ud800")) {
            assertFails(ErrorCode.INVALID_INPUT, () -> broker.acquire(key, TIMES));
        }
        List<String> many = IntStream.range(0, 17).mapToObj(i -> "k" + i).toList();
        assertFails(ErrorCode.INVALID_INPUT, () -> broker.acquireSet(many, TIMES));
        assertFails(ErrorCode.INVALID_INPUT, () -> broker.acquireSet(List.of(), TIMES));
        Duration lease = Duration.ofSeconds(30);
        for (long wait : new long[] {-1, 255_001}) {
            assertFails(ErrorCode.INVALID_INPUT, () -> AcquireOptions.of(Duration.ofMillis(wait), lease));
        }
        for (long bad : new long[] {0, 1500, 251_000}) {
            assertFails(ErrorCode.INVALID_INPUT, () -> AcquireOptions.of(Duration.ZERO, Duration.ofMillis(bad)));
        }
        assertFails(ErrorCode.INVALID_INPUT, () -> TIMES.withBudget(Duration.ofSeconds(30)));
        assertTrue(server.requests.isEmpty());
        assertEquals(255, AcquireOptions.of(Duration.ofMillis(254_001), lease).waitSeconds());
    }

    @Test
    void badBrokerOptionsAreRefused() {
        assertFails(ErrorCode.INVALID_INPUT, () -> BrokerOptions.single("127.0.0.1"));
        assertFails(ErrorCode.INVALID_INPUT, () -> BrokerOptions.single("127.0.0.1:0"));
        assertFails(ErrorCode.INVALID_INPUT, () -> BrokerOptions.cluster(List.of("a:1", "b:1"), "00".repeat(32)));
        assertFails(
                ErrorCode.INVALID_INPUT, () -> BrokerOptions.cluster(List.of("a:1", "b:1", "c:1"), "00".repeat(31)));
        assertFails(ErrorCode.INVALID_INPUT, () -> Broker.connect(BrokerOptions.single("10.0.0.1:1")));
        assertFails(ErrorCode.INVALID_INPUT, () -> BrokerOptions.single("a:1").withToken("short"));
        assertFails(ErrorCode.INVALID_INPUT, () -> BrokerOptions.single("a:1").withPendingCountMax(0));
    }

    @Test
    void aNullIsRefusedByName() throws Exception {
        Broker broker = connect(serve(friendly()));
        BrokerOptions options = BrokerOptions.single("127.0.0.1:1");
        Duration second = Duration.ofSeconds(1);
        Map<Executable, String> calls = Map.ofEntries(
                Map.entry(() -> Broker.connect(null), "options"),
                Map.entry(() -> broker.awaitReady(null), "timeout"),
                Map.entry(() -> broker.acquire(null, TIMES), "key"),
                Map.entry(() -> broker.acquire("k", null), "options"),
                Map.entry(() -> broker.acquireAsync(null, TIMES), "key"),
                Map.entry(() -> broker.acquireSet(null, TIMES), "keys"),
                Map.entry(() -> broker.acquireSet(Collections.singleton(null), TIMES), "an element of keys"),
                Map.entry(() -> BrokerOptions.single(null), "address"),
                Map.entry(() -> BrokerOptions.cluster(null, "00".repeat(32)), "addresses"),
                Map.entry(
                        () -> BrokerOptions.cluster(Collections.nCopies(3, null), "00".repeat(32)),
                        "an element of addresses"),
                Map.entry(() -> BrokerOptions.cluster(List.of(), null), "fingerprint"),
                Map.entry(() -> options.withToken((String) null), "token"),
                Map.entry(() -> options.withToken((byte[]) null), "token"),
                Map.entry(() -> options.withTls(null), "options"),
                Map.entry(() -> options.withCallbackExecutor(null), "executor"),
                Map.entry(() -> AcquireOptions.of(null, second), "wait"),
                Map.entry(() -> AcquireOptions.of(second, null), "lease"),
                Map.entry(() -> TIMES.withBudget(null), "budget"),
                Map.entry(() -> TlsOptions.caFile(null), "pem"),
                Map.entry(() -> TlsOptions.systemRoots().serverName(null), "name"));
        calls.forEach((call, name) -> assertEquals(name, assertThrows(NullPointerException.class, call).getMessage()));
    }

    @Test
    void closeEndsEverythingAndIsIdempotent() throws Exception {
        ScriptedServer server = serve(r -> {});
        Broker broker = connect(server);
        CompletableFuture<Ticket> future = broker.acquireAsync("k", TIMES);
        until(() -> server.requests.size() == 1, "the request");
        broker.close();
        ExecutionException failure = assertThrows(ExecutionException.class, future::get);
        assertTrue(failure.getCause() instanceof TicketingException.Indeterminate);
        broker.close();
        assertFails(ErrorCode.CLOSED, () -> broker.acquire("k", TIMES));
        String name = "ticketing-127.0.0.1:" + server.port();
        assertTrue(Thread.getAllStackTraces().keySet().stream().noneMatch(t -> t.getName().startsWith(name)));
    }

    @Test
    void aForgottenTicketIsReleased() throws Exception {
        ScriptedServer server = serve(friendly());
        Broker broker = connect(server);
        broker.acquire("k", TIMES);
        until(() -> {
            System.gc();
            return server.requests.stream().anyMatch(r -> r.op() == 'R');
        }, "the release");
    }

    @Test
    void manyCallersShareOneBroker() throws Exception {
        ScriptedServer server = serve(friendly());
        Broker broker = connect(server);
        List<CompletableFuture<ReleaseOutcome>> all = IntStream.range(0, 500)
                .mapToObj(i -> broker.acquireAsync("k" + i, TIMES).thenCompose(Ticket::releaseAsync))
                .toList();
        for (CompletableFuture<ReleaseOutcome> one : all) {
            assertEquals(ReleaseOutcome.RELEASED, one.get());
        }
    }
}
