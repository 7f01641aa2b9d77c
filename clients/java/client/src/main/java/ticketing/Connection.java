package ticketing;

import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;

/**
 * One address: connects, shakes hands, carries pipelined requests, and reconnects until closed. One thread reads and
 * runs the life cycle, one writes.
 */
final class Connection {
    private static final int READ_BUFFER_SIZE_BYTES = 16_384;

    /** Whom it tells. Called from its own threads, without its lock. */
    interface Listener {
        /** It became usable, or stopped being so. */
        void changed(Connection connection);

        /** A session ended with this failure; the next one may do better. */
        void failed(String reason);

        /** The server accepted or refused the token. */
        void verdict(boolean refusal);

        /** {@code M} or {@code L} named a leader; {@link Reply#NO_SLOT} for none. */
        void leader(int slot);
    }

    private final Endpoint endpoint;
    private final Handshake.Expected expected;
    private final int voterCount;
    private final BrokerOptions options;
    private final Listener listener;
    private final Thread reader;
    private final Thread writer;

    private final ReentrantLock lock = new ReentrantLock();
    private final Condition work = lock.newCondition();
    // Guarded by the lock.
    private final Map<Long, Request> sent = new HashMap<>();
    private ArrayDeque<Request> queue = new ArrayDeque<>();
    private long nextRequestId;
    private Socket socket;
    private OutputStream output;
    private boolean closing;

    private volatile boolean usable;
    private volatile long receivedAt;

    Connection(
            Endpoint endpoint, Handshake.Expected expected, int voterCount, BrokerOptions options, Listener listener) {
        this.endpoint = endpoint;
        this.expected = expected;
        this.voterCount = voterCount;
        this.options = options;
        this.listener = listener;
        String name = "ticketing-" + endpoint.host() + ":" + endpoint.port();
        this.reader = new Thread(this::run, name + "-reader");
        this.writer = new Thread(this::write, name + "-writer");
        reader.setDaemon(true);
        writer.setDaemon(true);
    }

    void start() {
        reader.start();
        writer.start();
    }

    /** Whether requests can be handed to it: the handshake is done and the socket is open. */
    boolean usable() {
        return usable;
    }

    /** When bytes last came from the server, by {@link System#nanoTime()}. */
    long receivedAt() {
        return receivedAt;
    }

    /** Hands it a request, which is told how it ends; at once as unsent when the connection is not usable. */
    void submit(Request request) {
        lock.lock();
        try {
            if (usable) {
                queue.add(request);
                work.signal();
                return;
            }
        } finally {
            lock.unlock();
        }
        request.settle(Request.End.UNSENT, null);
    }

    /** Ends the session; the reader reconnects. */
    void abort() {
        lock.lock();
        try {
            closeQuietly(socket);
        } finally {
            lock.unlock();
        }
    }

    /** Ends both threads and waits for them. */
    void close() {
        lock.lock();
        try {
            closing = true;
            closeQuietly(socket);
            work.signalAll();
        } finally {
            lock.unlock();
        }
        reader.interrupt();
        join(reader);
        join(writer);
    }

    // The reader.

    private void run() {
        long backoff = Limits.BACKOFF_MILLIS_MIN;
        while (!isClosing()) {
            Long usableSince = session();
            if (usableSince != null && System.nanoTime() - usableSince >= Limits.LONG_SESSION.toNanos()) {
                backoff = Limits.BACKOFF_MILLIS_MIN;
            }
            if (!sleep(backoff)) {
                break;
            }
            backoff = Math.min(backoff * 2, Limits.BACKOFF_MILLIS_MAX);
        }
    }

    /** One connection from connect to close; says since when it was usable, {@code null} for never. */
    private Long session() {
        Long usableSince = null;
        try (Socket plain = new Socket()) {
            hold(plain);
            plain.setTcpNoDelay(true);
            plain.setOption(StandardSocketOptions.SO_KEEPALIVE, true);
            plain.connect(new InetSocketAddress(endpoint.host(), endpoint.port()), Limits.CONNECT_MILLIS);
            long handshakeEnd = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(Limits.HANDSHAKE_MILLIS);
            Socket secured = secure(plain, handshakeEnd);
            shakeHands(secured, handshakeEnd);
            usableSince = System.nanoTime();
            serve(secured);
        } catch (Handshake.ProofRefused refusal) {
            listener.verdict(true);
        } catch (IOException | RuntimeException failure) {
            // Whatever ended the session, the next one may do better: a dead server never breaks the client.
            if (!isClosing()) {
                listener.failed(told(failure));
            }
        } finally {
            end();
        }
        return usableSince;
    }

    /** The failure in words, with the address it concerns; the type says it where the message alone would not. */
    private String told(Exception failure) {
        return endpoint.host() + ":" + endpoint.port() + ": " + failure;
    }

    private Socket secure(Socket plain, long handshakeEnd) throws IOException {
        TlsOptions tls = options.tls();
        if (tls == null) {
            return plain;
        }
        String name = tls.nameFor(endpoint);
        SSLSocket secured =
                (SSLSocket) tls.context().getSocketFactory().createSocket(plain, name, endpoint.port(), true);
        hold(secured);
        if (tls.verifiesName()) {
            // Without this line the platform checks the authority but accepts any host name.
            SSLParameters parameters = secured.getSSLParameters();
            parameters.setEndpointIdentificationAlgorithm("HTTPS");
            secured.setSSLParameters(parameters);
        }
        secured.setSoTimeout(millisUntil(handshakeEnd));
        secured.startHandshake();
        return secured;
    }

