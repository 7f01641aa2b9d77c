package ticketing;

/**
 * One reply frame.
 *
 * @param op the opcode
 * @param requestId the request answered; 0 for {@code L}, which answers none
 * @param token the grant's token, for {@code A} and {@code S}
 * @param detail the slot of {@code M} and {@code L} (255: none), the code of {@code E}; else 0
 */
record Reply(char op, long requestId, long token, int detail) {
    static final int NO_SLOT = 255;
    static final int CODE_NOT_ACTIVE = 3;
    static final int CODE_NO_LEADER = 4;
    static final int CODE_MAX = 7;

    private static final String[] CODE_ANSWERS = {"", "ARSG", "AS", "ARSG", "ARSG", "SG", "RG", "RG"};

    /** Whether it may answer a request of that kind. */
    boolean answers(RequestKind kind) {
        String kinds = switch (op) {
            case 'A', 'S', 'R', 'G' -> String.valueOf(op);
            case 'N' -> "RG";
            case 'T', 'B' -> "AS";
            case 'M', 'I' -> "ARSG";
            case 'E' -> CODE_ANSWERS[detail];
            default -> "";
        };
        return kinds.indexOf(kind.opcode) >= 0;
    }

    /** Whether nothing was done because this node does not lead: the request may go elsewhere. */
    boolean leaderless() {
        return op == 'M' || op == 'E' && (detail == CODE_NOT_ACTIVE || detail == CODE_NO_LEADER);
    }

    boolean grants() {
        return op == 'A' || op == 'S';
    }
}
