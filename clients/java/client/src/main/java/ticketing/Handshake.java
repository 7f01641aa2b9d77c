package ticketing;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.Arrays;
import javax.crypto.Mac;
import javax.crypto.SecretKey;

/** Hello, proof and verdict, as the client sees them. Protocol, "Connection". No I/O. */
final class Handshake {
    static final int HELLO_SIZE = 28;
    static final int SINGLE_SLOT = 255;

    private static final byte[] MAGIC = "TCKCLI3\0".getBytes(StandardCharsets.US_ASCII);
    private static final byte[] PROOF_DOMAIN = "TCK/CLIENT/AUTH3".getBytes(StandardCharsets.US_ASCII);
    private static final short VERSION = 3;
    private static final int NONCE_OFFSET = 12;

    private Handshake() {}

    /** The server refused the token. */
    static final class ProofRefused extends java.io.IOException {
        private static final long serialVersionUID = 1L;

        ProofRefused() {
            super("the server refused the token");
        }
    }

    /**
     * Whom the client expects to find.
     *
     * @param slot the slot of that address, 255 in single mode
     * @param fingerprint the identity under the proof
     */
    record Expected(int slot, byte[] fingerprint) {
        static Expected single() {
            return new Expected(SINGLE_SLOT, sha256("ticketing/single/v3"));
        }

        byte mode() {
            return (byte) (slot == SINGLE_SLOT ? 0 : 1);
        }
    }

    /** Checks the hello against what is expected, and answers it with the proof. */
    static byte[] prove(byte[] hello, Expected expected, byte[] token) throws ProtocolFault {
        if (hello.length != HELLO_SIZE || !Arrays.equals(hello, 0, MAGIC.length, MAGIC, 0, MAGIC.length)) {
            throw new ProtocolFault("not a Ticketing server (wrong magic)");
        }
        ByteBuffer fields = ByteBuffer.wrap(hello, MAGIC.length, NONCE_OFFSET - MAGIC.length);
        short version = fields.getShort();
        if (version != VERSION) {
            throw new ProtocolFault("the server speaks wire version " + version + ", this client " + VERSION);
        }
        if (fields.get() != expected.mode()) {
            throw new ProtocolFault("the server runs in the other mode (single or cluster)");
        }
        int slot = fields.get() & 0xff;
        if (slot != expected.slot()) {
            throw new ProtocolFault("the server is slot " + slot + ", expected " + expected.slot()
                    + ": check the order of the addresses");
        }
        ByteBuffer message = ByteBuffer.allocate(PROOF_DOMAIN.length + 2 + 1 + 32 + 1 + 16)
                .put(PROOF_DOMAIN)
                .putShort(VERSION)
                .put(expected.mode())
                .put(expected.fingerprint())
                .put((byte) slot)
                .put(hello, NONCE_OFFSET, HELLO_SIZE - NONCE_OFFSET);
        return hmac(token, message.array());
    }

    static void checkVerdict(int verdict) throws java.io.IOException {
        if (verdict == 0) {
            throw new ProofRefused();
        }
        if (verdict != 1) {
            throw new ProtocolFault("handshake result " + verdict + ", expected 0 or 1");
        }
    }

    private static byte[] hmac(byte[] token, byte[] message) {
        try {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new HmacKey(token));
            return mac.doFinal(message);
        } catch (GeneralSecurityException impossible) {
            throw new IllegalStateException("every Java platform has HmacSHA256", impossible);
        }
    }

    private static byte[] sha256(String text) {
        try {
            return MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.US_ASCII));
        } catch (GeneralSecurityException impossible) {
            throw new IllegalStateException("every Java platform has SHA-256", impossible);
        }
    }

    /** A key of any length: {@code SecretKeySpec} refuses the empty one of the no-auth mode. */
    private record HmacKey(byte[] bytes) implements SecretKey {
        @Override
        public String getAlgorithm() {
            return "HmacSHA256";
        }

        @Override
        public String getFormat() {
            return "RAW";
        }

        @Override
        public byte[] getEncoded() {
            return bytes.clone();
        }

        @Override
        public String toString() {
            return "HmacKey";
        }
    }
}