    private void shakeHands(Socket socket, long handshakeEnd) throws IOException {
        // A timer of its own, because a socket's read timeout starts anew with every byte.
        Thread watchdog = new Thread(() -> {
            if (sleep(millisUntil(handshakeEnd))) {
                closeQuietly(socket);
            }
        });
        watchdog.setDaemon(true);
        watchdog.start();
        try {
            DataInputStream in = new DataInputStream(socket.getInputStream());
            byte[] hello = new byte[Handshake.HELLO_SIZE];
            in.readFully(hello);
            socket.getOutputStream().write(Handshake.prove(hello, expected, options.token()));
            Handshake.checkVerdict(in.readUnsignedByte());
        } finally {
            watchdog.interrupt();
        }
        socket.setSoTimeout(0);
    }

    private void serve(Socket socket) throws IOException {
        InputStream in = socket.getInputStream();
        lock.lock();
        try {
            output = socket.getOutputStream();
            nextRequestId = 1;
            receivedAt = System.nanoTime();
            usable = !closing;
        } finally {
            lock.unlock();
        }
        listener.verdict(false);
        listener.changed(this);
        ByteBuffer buffer = ByteBuffer.allocate(READ_BUFFER_SIZE_BYTES);
        List<Answer> answers = new ArrayList<>();
        for (;;) {
            int count = in.read(buffer.array(), buffer.position(), buffer.remaining());
            if (count < 0) {
                return;
            }
            receivedAt = System.nanoTime();
            buffer.position(buffer.position() + count).flip();
            try {
                decode(buffer, answers);
            } finally {
                for (Answer answer : answers) {
                    answer.request.settle(Request.End.ANSWERED, answer.reply);
                }
                answers.clear();
            }
            buffer.compact();
        }
    }

    private record Answer(Request request, Reply reply) {}

    /** Finds the requests that the whole replies in the buffer answer. */
    private void decode(ByteBuffer buffer, List<Answer> answers) throws ProtocolFault {
        for (;;) {
            Reply reply = Frames.decode(buffer, voterCount);
            if (reply == null) {
                return;
            }
            if (reply.op() == 'L') {
                listener.leader(reply.detail());
                continue;
            }
            lock.lock();
            try {
                Request request = sent.get(reply.requestId());
                if (request == null || !reply.answers(request.kind)) {
                    throw new ProtocolFault("reply " + reply.op() + " fits no waiting request");
                }
                sent.remove(reply.requestId());
                answers.add(new Answer(request, reply));
            } finally {
                lock.unlock();
            }
            if (reply.op() == 'M') {
                listener.leader(reply.detail());
            }
        }
    }

    /** Tells everybody on board that the session is over. */
    private void end() {
        List<Request> lost;
        ArrayDeque<Request> unsent;
        lock.lock();
        try {
            usable = false;
            output = null;
            closeQuietly(socket);
            lost = new ArrayList<>(sent.values());
            sent.clear();
            unsent = queue;
            queue = new ArrayDeque<>();
        } finally {
            lock.unlock();
        }
        listener.changed(this);
        lost.forEach(request -> request.settle(Request.End.LOST, null));
        unsent.forEach(request -> request.settle(Request.End.UNSENT, null));
    }

    // The writer.

    private void write() {
        byte[] batch = new byte[2 * Limits.WRITE_BATCH_SIZE_BYTES];
        for (;;) {
            OutputStream target;
            int size;
            lock.lock();
            try {
                while (!closing && (queue.isEmpty() || output == null)) {
                    work.awaitUninterruptibly();
                }
                if (closing) {
                    return;
                }
                target = output;
                size = takeBatch(batch);
            } finally {
                lock.unlock();
            }
            if (size == 0) {
                continue;
            }
            try {
                target.write(batch, 0, size);
            } catch (IOException failure) {
                giveUp(target);
            }
        }
    }

    /** Takes no more requests for a stream that failed: those still queued have not left, and stay so. */
    private void giveUp(OutputStream failed) {
        lock.lock();
        try {
            if (output == failed) {
                output = null;
                usable = false;
                // The reader sees the end as well, and tells the requests.
                closeQuietly(socket);
            }
        } finally {
            lock.unlock();
        }
    }

    /** Marks queued requests as sent and puts their frames into the batch. */
    private int takeBatch(byte[] batch) {
        long now = System.nanoTime();
        int size = 0;
        while (size < Limits.WRITE_BATCH_SIZE_BYTES) {
            Request request = queue.poll();
            if (request == null) {
                break;
            }
            if (request.markSent(now)) {
                long requestId = nextRequestId++;
                sent.put(requestId, request);
                byte[] frame = request.frame(requestId, now);
                System.arraycopy(frame, 0, batch, size, frame.length);
                size += frame.length;
            }
        }
        return size;
    }

    // Small things.

    private void hold(Socket current) throws IOException {
        lock.lock();
        try {
            if (closing) {
                throw new IOException("closing");
            }
            socket = current;
        } finally {
            lock.unlock();
        }
    }

    private boolean isClosing() {
        lock.lock();
        try {
            return closing;
        } finally {
            lock.unlock();
        }
    }

    private static int millisUntil(long nanoTime) {
        return (int) Math.max(1, TimeUnit.NANOSECONDS.toMillis(nanoTime - System.nanoTime()));
    }

    /** False when interrupted. */
    private static boolean sleep(long millis) {
        try {
            Thread.sleep(millis);
            return true;
        } catch (InterruptedException interrupted) {
            return false;
        }
    }

    private static void join(Thread thread) {
        boolean interrupted = false;
        while (thread.isAlive()) {
            try {
                thread.join();
            } catch (InterruptedException again) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private static void closeQuietly(Socket socket) {
        try {
            if (socket != null) {
                socket.close();
            }
        } catch (IOException ignored) {
            // It is closed either way.
        }
    }
}
