package ticketing;

import java.util.List;
import java.util.concurrent.atomic.AtomicReference;

/** The life of one request on one connection: queued, sent, done. "Sent" begins before its first byte is handed to the socket. */
abstract class Request {
    /** How it ended. */
    enum End {
        ANSWERED,
        /** It may have been taken, and no answer will come. */
        LOST,
        /** No byte of it was handed to the socket: the server provably did not take it. */
        UNSENT
    }

    enum State {
        DONE,
        QUEUED,
        SENT
    }

    final RequestKind kind;
    final List<byte[]> keys;
    /** When its sending began, by {@link System#nanoTime()}. Written before the state becomes SENT. */
    private long sentAt;

    private final AtomicReference<State> state = new AtomicReference<>(State.QUEUED);

    Request(RequestKind kind, List<byte[]> keys) {
        this.kind = kind;
        this.keys = keys;
    }

    /** The frame, made at the moment of sending. */
    abstract byte[] frame(long requestId, long now);

    /** Told once. The reply is there only when it was answered. */
    protected abstract void ended(End end, Reply reply);

    /** Called by the connection right before the bytes go out; false when it was withdrawn. */
    final boolean markSent(long now) {
        sentAt = now;
        return state.compareAndSet(State.QUEUED, State.SENT);
    }

    /** Takes it back; true when no byte of it was or will be sent. Its end is then not told. */
    final boolean withdraw() {
        return state.compareAndSet(State.QUEUED, State.DONE);
    }

    final void settle(End end, Reply reply) {
        if (state.getAndSet(State.DONE) != State.DONE) {
            ended(end, reply);
        }
    }

    final State state() {
        return state.get();
    }

    final long sentAt() {
        return sentAt;
    }
}
