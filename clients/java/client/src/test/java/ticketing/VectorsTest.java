package ticketing;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.io.Reader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** The golden vectors: the same bytes as every other client and the server. */
class VectorsTest {
    private static final Path DIRECTORY = Path.of("..", "..", "..", "vectors");

    @TestFactory
    Stream<DynamicTest> everyCaseThatAClientCanGetWrong() throws IOException {
        List<DynamicTest> tests = new ArrayList<>();
        try (Stream<Path> files = Files.list(DIRECTORY)) {
            for (Path file : files.filter(f -> f.toString().endsWith(".json")).sorted().toList()) {
                try (Reader reader = Files.newBufferedReader(file)) {
                    JsonObject topic = JsonParser.parseReader(reader).getAsJsonObject();
                    List<JsonElement> cases = topic.getAsJsonArray("cases").asList();
                    assertEquals(topic.get("case_count").getAsInt(), cases.size());
                    for (JsonElement one : cases) {
                        JsonObject vector = one.getAsJsonObject();
                        if (!isAClients(vector)) {
                            continue;
                        }
                        tests.add(DynamicTest.dynamicTest(text(vector, "id"), () -> check(vector)));
                    }
                }
            }
        }
        assertTrue(tests.size() >= 300, "too few cases: " + tests.size());
        return tests.stream();
    }

    /**
     * Not a client's: proofs that the server must refuse, and requests that this API cannot express (it has no way to
     * send a broken frame, an unchecked lease or token, or an unsorted set). Single bad keys in valid UTF-8 remain.
     */
    private static boolean isAClients(JsonObject vector) {
        if (text(vector, "expect").equals("ok")) {
            return true;
        }
        return switch (text(vector, "direction")) {
            case "proof" -> false;
            case "request" -> vector.has("fields")
                    && vector.getAsJsonObject("fields").has("key_hex")
                    && text(vector, "code").equals("1")
                    && !key(vector).contains("\ufffd");
            default -> true;
        };
    }

    private static String key(JsonObject vector) {
        return new String(hex(vector.getAsJsonObject("fields"), "key_hex"), StandardCharsets.UTF_8);
    }

    private static void check(JsonObject vector) throws Exception {
        boolean ok = text(vector, "expect").equals("ok");
        switch (text(vector, "direction")) {
            case "request" -> {
                if (ok) {
                    assertArrayEquals(hex(vector, "hex"), encode(vector.getAsJsonObject("fields")));
                } else {
                    assertThrows(TicketingException.InvalidInput.class, () -> Keys.checked(key(vector)));
                }
            }
            case "reply" -> checkReply(vector, ok);
            case "hello" -> checkHello(vector, ok);
            case "proof" -> checkProof(vector);
            case "result" -> assertThrows(IOException.class, () -> Handshake.checkVerdict(hex(vector, "hex")[0] & 0xff));
            default -> throw new AssertionError("unknown direction");
        }
    }

    private static byte[] encode(JsonObject fields) {
        List<byte[]> keys = keys(fields);
        long requestId = u64(fields, "request_id");
        char op = text(fields, "op").charAt(0);
        return op == 'A' || op == 'S'
                ? Frames.acquire(requestId, (int) u64(fields, "wait"), (int) u64(fields, "lease"), keys)
                : Frames.release(requestId, u64(fields, "token"), keys);
    }

    private static List<byte[]> keys(JsonObject fields) {
        return fields.has("key_hex")
                ? List.of(hex(fields, "key_hex"))
                : fields.getAsJsonArray("keys_hex").asList().stream()
                        .map(key -> HexFormat.of().parseHex(key.getAsString()))
                        .toList();
    }

