package ticketing;

import java.nio.ByteBuffer;
import java.util.List;

/** Client wire protocol, version 3: requests to bytes, bytes to replies. No I/O. */
final class Frames {
    static final int HEAD_SIZE = 3;
    private static final int ACQUIRE_FIXED_SIZE = 10;
    private static final int RELEASE_FIXED_SIZE = 16;

    private Frames() {}

    /** {@code A} for one key, {@code S} for a set. Keys are checked and ascending. */
    static byte[] acquire(long requestId, int waitSeconds, int leaseSeconds, List<byte[]> keys) {
        RequestKind kind = keys.size() == 1 ? RequestKind.ACQUIRE : RequestKind.ACQUIRE_SET;
        ByteBuffer frame = begin(kind, ACQUIRE_FIXED_SIZE, requestId, keys);
        frame.put((byte) waitSeconds).put((byte) leaseSeconds);
        return finish(frame, keys);
    }

    /** {@code R} for one key, {@code G} for a set. Keys are checked and ascending. */
    static byte[] release(long requestId, long token, List<byte[]> keys) {
        RequestKind kind = keys.size() == 1 ? RequestKind.RELEASE : RequestKind.RELEASE_SET;
        ByteBuffer frame = begin(kind, RELEASE_FIXED_SIZE, requestId, keys);
        frame.putLong(token);
        return finish(frame, keys);
    }

    private static ByteBuffer begin(RequestKind kind, int fixedSize, long requestId, List<byte[]> keys) {
        int bodySize = fixedSize;
        if (keys.size() == 1) {
            bodySize += keys.get(0).length;
        } else {
            bodySize += 1;
            for (byte[] key : keys) {
                bodySize += 1 + key.length;
            }
        }
        return ByteBuffer.allocate(HEAD_SIZE + bodySize)
                .put(kind.opcode)
                .putShort((short) bodySize)
                .putLong(requestId);
    }

    private static byte[] finish(ByteBuffer frame, List<byte[]> keys) {
        if (keys.size() == 1) {
            frame.put(keys.get(0));
        } else {
            frame.put((byte) keys.size());
            for (byte[] key : keys) {
                frame.put((byte) key.length).put(key);
            }
        }
        return frame.array();
    }

    /**
     * Decodes the reply at the buffer's position and moves past it.
     *
     * @param voterCount the number of slots; 0 in single mode
     * @return {@code null} when it is not whole yet; the position is unchanged then
     */
    static Reply decode(ByteBuffer bytes, int voterCount) throws ProtocolFault {
        if (!bytes.hasRemaining()) {
            return null;
        }
        int start = bytes.position();
        char op = (char) (bytes.get(start) & 0xff);
        int bodySize = bodySize(op);
        if (bodySize < 0) {
            throw new ProtocolFault("unknown reply opcode " + (int) op);
        }
        if (op == 'L' && voterCount == 0) {
            throw new ProtocolFault("leader announcement in single mode");
        }
        if (bytes.remaining() < HEAD_SIZE) {
            return null;
        }
        if ((bytes.getShort(start + 1) & 0xffff) != bodySize) {
            throw new ProtocolFault("reply " + op + " with a wrong body length");
        }
        if (bytes.remaining() < HEAD_SIZE + bodySize) {
            return null;
        }
        bytes.position(start + HEAD_SIZE);
        return body(op, bytes, voterCount);
    }

    private static int bodySize(char op) {
        return switch (op) {
            case 'A', 'S' -> 16;
            case 'M', 'E' -> 9;
            case 'R', 'G', 'N', 'T', 'B', 'I' -> 8;
            case 'L' -> 1;
            default -> -1;
        };
    }

    private static Reply body(char op, ByteBuffer body, int voterCount) throws ProtocolFault {
        if (op == 'L') {
            return new Reply(op, 0, 0, slot(body, voterCount));
        }
        long requestId = body.getLong();
        if (requestId == 0) {
            throw new ProtocolFault("reply to request id 0");
        }
        switch (op) {
            case 'A', 'S' -> {
                long token = body.getLong();
                if (token == 0) {
                    throw new ProtocolFault("grant with token 0");
                }
                return new Reply(op, requestId, token, 0);
            }
            case 'M' -> {
                return new Reply(op, requestId, 0, slot(body, voterCount));
            }
            case 'E' -> {
                int code = body.get() & 0xff;
                if (code < 1 || code > Reply.CODE_MAX) {
                    throw new ProtocolFault("unknown error code " + code);
                }
                return new Reply(op, requestId, 0, code);
            }
            default -> {
                return new Reply(op, requestId, 0, 0);
            }
        }
    }

    private static int slot(ByteBuffer body, int voterCount) throws ProtocolFault {
        int slot = body.get() & 0xff;
        if (slot != Reply.NO_SLOT && slot >= voterCount) {
            throw new ProtocolFault("slot " + slot + " outside the cluster");
        }
        return slot;
    }
}
