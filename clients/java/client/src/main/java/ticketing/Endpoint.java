package ticketing;

import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * One server address.
 *
 * @param host name or address, IPv6 without brackets
 * @param port 1–65535
 */
record Endpoint(String host, int port) {
    private static final Pattern FORM = Pattern.compile("(?:\\[([0-9a-fA-F:.%]+)\\]|([^:\\s\\[\\]]+)):(\\d{1,5})");

    static Endpoint parse(String address) {
        Matcher match = FORM.matcher(address);
        if (match.matches()) {
            int port = Integer.parseInt(match.group(3));
            if (port >= 1 && port <= 65_535) {
                return new Endpoint(match.group(1) != null ? match.group(1) : match.group(2), port);
            }
        }
        throw new TicketingException.InvalidInput(
                "address \"" + address + "\": expected host:port, or [addr]:port for IPv6");
    }

    boolean isLoopback() {
        return host.equals("localhost") || host.equals("::1") || host.matches("127(\\.\\d{1,3}){3}");
    }
}
