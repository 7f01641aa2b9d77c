package ticketing;

import java.io.DataInputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.SecureRandom;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** A scripted server: does the handshake, hands every request to the test, and sends what the test says. */
final class ScriptedServer implements AutoCloseable {
    final List<Peer> peers = new CopyOnWriteArrayList<>();
    final List<Received> requests = new CopyOnWriteArrayList<>();

    private final ServerSocket listener;
    private final int slot;
    private final byte[] fingerprint;
    private final String token;
    private volatile Consumer<Received> onRequest;

    /** One accepted client. */
    record Peer(Socket socket, int index) {
        void reply(char op, long requestId, byte... rest) {
            ByteBuffer frame = ByteBuffer.allocate(11 + rest.length);
            frame.put((byte) op).putShort((short) (8 + rest.length)).putLong(requestId).put(rest);
            try {
                socket.getOutputStream().write(frame.array());
            } catch (IOException gone) {
                // The client has closed: nothing to answer.
            }
        }

        void grant(Received request, long token) {
            reply(request.op, request.requestId, ByteBuffer.allocate(8).putLong(token).array());
        }

        void cut() {
            try {
                socket.close();
            } catch (IOException ignored) {
                // It is closed either way.
            }
        }
    }

    /** One request frame; the token is that of {@code R} and {@code G}. */
    record Received(Peer peer, char op, long requestId, long token, byte[] body) {}

    ScriptedServer(ServerSocket listener, int slot, byte[] fingerprint, String token, Consumer<Received> onRequest) {
        this.listener = listener;
        this.slot = slot;
        this.fingerprint = fingerprint;
        this.token = token;
        this.onRequest = onRequest;
        Thread acceptor = new Thread(this::accept);
        acceptor.setDaemon(true);
        acceptor.start();
    }

    static ScriptedServer single(Consumer<Received> onRequest) throws Exception {
        return new ScriptedServer(socket(0), 255, singleFingerprint(), "", onRequest);
    }

    static ServerSocket socket(int port) throws IOException {
        return new ServerSocket(port, 50, InetAddress.getLoopbackAddress());
    }

    static byte[] singleFingerprint() throws Exception {
        return MessageDigest.getInstance("SHA-256").digest("ticketing/single/v3".getBytes(StandardCharsets.US_ASCII));
    }

    /** Grants every acquire with a rising token, and confirms every release. */
    static Consumer<Received> friendly() {
        java.util.concurrent.atomic.AtomicLong next = new java.util.concurrent.atomic.AtomicLong();
        return request -> {
            if (request.op() == 'A' || request.op() == 'S') {
                request.peer().grant(request, next.incrementAndGet());
            } else {
                request.peer().reply(request.op(), request.requestId());
            }
        };
    }

    static void until(BooleanSupplier condition, String what) {
        long end = System.nanoTime() + 5_000_000_000L;
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() > end) {
                throw new AssertionError("never happened: " + what);
            }
            Thread.onSpinWait();
            Thread.yield();
        }
    }

    void script(Consumer<Received> script) {
        onRequest = script;
    }

    int port() {
        return listener.getLocalPort();
    }

    String address() {
        return "127.0.0.1:" + port();
    }

    @Override
    public void close() throws IOException {
        listener.close();
        peers.forEach(Peer::cut);
    }

    private void accept() {
        try {
            while (true) {
                Peer peer = new Peer(listener.accept(), peers.size());
                peers.add(peer);
                Thread server = new Thread(() -> serve(peer));
                server.setDaemon(true);
                server.start();
            }
        } catch (IOException closed) {
            // The test is over.
        }
    }

    private void serve(Peer peer) {
        try (Socket socket = peer.socket()) {
            DataInputStream in = new DataInputStream(socket.getInputStream());
            byte[] nonce = new byte[16];
            new SecureRandom().nextBytes(nonce);
            byte mode = (byte) (slot == 255 ? 0 : 1);
            ByteBuffer hello = ByteBuffer.allocate(28).put("TCKCLI3\0".getBytes(StandardCharsets.US_ASCII));
            hello.putShort((short) 3).put(mode).put((byte) slot).put(nonce);
            socket.getOutputStream().write(hello.array());
            byte[] proof = new byte[32];
            in.readFully(proof);
            boolean accepted = Arrays.equals(proof, proof(mode, nonce));
            socket.getOutputStream().write(accepted ? 1 : 0);
            while (accepted) {
                char op = (char) in.readUnsignedByte();
                byte[] body = new byte[in.readUnsignedShort()];
                in.readFully(body);
                ByteBuffer fields = ByteBuffer.wrap(body);
                long requestId = fields.getLong();
                long token = op == 'R' || op == 'G' ? fields.getLong() : 0;
                Received request = new Received(peer, op, requestId, token, body);
                requests.add(request);
                onRequest.accept(request);
            }
        } catch (Exception ended) {
            // The client has gone, or the test has cut.
        }
    }

    private byte[] proof(byte mode, byte[] nonce) throws Exception {
        ByteBuffer message = ByteBuffer.allocate(68).put("TCK/CLIENT/AUTH3".getBytes(StandardCharsets.US_ASCII));
        message.putShort((short) 3).put(mode).put(fingerprint).put((byte) slot).put(nonce);
        Mac mac = Mac.getInstance("HmacSHA256");
        // A zero byte is padded like the empty key, which SecretKeySpec refuses.
        byte[] key = token.isEmpty() ? new byte[1] : token.getBytes(StandardCharsets.UTF_8);
        mac.init(new SecretKeySpec(key, "HmacSHA256"));
        return mac.doFinal(message.array());
    }
}
