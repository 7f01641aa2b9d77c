package ticketing;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.util.Objects;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;
import javax.net.ssl.X509ExtendedTrustManager;

/**
 * How connections are secured. Certificates and host names are verified, unless {@link #insecure()} was asked for by
 * name. TLS 1.2 and 1.3.
 */
public final class TlsOptions {
    private final SSLContext context;
    private final String serverName;
    private final boolean verifyName;

    private TlsOptions(SSLContext context, String serverName, boolean verifyName) {
        this.context = context;
        this.serverName = serverName;
        this.verifyName = verifyName;
    }

    /**
     * Trusts the certificate authorities that the Java platform trusts.
     *
     * @return the options
     */
    public static TlsOptions systemRoots() {
        return new TlsOptions(context(null), null, true);
    }

    /**
     * Trusts the certificate authorities of a file, and no others.
     *
     * @param pem one or more certificates in PEM form
     * @return the options
     * @throws TicketingException.InvalidInput when the file cannot be read or has no certificate
     */
    public static TlsOptions caFile(Path pem) {
        Objects.requireNonNull(pem, "pem");
        try (InputStream in = Files.newInputStream(pem)) {
            KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
            store.load(null, null);
            int count = 0;
            for (Certificate certificate : CertificateFactory.getInstance("X.509").generateCertificates(in)) {
                store.setCertificateEntry("ca-" + count++, certificate);
            }
            if (count == 0) {
                throw new TicketingException.InvalidInput("CA file " + pem + " holds no certificate");
            }
            TrustManagerFactory factory = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
            factory.init(store);
            return new TlsOptions(context(factory.getTrustManagers()), null, true);
        } catch (IOException | GeneralSecurityException cause) {
            throw new TicketingException.InvalidInput("CA file " + pem + ": " + cause.getMessage(), cause);
        }
    }

    /**
     * Accepts any certificate and any name: no protection against an attacker on the network. For tests only.
     *
     * @return the options
     */
    public static TlsOptions insecure() {
        return new TlsOptions(context(new TrustManager[] {new TrustAnything()}), null, false);
    }

    /**
     * Expects another name in the certificate than the host of the address.
     *
     * @param name a host name or address
     * @return the options with that name
     */
    public TlsOptions serverName(String name) {
        return new TlsOptions(context, Objects.requireNonNull(name, "name"), verifyName);
    }

    SSLContext context() {
        return context;
    }

    String nameFor(Endpoint endpoint) {
        return serverName != null ? serverName : endpoint.host();
    }

    boolean verifiesName() {
        return verifyName;
    }

    private static SSLContext context(TrustManager[] trust) {
        try {
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(null, trust, null);
            return context;
        } catch (GeneralSecurityException cause) {
            throw new TicketingException.InvalidInput("TLS is not available: " + cause.getMessage(), cause);
        }
    }

    /** The extended form, so that the platform adds no name check of its own. */
    private static final class TrustAnything extends X509ExtendedTrustManager {
        @Override
        public void checkClientTrusted(X509Certificate[] chain, String authType) {}

        @Override
        public void checkServerTrusted(X509Certificate[] chain, String authType) {}

        @Override
        public void checkClientTrusted(X509Certificate[] chain, String authType, java.net.Socket socket) {}

        @Override
        public void checkServerTrusted(X509Certificate[] chain, String authType, java.net.Socket socket) {}

        @Override
        public void checkClientTrusted(X509Certificate[] chain, String authType, SSLEngine engine) {}

        @Override
        public void checkServerTrusted(X509Certificate[] chain, String authType, SSLEngine engine) {}

        @Override
        public X509Certificate[] getAcceptedIssuers() {
            return new X509Certificate[0];
        }
    }
}
