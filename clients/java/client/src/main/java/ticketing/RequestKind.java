package ticketing;

/** The four requests of the protocol. */
enum RequestKind {
    ACQUIRE('A'),
    ACQUIRE_SET('S'),
    RELEASE('R'),
    RELEASE_SET('G');

    final byte opcode;

    RequestKind(char opcode) {
        this.opcode = (byte) opcode;
    }
}
