package wire

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

const (
	magic       = "TCKCLI3\x00"
	version     = 3
	proofDomain = "TCK/CLIENT/AUTH3"
	modeSingle  = 0
	modeCluster = 1
	accepted    = 1
	refused     = 0
)

// Faults of the handshake.
var (
	ErrMagic   = errors.New("not a Ticketing server (wrong magic)")
	ErrVersion = errors.New("server speaks another protocol version")
	ErrMode    = errors.New("server runs in another mode (single or cluster) than configured")
	ErrHelloID = errors.New("server has another slot than its place in the address list")
	ErrVerdict = errors.New("server answered the proof with an unknown byte")
	// ErrRefused means that the server refused the token.
	ErrRefused = errors.New("server refused the token")
)

// Identity is the server that a client expects at one address.
type Identity struct {
	cluster     bool
	slot        uint8
	fingerprint [FingerprintSizeBytes]byte
}

// Single is the identity of a server by itself.
func Single() Identity {
	return Identity{slot: NoSlot, fingerprint: sha256.Sum256([]byte("ticketing/single/v3"))}
}

// Member is the identity of the cluster node with that slot.
func Member(fingerprint [FingerprintSizeBytes]byte, slot uint8) Identity {
	return Identity{cluster: true, slot: slot, fingerprint: fingerprint}
}

func (id Identity) mode() byte {
	if id.cluster {
		return modeCluster
	}
	return modeSingle
}

// Proof checks the server's hello against the expected identity and answers it. The token never
// crosses the wire.
func (id Identity) Proof(hello *[HelloSizeBytes]byte, token []byte) ([]byte, error) {
	if string(hello[:8]) != magic {
		return nil, ErrMagic
	}
	if got := binary.BigEndian.Uint16(hello[8:]); got != version {
		return nil, fmt.Errorf("%w: %d instead of %d", ErrVersion, got, version)
	}
	if hello[10] != id.mode() {
		return nil, ErrMode
	}
	if hello[11] != id.slot {
		return nil, fmt.Errorf("%w: %d instead of %d", ErrHelloID, hello[11], id.slot)
	}
	mac := hmac.New(sha256.New, token)
	mac.Write([]byte(proofDomain))
	mac.Write(hello[8:11]) // Version and mode.
	mac.Write(id.fingerprint[:])
	mac.Write(hello[11:]) // Slot and nonce.
	return mac.Sum(nil), nil
}

// Handshake performs the client's side on a fresh connection. Protocol, "Connection".
func (id Identity) Handshake(conn io.ReadWriter, token []byte) error {
	var hello [HelloSizeBytes]byte
	if _, err := io.ReadFull(conn, hello[:]); err != nil {
		return fmt.Errorf("reading the server's hello: %w", err)
	}
	proof, err := id.Proof(&hello, token)
	if err != nil {
		return err
	}
	if _, err := conn.Write(proof); err != nil {
		return fmt.Errorf("sending the proof: %w", err)
	}
	var verdict [1]byte
	if _, err := io.ReadFull(conn, verdict[:]); err != nil {
		return fmt.Errorf("reading the server's verdict: %w", err)
	}
	switch verdict[0] {
	case accepted:
		return nil
	case refused:
		return ErrRefused
	}
	return ErrVerdict
}
