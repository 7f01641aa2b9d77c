package ticketing;

import java.io.IOException;

/** The peer broke the protocol; the session ends. */
final class ProtocolFault extends IOException {
    private static final long serialVersionUID = 1L;

    ProtocolFault(String message) {
        super(message);
    }
}