    private static void checkReply(JsonObject vector, boolean ok) throws Exception {
        byte[] bytes = hex(vector, "hex");
        int voters = vector.get("voter_count").getAsInt();
        if (ok) {
            assertEquals(expected(vector.getAsJsonObject("fields")), Frames.decode(ByteBuffer.wrap(bytes), voters));
            for (int cut = 0; cut < bytes.length; cut++) {
                ByteBuffer part = ByteBuffer.wrap(bytes, 0, cut);
                assertNull(Frames.decode(part, voters));
                assertEquals(0, part.position());
            }
        } else if (text(vector, "layer").equals("correlation")) {
            assertTrue(uncorrelated(vector, ByteBuffer.wrap(bytes), voters));
        } else {
            assertThrows(ProtocolFault.class, () -> {
                ByteBuffer buffer = ByteBuffer.wrap(bytes);
                while (Frames.decode(buffer, voters) != null) {
                    assertTrue(buffer.position() <= bytes.length);
                }
            });
        }
    }

    private static Reply expected(JsonObject fields) {
        int detail = fields.has("slot") ? (int) u64(fields, "slot") : fields.has("code") ? (int) u64(fields, "code") : 0;
        long requestId = fields.has("request_id") ? u64(fields, "request_id") : 0;
        long token = fields.has("token") ? u64(fields, "token") : 0;
        return new Reply(text(fields, "op").charAt(0), requestId, token, detail);
    }

    private static boolean uncorrelated(JsonObject vector, ByteBuffer bytes, int voters) throws Exception {
        Map<Long, RequestKind> waiting = new HashMap<>();
        if (vector.has("requests_hex")) {
            for (JsonElement request : vector.getAsJsonArray("requests_hex")) {
                ByteBuffer frame = ByteBuffer.wrap(HexFormat.of().parseHex(request.getAsString()));
                for (RequestKind kind : RequestKind.values()) {
                    if (kind.opcode == frame.get(0)) {
                        waiting.put(frame.getLong(Frames.HEAD_SIZE), kind);
                    }
                }
            }
        }
        for (Reply reply = Frames.decode(bytes, voters); reply != null; reply = Frames.decode(bytes, voters)) {
            RequestKind kind = waiting.remove(reply.requestId());
            if (kind == null || !reply.answers(kind)) {
                return true;
            }
        }
        return false;
    }

    private static void checkHello(JsonObject vector, boolean ok) throws Exception {
        Handshake.Expected expected = text(vector, "mode").equals("single")
                ? Handshake.Expected.single()
                : new Handshake.Expected(vector.get("expected_slot").getAsInt(), new byte[32]);
        byte[] hello = hex(vector, "hex");
        if (ok) {
            assertEquals(32, Handshake.prove(hello, expected, new byte[0]).length);
        } else {
            assertThrows(ProtocolFault.class, () -> Handshake.prove(hello, expected, new byte[0]));
        }
    }

    private static void checkProof(JsonObject vector) throws Exception {
        JsonObject fields = vector.getAsJsonObject("fields");
        byte mode = (byte) (text(vector, "mode").equals("single") ? 0 : 1);
        int slot = (int) u64(fields, "slot");
        ByteBuffer hello = ByteBuffer.allocate(Handshake.HELLO_SIZE)
                .put("TCKCLI3\0".getBytes(StandardCharsets.US_ASCII))
                .putShort((short) u64(fields, "version"))
                .put(mode)
                .put((byte) slot)
                .put(hex(fields, "nonce_hex"));
        Handshake.Expected expected = new Handshake.Expected(slot, hex(fields, "fingerprint_hex"));
        byte[] proof = Handshake.prove(hello.array(), expected, hex(fields, "token_hex"));
        assertArrayEquals(hex(vector, "hex"), proof);
    }

    private static String text(JsonObject object, String name) {
        return object.get(name).getAsString();
    }

    private static long u64(JsonObject object, String name) {
        return Long.parseUnsignedLong(text(object, name));
    }

    private static byte[] hex(JsonObject object, String name) {
        return HexFormat.of().parseHex(text(object, name));
    }
}
