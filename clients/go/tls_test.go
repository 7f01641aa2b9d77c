package ticketing

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// authority is a CA made for one test, with a server certificate for localhost and 127.0.0.1.
type authority struct {
	file   string
	server tls.Certificate
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	caKey, ca := certify(t, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}, nil, nil)
	key, leaf := certify(t, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "server"},
		NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, ca, caKey)
	file := filepath.Join(t.TempDir(), "ca.pem")
	data := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw})
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return authority{file, tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key}}
}

// certify signs a certificate with its issuer's key, or with its own when it has no issuer.
func certify(t *testing.T, template, issuer *x509.Certificate, issuerKey *ecdsa.PrivateKey) (*ecdsa.PrivateKey, *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if issuer == nil {
		issuer, issuerKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, &key.PublicKey, issuerKey)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return key, certificate
}

func trust(t *testing.T, a authority) *tls.Config {
	t.Helper()
	config, err := TrustCAFile(a.file)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func acceptsOver(t *testing.T, version uint16) {
	t.Helper()
	own := newAuthority(t)
	s := listen(t)
	s.tls = &tls.Config{
		Certificates: []tls.Certificate{own.server}, MinVersion: version, MaxVersion: version,
	}
	broker := open(t, s, WithTLS(trust(t, own)))
	first, _ := s.accept(), s.accept()
	waitUsable(t, broker, 2)
	if got := first.Conn.(*tls.Conn).ConnectionState().Version; got != version {
		t.Fatalf("TLS version %x", got)
	}
}

func TestTLS12(t *testing.T) { acceptsOver(t, tls.VersionTLS12) }

func TestTLS13(t *testing.T) { acceptsOver(t, tls.VersionTLS13) }

// refuses opens a broker that must not accept the server's certificate and returns why.
func refuses(t *testing.T, server authority, config *tls.Config) error {
	t.Helper()
	s := listen(t)
	hasty := fast
	hasty.backoffMin, hasty.backoffMax = time.Hour, time.Hour
	broker := open(t, s, withTiming(hasty), WithTLS(config))
	for i := 0; i < connectionsSingle; i++ {
		conn, err := s.listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		served := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{server.server}})
		if served.Handshake() == nil {
			// In TLS 1.3 the client's alert comes after the server's last message.
			if _, err := served.Read(make([]byte, 1)); err == nil {
				t.Fatal("the client went on")
			}
		}
	}
	broker.Close()
	if broker.choose(nil) != nil {
		t.Fatal("a connection is usable")
	}
	err := broker.unreachable()
	expect(t, err, ErrNotConnected)
	if !strings.Contains(err.Error(), s.address()+": TLS handshake: ") {
		t.Fatalf("%v does not say where it went wrong", err)
	}
	return err
}

func TestWrongCAIsRefused(t *testing.T) {
	err := refuses(t, newAuthority(t), trust(t, newAuthority(t)))
	var unknown x509.UnknownAuthorityError
	if !errors.As(err, &unknown) {
		t.Fatal(err)
	}
}

func TestSystemRootsRefuseAPrivateCA(t *testing.T) {
	err := refuses(t, newAuthority(t), &tls.Config{})
	var unknown x509.UnknownAuthorityError
	if !errors.As(err, &unknown) {
		t.Fatal(err)
	}
}

func TestWrongHostNameIsRefused(t *testing.T) {
	own := newAuthority(t)
	config := trust(t, own)
	config.ServerName = "elsewhere.example"
	err := refuses(t, own, config)
	var wrong x509.HostnameError
	if !errors.As(err, &wrong) {
		t.Fatal(err)
	}
}

func TestCAFileMistakes(t *testing.T) {
	_, err := TrustCAFile(filepath.Join(t.TempDir(), "absent.pem"))
	expect(t, err, ErrInvalidInput)
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = TrustCAFile(empty)
	expect(t, err, ErrInvalidInput)
	_, err = Open("127.0.0.1:1", WithTLS(nil))
	expect(t, err, ErrInvalidInput)
}
