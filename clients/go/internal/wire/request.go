package wire

import "encoding/binary"

// Kind is a request's opcode.
type Kind byte

// The four requests. A set is two or more keys under one token.
const (
	Acquire    Kind = 'A'
	Release    Kind = 'R'
	AcquireSet Kind = 'S'
	ReleaseSet Kind = 'G'
)

// AcquireKind is the request that acquires that many keys.
func AcquireKind(keyCount int) Kind {
	if keyCount > 1 {
		return AcquireSet
	}
	return Acquire
}

// ReleaseKind is the request that releases that many keys.
func ReleaseKind(keyCount int) Kind {
	if keyCount > 1 {
		return ReleaseSet
	}
	return Release
}

// IsAcquire tells whether the request asks for a grant.
func (k Kind) IsAcquire() bool { return k == Acquire || k == AcquireSet }

// Request is one request with checked values. Its id is given when it is sent.
type Request struct {
	Kind  Kind
	Wait  uint8  // Acquire, AcquireSet: seconds.
	Lease uint8  // Acquire, AcquireSet: seconds.
	Token uint64 // Release, ReleaseSet.
	Keys  []string
}

// Append adds the request's frame to dst.
func (r *Request) Append(dst []byte, id uint64) []byte {
	head := len(dst)
	dst = append(dst, byte(r.Kind), 0, 0)
	dst = binary.BigEndian.AppendUint64(dst, id)
	if r.Kind.IsAcquire() {
		dst = append(dst, r.Wait, r.Lease)
	} else {
		dst = binary.BigEndian.AppendUint64(dst, r.Token)
	}
	if r.Kind == Acquire || r.Kind == Release {
		dst = append(dst, r.Keys[0]...)
	} else {
		dst = append(dst, byte(len(r.Keys)))
		for _, key := range r.Keys {
			dst = append(dst, byte(len(key)))
			dst = append(dst, key...)
		}
	}
	binary.BigEndian.PutUint16(dst[head+1:], uint16(len(dst)-head-HeadSizeBytes))
	return dst
}
