package wire_test

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"testing"
	"testing/iotest"

	"ticketing.example/ticketing/internal/wire"
	"ticketing.example/ticketing/internal/wire/wiretest"
)

func request(t *testing.T, fields wiretest.Fields) (wire.Request, uint64) {
	op, _ := fields["op"].(string)
	return wire.Request{
		Kind:  wire.Kind(op[0]),
		Wait:  uint8(fields.Number(t, "wait")),
		Lease: uint8(fields.Number(t, "lease")),
		Token: fields.Number(t, "token"),
		Keys:  fields.Keys(t),
	}, fields.Number(t, "request_id")
}

func TestRequestVectors(t *testing.T) {
	for _, topic := range []string{"request-acquire", "request-release", "request-acquire-set", "request-release-set"} {
		for _, c := range wiretest.Load(t, topic) {
			want := wiretest.Bytes(t, c.Hex)
			request, id := request(t, c.Fields)
			if got := request.Append(nil, id); !bytes.Equal(got, want) {
				t.Errorf("%s (%s): encoded %x, want %x", c.ID, c.Note, got, want)
			}
			decoded, err := wiretest.ReadRequest(bytes.NewReader(want))
			if err != nil || decoded.ID != id || !reflect.DeepEqual(decoded.Request, request) {
				t.Errorf("%s (%s): decoded %+v, %v", c.ID, c.Note, decoded, err)
			}
			checkKeys(t, c, request, true)
		}
	}
}

func TestInvalidRequestValues(t *testing.T) {
	for _, topic := range []string{"invalid-value-request", "order-of-checks"} {
		for _, c := range wiretest.Load(t, topic) {
			if c.Layer == "frame" {
				expectBrokenFrame(t, c)
				continue
			}
			request, _ := request(t, c.Fields)
			leaseFits := !request.Kind.IsAcquire() || (request.Lease >= wire.LeaseSecondsMin && request.Lease <= wire.LeaseSecondsMax)
			tokenFits := request.Kind.IsAcquire() || request.Token != 0
			if leaseFits && tokenFits {
				checkKeys(t, c, request, false)
			}
		}
	}
}

// A client cannot build these; the tests' own server must see them, to be a judge of requests.
func TestInvalidRequestFrames(t *testing.T) {
	for _, c := range wiretest.Load(t, "invalid-frame-request") {
		expectBrokenFrame(t, c)
	}
}

func expectBrokenFrame(t *testing.T, c wiretest.Case) {
	t.Helper()
	if _, err := wiretest.ReadRequest(bytes.NewReader(wiretest.Bytes(t, c.Hex))); err == nil {
		t.Errorf("%s (%s): accepted", c.ID, c.Note)
	}
}

// checkKeys expects the keys to pass or fail the client's own check.
func checkKeys(t *testing.T, c wiretest.Case, request wire.Request, valid bool) {
	t.Helper()
	var err error
	if request.Kind == wire.Acquire || request.Kind == wire.Release {
		err = wire.CheckKey(request.Keys[0])
	} else {
		var set []string
		set, err = wire.KeySet(request.Keys)
		// A set in another order or with duplicates is repaired rather than refused.
		if err == nil && (len(set) < wire.SetKeyCountMin || !reflect.DeepEqual(set, request.Keys)) {
			err = errors.New("not in wire form")
		}
	}
	if (err == nil) != valid {
		t.Errorf("%s (%s): key check says %v", c.ID, c.Note, err)
	}
}

func reply(t *testing.T, fields wiretest.Fields) wire.Reply {
	op, _ := fields["op"].(string)
	return wire.Reply{
		Op:    wire.Op(op[0]),
		ID:    fields.Number(t, "request_id"),
		Token: fields.Number(t, "token"),
		Slot:  uint8(fields.Number(t, "slot")),
		Code:  uint8(fields.Number(t, "code")),
	}
}

func TestReplyVectors(t *testing.T) {
	for _, topic := range []string{"reply-single", "reply-cluster"} {
		for _, c := range wiretest.Load(t, topic) {
			data, want := wiretest.Bytes(t, c.Hex), reply(t, c.Fields)
			if got := wiretest.AppendReply(nil, want); !bytes.Equal(got, data) {
				t.Errorf("%s (%s): encoded %x, want %x", c.ID, c.Note, got, data)
			}
			for cut := 0; cut < len(data); cut++ {
				if _, size, err := wire.DecodeReply(data[:cut], c.VoterCount); size != 0 || err != nil {
					t.Errorf("%s (%s): cut at %d gave %d, %v", c.ID, c.Note, cut, size, err)
				}
			}
			got, size, err := wire.DecodeReply(append(data, 'x'), c.VoterCount)
			if got != want || size != len(data) || err != nil {
				t.Errorf("%s (%s): decoded %+v, %d, %v", c.ID, c.Note, got, size, err)
			}
		}
	}
}

func TestInvalidReplyVectors(t *testing.T) {
	for _, topic := range []string{"invalid-frame-reply", "invalid-value-reply"} {
		for _, c := range wiretest.Load(t, topic) {
			data := wiretest.Bytes(t, c.Hex)
			if _, _, err := wire.DecodeReply(data, c.VoterCount); err == nil {
				t.Errorf("%s (%s): accepted", c.ID, c.Note)
			}
			feedEverySplit(t, c, data)
		}
	}
}

func TestCorrelationVectors(t *testing.T) {
	for _, c := range wiretest.Load(t, "invalid-correlation") {
		feedEverySplit(t, c, wiretest.Bytes(t, c.Hex))
	}
}

