package ticketing;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;

/** The conformance driver: the public API over standard input and output. Contract: conformance/DRIVER.md. */
public final class ConformanceDriver {
    private static final Map<String, Set<String>> KNOWN = Map.of(
            "open", Set.of("addrs", "mode", "fingerprint", "token", "tls", "server_name", "pending"),
            "ready", Set.of("broker", "timeout_ms"),
            "acquire", Set.of("broker", "key", "wait_ms", "lease", "budget_ms"),
            "acquire-set", Set.of("broker", "keys", "wait_ms", "lease", "budget_ms"),
            "cancel", Set.of("target"),
            "release", Set.of("ticket"),
            "drop", Set.of("ticket"),
            "close", Set.of("broker"),
            "pairs", Set.of("broker", "key", "callers", "count"));

    private final Map<String, Broker> brokers = new ConcurrentHashMap<>();
    private final Map<String, Ticket> tickets = new ConcurrentHashMap<>();
    private final Map<String, CompletableFuture<Ticket>> pending = new ConcurrentHashMap<>();
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);

    private static final class BadCommand extends RuntimeException {
        private static final long serialVersionUID = 1L;
    }

    private ConformanceDriver() {}

    /**
     * Runs until standard input ends.
     *
     * @param args none
     * @throws IOException when standard input fails
     */
    public static void main(String[] args) throws IOException {
        new ConformanceDriver().run();
    }

    private void run() throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            accept(line);
        }
        brokers.values().forEach(Broker::close);
        threads.shutdownNow();
    }

    private void accept(String line) {
        List<String> words = List.of(line.split(" "));
        String verb = words.get(0);
        String tag = words.get(1);
        try {
            Map<String, String> options = new HashMap<>();
            for (String word : words.subList(2, words.size())) {
                int equals = word.indexOf('=');
                options.put(word.substring(0, equals), word.substring(equals + 1));
            }
            if (!KNOWN.containsKey(verb) || !KNOWN.get(verb).containsAll(options.keySet())) {
                throw new BadCommand();
            }
            start(verb, tag, options);
        } catch (RuntimeException failure) {
            print(tag, failed(failure));
        }
    }

    private void start(String verb, String tag, Map<String, String> options) {
        switch (verb) {
            case "open" -> {
                brokers.put(tag, Broker.connect(brokerOptions(options)));
                print(tag, "ok");
            }
            case "ready" -> later(tag, () -> {
                broker(options).awaitReady(Duration.ofMillis(Long.parseLong(options.get("timeout_ms"))));
                return "ok";
            });
            case "acquire", "acquire-set" -> acquire(verb, tag, options);
            case "cancel" -> {
                find(pending, options.get("target")).cancel(false);
                print(tag, "ok");
            }
            case "release" -> report(tag, find(tickets, options.get("ticket")).releaseAsync()
                    .thenApply(outcome -> outcome == ReleaseOutcome.RELEASED ? "released" : "not-held"));
            case "drop" -> {
                find(tickets, options.get("ticket")).abandon();
                print(tag, "ok");
            }
            case "close" -> later(tag, () -> {
                broker(options).close();
                return "ok";
            });
            case "pairs" -> later(tag, () -> pairs(options));
            default -> throw new BadCommand();
        }
    }

    private void acquire(String verb, String tag, Map<String, String> options) {
        AcquireOptions times = AcquireOptions.of(
                Duration.ofMillis(Long.parseLong(options.get("wait_ms"))),
                Duration.ofSeconds(Long.parseLong(options.get("lease"))));
        if (options.containsKey("budget_ms")) {
            times = times.withBudget(Duration.ofMillis(Long.parseLong(options.get("budget_ms"))));
        }
        CompletableFuture<Ticket> future = verb.equals("acquire")
                ? broker(options).acquireAsync(key(options.get("key")), times)
                : broker(options).acquireSetAsync(keys(options.get("keys")), times);
        pending.put(tag, future);
        report(tag, future.thenApply(ticket -> {
            tickets.put(tag, ticket);
            return "granted token=" + Long.toUnsignedString(ticket.token()) + " remaining_ms="
                    + ticket.remaining().toMillis();
        }));
        future.whenComplete((ticket, failure) -> pending.remove(tag));
    }

    private String pairs(Map<String, String> options) {
        Broker broker = broker(options);
        int callers = Integer.parseInt(options.get("callers"));
        int count = Integer.parseInt(options.get("count"));
        AtomicInteger left = new AtomicInteger(count);
        AtomicInteger failed = new AtomicInteger();
        AcquireOptions times = AcquireOptions.of(Duration.ofSeconds(5), Duration.ofSeconds(30));
        long begin = System.nanoTime();
        List<Thread> workers = new ArrayList<>();
        for (int caller = 0; caller < callers; caller++) {
            String own = key(options.get("key")) + caller;
            Thread worker = new Thread(() -> {
                while (left.getAndDecrement() > 0) {
                    try {
                        if (broker.acquire(own, times).release() != ReleaseOutcome.RELEASED) {
                            failed.incrementAndGet();
                        }
                    } catch (TicketingException failure) {
                        failed.incrementAndGet();
                    }
                }
            });
            worker.start();
            workers.add(worker);
        }
        for (Thread worker : workers) {
            try {
                worker.join();
            } catch (InterruptedException interrupted) {
                throw new IllegalStateException(interrupted);
            }
        }
        return "pairs count=" + count + " failed=" + failed + " nanoseconds=" + (System.nanoTime() - begin);
    }

    private static BrokerOptions brokerOptions(Map<String, String> options) {
        List<String> addresses = List.of(options.get("addrs").split(","));
        BrokerOptions result = switch (options.get("mode")) {
            case "single" -> {
                if (addresses.size() != 1) {
                    // The type takes one address.
                    throw new TicketingException.InvalidInput("single mode has exactly one address");
                }
                yield BrokerOptions.single(addresses.get(0));
            }
            case "cluster" -> BrokerOptions.cluster(addresses, options.getOrDefault("fingerprint", ""));
            default -> throw new BadCommand();
        };
        if (options.containsKey("token")) {
            result = result.withToken(HexFormat.of().parseHex(options.get("token")));
        }
        if (options.containsKey("pending")) {
            result = result.withPendingCountMax(Integer.parseInt(options.get("pending")));
        }
        TlsOptions tls = tls(options.getOrDefault("tls", "off"));
        if (tls != null && options.containsKey("server_name")) {
            tls = tls.serverName(options.get("server_name"));
        }
        return tls == null ? result : result.withTls(tls);
    }

    private static TlsOptions tls(String option) {
        if (option.startsWith("ca:")) {
            return TlsOptions.caFile(Path.of(option.substring("ca:".length())));
        }
        return switch (option) {
            case "off" -> null;
            case "system" -> TlsOptions.systemRoots();
            case "insecure" -> TlsOptions.insecure();
            default -> throw new BadCommand();
        };
    }

    private static List<String> keys(String hexes) {
        return hexes.isEmpty()
                ? List.of()
                : Arrays.stream(hexes.split(",")).map(ConformanceDriver::key).toList();
    }

    /** Bytes that are no UTF-8 cannot be a {@code String}: the type refuses them. */
    private static String key(String hex) {
        try {
            byte[] bytes = HexFormat.of().parseHex(hex.equals("-") ? "" : hex);
            return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString();
        } catch (CharacterCodingException cause) {
            throw new TicketingException.InvalidInput("a key must be valid UTF-8", cause);
        }
    }

    private Broker broker(Map<String, String> options) {
        return find(brokers, options.get("broker"));
    }

    private static <T> T find(Map<String, T> map, String tag) {
        T found = tag == null ? null : map.get(tag);
        if (found == null) {
            throw new BadCommand();
        }
        return found;
    }

    private void later(String tag, java.util.function.Supplier<String> action) {
        report(tag, CompletableFuture.supplyAsync(action, threads));
    }

    private void report(String tag, CompletableFuture<String> outcome) {
        outcome.whenComplete((text, failure) -> print(tag, failure == null ? text : failed(failure)));
    }

    private static String failed(Throwable failure) {
        Throwable cause = failure instanceof CompletionException && failure.getCause() != null
                ? failure.getCause()
                : failure;
        if (cause instanceof TicketingException.Rejected rejected) {
            return "error Rejected " + rejected.rejectionCode();
        }
        if (cause instanceof TicketingException known) {
            return "error " + known.code();
        }
        if (cause instanceof java.util.concurrent.CancellationException) {
            return "error Cancelled";
        }
        if (cause instanceof BadCommand) {
            return "error BadCommand";
        }
        cause.printStackTrace();
        return "error Internal";
    }

    private synchronized void print(String tag, String text) {
        out.print(tag + " " + text + "\n");
        out.flush();
    }
}
