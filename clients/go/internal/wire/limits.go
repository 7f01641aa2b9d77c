// Package wire turns requests into bytes and bytes into replies, and matches the two. It does no
// I/O, reads no clock and starts nothing: the same calls give the same bytes.
//
// The bytes are those of the protocol page; section names in comments are its sections.
package wire

// Sizes and bounds of the protocol, with their units. Protocol, "Request frames".
const (
	// HeadSizeBytes is opcode u8 and body length u16.
	HeadSizeBytes = 3
	// KeySizeBytesMin is the shortest key.
	KeySizeBytesMin = 1
	// KeySizeBytesMax is the longest key.
	KeySizeBytesMax = 128
	// SetKeyCountMin is the fewest keys of a set; one key is not a set.
	SetKeyCountMin = 2
	// SetKeyCountMax is the most keys of a set.
	SetKeyCountMax = 16
	// WaitSecondsMax is the longest wait; 0 is one immediate try.
	WaitSecondsMax = 255
	// LeaseSecondsMin is the shortest lease.
	LeaseSecondsMin = 1
	// LeaseSecondsMax is the longest lease.
	LeaseSecondsMax = 250
	// TokenSizeBytesMin is the shortest client token; the empty one means loopback without auth.
	TokenSizeBytesMin = 16
	// TokenSizeBytesMax is the longest client token.
	TokenSizeBytesMax = 4096

	// HelloSizeBytes is the server's first message.
	HelloSizeBytes = 28
	// ProofSizeBytes is the client's answer to it.
	ProofSizeBytes = 32
	// FingerprintSizeBytes is an identity fingerprint.
	FingerprintSizeBytes = 32

	// ReplySizeBytesMax is the longest reply frame: head, request id u64, token u64.
	ReplySizeBytesMax = HeadSizeBytes + 16
	// RequestSizeBytesMax is the longest request frame: the release of the largest set.
	RequestSizeBytesMax = HeadSizeBytes + 17 + SetKeyCountMax*(1+KeySizeBytesMax)

	// NoSlot stands for "no leader known" in replies and for single mode in a hello.
	NoSlot = 255
)
