package ticketing;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Objects;
import java.util.TreeSet;

/** The key rule and the key-set rule: the same checks as the server's, before anything is sent. */
final class Keys {
    private Keys() {}

    /** The key's bytes, checked. */
    static byte[] checked(String key) {
        byte[] bytes = utf8(Objects.requireNonNull(key, "key"));
        if (bytes.length < 1 || bytes.length > Limits.KEY_SIZE_BYTES_MAX) {
            throw new TicketingException.InvalidInput(
                    "a key has 1 to " + Limits.KEY_SIZE_BYTES_MAX + " bytes of UTF-8; this one has " + bytes.length);
        }
        for (byte b : bytes) {
            if (b == ' ' || b == '\n' || b == '\r') {
                throw new TicketingException.InvalidInput(
                        "a key must not contain a space, LF or CR; replace them, for example by '-'");
            }
        }
        return bytes;
    }

    /** A set's keys as the wire wants them: checked, ascending bytewise, without duplicates. */
    static List<byte[]> checkedSet(Collection<String> keys) {
        TreeSet<byte[]> sorted = new TreeSet<>(Arrays::compareUnsigned);
        for (String key : Objects.requireNonNull(keys, "keys")) {
            sorted.add(checked(Objects.requireNonNull(key, "an element of keys")));
        }
        if (sorted.isEmpty() || sorted.size() > Limits.SET_KEY_COUNT_MAX) {
            throw new TicketingException.InvalidInput("a key set has 1 to " + Limits.SET_KEY_COUNT_MAX
                    + " different keys; this one has " + sorted.size());
        }
        return List.copyOf(sorted);
    }

    private static byte[] utf8(String key) {
        try {
            // An encoder of one's own reports lone surrogates; String.getBytes would replace them.
            ByteBuffer encoded = StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(key));
            return Arrays.copyOf(encoded.array(), encoded.limit());
        } catch (CharacterCodingException cause) {
            throw new TicketingException.InvalidInput("a key must be valid Unicode; this one has a lone surrogate", cause);
        }
    }
}
