// Package wiretest is the server's side of the protocol and the reader of the golden vectors, for
// tests only. It is written apart from package wire, so that the two check each other.
package wiretest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"ticketing.example/ticketing/internal/wire"
)

// Request is a request frame as a server reads it.
type Request struct {
	wire.Request
	ID uint64
}

var (
	errIDZero  = errors.New("request id 0")
	errRecords = errors.New("records do not fill the body")
)

// bodySizes are the ranges of body lengths. Protocol, "What ends a connection".
var bodySizes = map[wire.Kind]struct{ fixed, max int }{
	wire.Acquire: {10, 138}, wire.Release: {16, 144}, wire.AcquireSet: {11, 2075}, wire.ReleaseSet: {17, 2081},
}

// ReadRequest reads one request frame. An error ends the connection.
func ReadRequest(from io.Reader) (Request, error) {
	var head [3]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return Request{}, err
	}
	kind, size := wire.Kind(head[0]), int(binary.BigEndian.Uint16(head[1:]))
	sizes, ok := bodySizes[kind]
	if !ok || size < sizes.fixed || size > sizes.max {
		return Request{}, fmt.Errorf("bad frame %q with a body of %d bytes", head[0], size)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(from, body); err != nil {
		return Request{}, err
	}
	return decodeBody(kind, body, sizes.fixed)
}

func decodeBody(kind wire.Kind, body []byte, fixed int) (Request, error) {
	request := Request{ID: binary.BigEndian.Uint64(body), Request: wire.Request{Kind: kind}}
	if request.ID == 0 {
		return Request{}, errIDZero
	}
	if kind.IsAcquire() {
		request.Wait, request.Lease = body[8], body[9]
	} else {
		request.Token = binary.BigEndian.Uint64(body[8:])
	}
	rest := body[fixed:]
	if kind == wire.Acquire || kind == wire.Release {
		request.Keys = []string{string(rest)}
		return request, nil
	}
	for count := body[fixed-1]; count > 0; count-- {
		if len(rest) == 0 || len(rest) < 1+int(rest[0]) {
			return Request{}, errRecords
		}
		size := 1 + int(rest[0])
		request.Keys = append(request.Keys, string(rest[1:size]))
		rest = rest[size:]
	}
	if len(rest) > 0 {
		return Request{}, errRecords
	}
	return request, nil
}

// AppendReply adds the reply's frame to dst.
func AppendReply(dst []byte, reply wire.Reply) []byte {
	var body []byte
	if reply.Op != wire.Leader {
		body = binary.BigEndian.AppendUint64(body, reply.ID)
	}
	switch reply.Op {
	case wire.Granted, wire.GrantedSet:
		body = binary.BigEndian.AppendUint64(body, reply.Token)
	case wire.Moved, wire.Leader:
		body = append(body, reply.Slot)
	case wire.Refused:
		body = append(body, reply.Code)
	}
	dst = append(dst, byte(reply.Op))
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(body)))
	return append(dst, body...)
}

// Hello is a server hello.
func Hello(mode, slot byte, nonce [16]byte) []byte {
	hello := append([]byte("TCKCLI3\x00"), 0, 3, mode, slot)
	return append(hello, nonce[:]...)
}
