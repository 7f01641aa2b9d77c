package ticketing;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.InputStream;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLServerSocket;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The right authority is accepted over TLS 1.2 and 1.3; another authority and another host name are refused. */
@Timeout(60)
class TlsTest {
    private static final char[] PASSWORD = "changeit".toCharArray();
    private static final Duration ENOUGH = Duration.ofMillis(1500);

    @TempDir
    static Path directory;

    private static SSLContext server;

    @BeforeAll
    static void makeCertificates() throws Exception {
        for (String ca : List.of("ca", "other")) {
            keytool("-genkeypair", "-alias", ca, "-dname", "CN=" + ca, "-ext", "bc:c");
            keytool("-exportcert", "-rfc", "-alias", ca, "-file", ca + ".pem");
        }
        keytool("-genkeypair", "-alias", "leaf", "-dname", "CN=leaf");
        keytool("-certreq", "-alias", "leaf", "-file", "leaf.csr");
        String names = "san=dns:locks.test,ip:127.0.0.1";
        keytool("-gencert", "-rfc", "-alias", "ca", "-ext", names, "-infile", "leaf.csr", "-outfile", "leaf.pem");
        keytool("-importcert", "-noprompt", "-alias", "leaf", "-file", "leaf.pem");
        KeyStore store = KeyStore.getInstance("PKCS12");
        try (InputStream in = Files.newInputStream(directory.resolve("store"))) {
            store.load(in, PASSWORD);
        }
        KeyStore leaf = KeyStore.getInstance("PKCS12");
        leaf.load(null, null);
        leaf.setKeyEntry("leaf", store.getKey("leaf", PASSWORD), PASSWORD, store.getCertificateChain("leaf"));
        KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        keys.init(leaf, PASSWORD);
        server = SSLContext.getInstance("TLS");
        server.init(keys.getKeyManagers(), null, null);
    }

    private static void keytool(String... arguments) throws Exception {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "keytool").toString());
        command.addAll(List.of(arguments));
        command.addAll(List.of("-keystore", "store", "-storetype", "PKCS12", "-storepass", new String(PASSWORD)));
        if (arguments[0].equals("-genkeypair")) {
            command.addAll(List.of("-keyalg", "EC", "-groupname", "secp256r1", "-validity", "2"));
        }
        Process process = new ProcessBuilder(command)
                .directory(directory.toFile())
                .redirectErrorStream(true)
                .start();
        String output = new String(process.getInputStream().readAllBytes());
        assertEquals(0, process.waitFor(), output);
    }

    /** "ok", or the error's name. */
    private static String attempt(TlsOptions tls, String version) throws Exception {
        SSLServerSocket listener = (SSLServerSocket)
                server.getServerSocketFactory().createServerSocket(0, 50, InetAddress.getLoopbackAddress());
        listener.setEnabledProtocols(new String[] {version});
        byte[] fingerprint = ScriptedServer.singleFingerprint();
        try (ScriptedServer scripted =
                        new ScriptedServer(listener, 255, fingerprint, "", ScriptedServer.friendly());
                Broker broker = Broker.connect(BrokerOptions.single(scripted.address()).withTls(tls))) {
            broker.awaitReady(ENOUGH);
            broker.acquire("k", AcquireOptions.of(Duration.ofSeconds(5), Duration.ofSeconds(30))).close();
            return "ok";
        } catch (TicketingException failure) {
            return failure.code().toString();
        }
    }

    private static TlsOptions authority(String name) {
        return TlsOptions.caFile(directory.resolve(name + ".pem"));
    }

    @ParameterizedTest
    @ValueSource(strings = {"TLSv1.2", "TLSv1.3"})
    void theRightAuthorityIsAcceptedByAddressAndByName(String version) throws Exception {
        assertEquals("ok", attempt(authority("ca"), version));
        assertEquals("ok", attempt(authority("ca").serverName("locks.test"), version));
    }

    @ParameterizedTest
    @ValueSource(strings = {"TLSv1.2", "TLSv1.3"})
    void anotherAuthorityIsRefused(String version) throws Exception {
        assertEquals("NotConnected", attempt(authority("other"), version));
        assertEquals("NotConnected", attempt(TlsOptions.systemRoots(), version));
    }

    @ParameterizedTest
    @ValueSource(strings = {"TLSv1.2", "TLSv1.3"})
    void anotherHostNameIsRefused(String version) throws Exception {
        assertEquals("NotConnected", attempt(authority("ca").serverName("elsewhere.test"), version));
    }

    @ParameterizedTest
    @ValueSource(strings = {"TLSv1.2", "TLSv1.3"})
    void insecureAcceptsAnythingWhenAskedFor(String version) throws Exception {
        assertEquals("ok", attempt(TlsOptions.insecure(), version));
        assertEquals("ok", attempt(TlsOptions.insecure().serverName("elsewhere.test"), version));
    }
}