// feedEverySplit feeds the bytes to a session in two parts, cut everywhere. The session must end.
func feedEverySplit(t *testing.T, c wiretest.Case, data []byte) {
	t.Helper()
	for cut := 0; cut <= len(data); cut++ {
		exchange := wire.NewExchange[int](c.VoterCount)
		for owner, digits := range c.RequestsHex {
			sent := wiretest.Bytes(t, digits)
			decoded, err := wiretest.ReadRequest(bytes.NewReader(sent))
			if err != nil {
				t.Fatalf("%s: %v", c.ID, err)
			}
			exchange.SkipTo(decoded.ID)
			if got := exchange.Send(nil, &decoded.Request, owner); !bytes.Equal(got, sent) {
				t.Fatalf("%s: sent %x, want %x", c.ID, got, sent)
			}
		}
		answered, announced := func(int, wire.Reply) {}, func(wire.Reply) {}
		err := exchange.Receive(data[:cut], answered, announced)
		if err == nil {
			err = exchange.Receive(data[cut:], answered, announced)
		}
		if err == nil {
			t.Errorf("%s (%s): cut at %d: session lives on", c.ID, c.Note, cut)
		}
	}
}

// Every valid reply is also received through a session, split everywhere and coalesced.
func TestExchangeReceivesReplies(t *testing.T) {
	exchange := func() *wire.Exchange[int] {
		x := wire.NewExchange[int](3)
		for id, kind := range []wire.Kind{wire.Acquire, wire.Release, wire.AcquireSet} {
			x.Send(nil, &wire.Request{Kind: kind, Token: 1, Keys: []string{"a", "b"}}, id+1)
		}
		return x
	}
	replies := []wire.Reply{
		{Op: wire.Leader, Slot: 2},
		{Op: wire.GrantedSet, ID: 3, Token: 7},
		{Op: wire.Moved, ID: 2, Slot: wire.NoSlot},
		{Op: wire.Refused, ID: 1, Code: wire.BadLease},
	}
	var data []byte
	for _, reply := range replies {
		data = wiretest.AppendReply(data, reply)
	}
	for cut := 0; cut <= len(data); cut++ {
		x, got := exchange(), []wire.Reply{}
		answered := func(owner int, reply wire.Reply) {
			if uint64(owner) != reply.ID {
				t.Errorf("reply %d went to request %d", reply.ID, owner)
			}
			got = append(got, reply)
		}
		announced := func(reply wire.Reply) { got = append(got, reply) }
		for _, part := range [][]byte{data[:cut], data[cut:]} {
			if err := x.Receive(part, answered, announced); err != nil {
				t.Fatal(err)
			}
		}
		if !reflect.DeepEqual(got, replies) || x.Outstanding() != 0 {
			t.Errorf("cut at %d: received %+v", cut, got)
		}
	}
}

func identity(t *testing.T, mode string, slot int, fingerprint []byte) wire.Identity {
	if mode == "single" {
		return wire.Single()
	}
	var bytes [wire.FingerprintSizeBytes]byte
	if fingerprint != nil && copy(bytes[:], fingerprint) != len(bytes) {
		t.Fatal("short fingerprint")
	}
	return wire.Member(bytes, uint8(slot))
}

func TestHelloVectors(t *testing.T) {
	for _, topic := range []string{"hello", "invalid-hello"} {
		for _, c := range wiretest.Load(t, topic) {
			data := wiretest.Bytes(t, c.Hex)
			if len(data) < wire.HelloSizeBytes {
				conn := readWriter{bytes.NewReader(data), io.Discard}
				if identity(t, c.Mode, c.ExpectedSlot, nil).Handshake(conn, nil) == nil {
					t.Errorf("%s (%s): accepted", c.ID, c.Note)
				}
				continue
			}
			_, err := identity(t, c.Mode, c.ExpectedSlot, nil).Proof((*[wire.HelloSizeBytes]byte)(data), nil)
			if (err == nil) != (c.Expect == "ok") {
				t.Errorf("%s (%s): %v", c.ID, c.Note, err)
			}
		}
	}
}

func TestProofVectors(t *testing.T) {
	for _, topic := range []string{"proof", "invalid-proof"} {
		for _, c := range wiretest.Load(t, topic) {
			if c.Direction == "result" {
				hello := wiretest.Hello(0, wire.NoSlot, [16]byte{})
				conn := readWriter{bytes.NewReader(append(hello, wiretest.Bytes(t, c.Hex)...)), io.Discard}
				if err := wire.Single().Handshake(conn, nil); !errors.Is(err, wire.ErrVerdict) {
					t.Errorf("%s (%s): %v", c.ID, c.Note, err)
				}
				continue
			}
			slot := int(c.Fields.Number(t, "slot"))
			hello := wiretest.Hello(byte(c.Fields.Number(t, "mode")), byte(slot), [16]byte(c.Fields.Bytes(t, "nonce_hex")))
			id := identity(t, c.Mode, slot, c.Fields.Bytes(t, "fingerprint_hex"))
			var sent bytes.Buffer
			// One byte at a time: every split.
			conn := readWriter{iotest.OneByteReader(bytes.NewReader(append(hello, 1))), &sent}
			err := id.Handshake(conn, c.Fields.Bytes(t, "token_hex"))
			matches := err == nil && bytes.Equal(sent.Bytes(), wiretest.Bytes(t, c.Hex))
			if matches != (c.Expect == "ok") {
				t.Errorf("%s (%s): proof %x, %v", c.ID, c.Note, sent.Bytes(), err)
			}
		}
	}
}

type readWriter struct {
	io.Reader
	io.Writer
}

func TestRefusedProof(t *testing.T) {
	hello := wiretest.Hello(0, wire.NoSlot, [16]byte{})
	conn := readWriter{bytes.NewReader(append(hello, 0)), io.Discard}
	if err := wire.Single().Handshake(conn, nil); !errors.Is(err, wire.ErrRefused) {
		t.Error(err)
	}
}
