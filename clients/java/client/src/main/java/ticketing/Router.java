package ticketing;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/** Which connection takes a request: the leader when it is known, otherwise each in turn. */
final class Router implements Connection.Listener {
    /** Connections to the one address of single mode, so that one broken socket does not interrupt service. */
    private static final int SINGLE_CONNECTION_COUNT = 2;

    private final List<Connection> connections = new ArrayList<>();
    private final AtomicInteger turn = new AtomicInteger();
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition change = lock.newCondition();
    private volatile Connection leader;
    private volatile boolean refused;
    private volatile String lastFailure = "no answer yet; check the address, and that both sides use TLS or neither";

    Router(BrokerOptions options) {
        List<Endpoint> endpoints = options.endpoints();
        if (options.fingerprint() == null) {
            for (int index = 0; index < SINGLE_CONNECTION_COUNT; index++) {
                connections.add(new Connection(endpoints.get(0), Handshake.Expected.single(), 0, options, this));
            }
        } else {
            for (int slot = 0; slot < endpoints.size(); slot++) {
                Handshake.Expected expected = new Handshake.Expected(slot, options.fingerprint());
                connections.add(new Connection(endpoints.get(slot), expected, endpoints.size(), options, this));
            }
        }
        connections.forEach(Connection::start);
    }

    /** A usable connection, another than the avoided ones if there is one; {@code null} when none is usable. */
    Connection choose(Set<Connection> avoided) {
        Connection known = leader;
        if (known != null && known.usable() && !avoided.contains(known)) {
            return known;
        }
        int count = connections.size();
        int start = Math.floorMod(turn.getAndIncrement(), count);
        Connection fallback = null;
        for (int step = 0; step < count; step++) {
            Connection connection = connections.get((start + step) % count);
            if (connection.usable()) {
                if (!avoided.contains(connection)) {
                    return connection;
                }
                fallback = connection;
            }
        }
        return fallback;
    }

    boolean anyUsable() {
        return connections.stream().anyMatch(Connection::usable);
    }

    /** Whether the last verdict that any connection got refused the token. */
    boolean refused() {
        return refused;
    }

    /** Why the latest session of any connection ended. */
    String lastFailure() {
        return lastFailure;
    }

    /** The connection's server has said that it does not lead. */
    void leadsNoMore(Connection connection) {
        if (leader == connection) {
            leader = null;
        }
    }

    /** Waits until a connection is usable; false when the time is over. */
    boolean awaitUsable(long nanos) throws InterruptedException {
        lock.lockInterruptibly();
        try {
            long left = nanos;
            while (!anyUsable()) {
                if (left <= 0) {
                    return false;
                }
                left = change.awaitNanos(left);
            }
            return true;
        } finally {
            lock.unlock();
        }
    }

    void close() {
        connections.forEach(Connection::close);
    }

    @Override
    public void changed(Connection connection) {
        if (!connection.usable()) {
            leadsNoMore(connection);
        }
        lock.lock();
        try {
            change.signalAll();
        } finally {
            lock.unlock();
        }
    }

    @Override
    public void failed(String reason) {
        lastFailure = reason;
    }

    @Override
    public void verdict(boolean refusal) {
        refused = refusal;
    }

    @Override
    public void leader(int slot) {
        leader = slot == Reply.NO_SLOT ? null : connections.get(slot);
    }
}
