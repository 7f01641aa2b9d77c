package ticketing

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"ticketing.example/ticketing/internal/wire"
)

// Fingerprint is the 32-byte identity of a cluster.
type Fingerprint [wire.FingerprintSizeBytes]byte

// ParseFingerprint reads the 64 hex digits that the server prints at its start.
func ParseFingerprint(digits string) (Fingerprint, error) {
	var fingerprint Fingerprint
	bytes, err := hex.DecodeString(digits)
	if err != nil || len(bytes) != len(fingerprint) {
		return fingerprint, invalidf("cluster fingerprint %q is not %d hex digits: copy it from the server's start line",
			digits, 2*len(fingerprint))
	}
	copy(fingerprint[:], bytes)
	return fingerprint, nil
}

// String is the fingerprint in lowercase hex digits.
func (f Fingerprint) String() string { return hex.EncodeToString(f[:]) }

// Domain is a fencing domain: the server or cluster that counts a token. Tokens of two domains must
// never be compared. Domains are comparable with ==.
type Domain struct {
	cluster     bool
	fingerprint Fingerprint
}

// Fingerprint is the cluster's identity, and false for a single server.
func (d Domain) Fingerprint() (Fingerprint, bool) { return d.fingerprint, d.cluster }

// String is "single" or the cluster's fingerprint.
func (d Domain) String() string {
	if d.cluster {
		return d.fingerprint.String()
	}
	return "single"
}

// Option is a setting of a Broker.
type Option func(*settings) error

type settings struct {
	addresses    []string
	hosts        []string
	domain       Domain
	token        []byte
	tls          *tls.Config
	pendingLimit int
	releaseLimit int
	timing       timing
}

// WithToken sets the client token, 16 to 4096 bytes. Without one the servers must be on loopback.
func WithToken(token []byte) Option {
	return func(s *settings) error {
		if len(token) < wire.TokenSizeBytesMin || len(token) > wire.TokenSizeBytesMax {
			return invalidf("the token has %d bytes: %d to %d are allowed",
				len(token), wire.TokenSizeBytesMin, wire.TokenSizeBytesMax)
		}
		s.token = append([]byte(nil), token...)
		return nil
	}
}

// WithTLS encrypts every connection. An empty configuration trusts the system's roots; see
// TrustCAFile for a CA of your own. The server name is the host of the address unless set.
func WithTLS(config *tls.Config) Option {
	return func(s *settings) error {
		if config == nil {
			return invalidf("the TLS configuration is nil: leave WithTLS out, or pass &tls.Config{}")
		}
		s.tls = config.Clone()
		return nil
	}
}

// TrustCAFile returns a TLS configuration that trusts only the certificates in a PEM file.
func TrustCAFile(path string) (*tls.Config, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, invalidf("reading the CA file: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, invalidf("CA file %s holds no PEM certificate", path)
	}
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, nil
}

// WithPendingLimit bounds the acquires between call and answer, over the whole broker: 1 to 16,384,
// 1024 unless set. One more is refused with ErrClientCapacity.
func WithPendingLimit(count int) Option {
	return func(s *settings) error {
		s.pendingLimit = count
		return checkLimit("pending limit", count)
	}
}

// WithReleaseQueueLimit bounds the releases in progress, over the whole broker: 1 to 16,384, 1024
// unless set. One more is refused with ErrClientCapacity; the lease is its safety net.
func WithReleaseQueueLimit(count int) Option {
	return func(s *settings) error {
		s.releaseLimit = count
		return checkLimit("release queue limit", count)
	}
}

func checkLimit(name string, count int) error {
	if count < 1 || count > callLimitMax {
		return invalidf("the %s is %d: 1 to %d are allowed", name, count, callLimitMax)
	}
	return nil
}

func newSettings(addresses []string, domain Domain, options []Option) (*settings, error) {
	s := &settings{
		addresses:    append([]string(nil), addresses...),
		domain:       domain,
		pendingLimit: pendingLimitDefault,
		releaseLimit: releaseQueueLimitDefault,
		timing:       timingDefault,
	}
	for _, option := range options {
		if err := option(s); err != nil {
			return nil, err
		}
	}
	for _, address := range s.addresses {
		host, err := splitAddress(address)
		if err != nil {
			return nil, invalid(err)
		}
		if len(s.token) == 0 && !isLoopback(host) {
			return nil, invalidf("address %q is not on loopback: set a token", address)
		}
		s.hosts = append(s.hosts, host)
	}
	return s, nil
}

func splitAddress(address string) (host string, err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", fmt.Errorf("address %q is not host:port (IPv6: [addr]:port): %w", address, err)
	}
	if host == "" || strings.ContainsAny(host, ", /") {
		return "", fmt.Errorf("address %q has no valid host", address)
	}
	if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
		return "", fmt.Errorf("address %q has port %q: 1 to 65535 are allowed", address, port)
	}
	return host, nil
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
