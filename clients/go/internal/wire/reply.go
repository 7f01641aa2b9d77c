package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// Op is a reply's opcode.
type Op byte

// The replies. Protocol, "Reply frames".
const (
	Granted       Op = 'A'
	GrantedSet    Op = 'S'
	Released      Op = 'R'
	ReleasedSet   Op = 'G'
	NotHeld       Op = 'N'
	TimedOut      Op = 'T'
	Busy          Op = 'B'
	Moved         Op = 'M'
	Indeterminate Op = 'I'
	Refused       Op = 'E'
	Leader        Op = 'L'
)

// The codes of a Refused reply.
const (
	BadKey        = 1
	BadLease      = 2
	NotActive     = 3
	NoLeader      = 4
	BadKeySet     = 5
	GroupMismatch = 6
	BadToken      = 7
)

// refusable lists, by code, the requests that the code may answer.
var refusable = [...]string{
	BadKey: "ARSG", BadLease: "AS", NotActive: "ARSG", NoLeader: "ARSG",
	BadKeySet: "SG", GroupMismatch: "RG", BadToken: "RG",
}

// Faults that make a client close the session.
var (
	ErrUnknownOpcode = errors.New("reply has an unknown opcode")
	ErrBodyLength    = errors.New("reply's body length is not its opcode's")
	ErrRequestIDZero = errors.New("reply answers request id 0")
	ErrTokenZero     = errors.New("grant carries token 0")
	ErrUnknownCode   = errors.New("refusal carries an unknown code")
	ErrSlot          = errors.New("reply names a slot outside the cluster")
	ErrNotInCluster  = errors.New("leader announcement outside cluster mode")
	ErrUnknownID     = errors.New("reply answers no outstanding request")
	ErrWrongKind     = errors.New("reply does not fit the request it answers")
)

// Reply is one reply frame. Fields that its opcode does not have are zero.
type Reply struct {
	Op    Op
	ID    uint64 // All but Leader.
	Token uint64 // Granted, GrantedSet.
	Slot  uint8  // Moved, Leader: NoSlot if none is known.
	Code  uint8  // Refused.
}

// Answers tells whether the reply may answer a request of that kind.
func (r Reply) Answers(kind Kind) bool {
	switch r.Op {
	case Granted, GrantedSet, Released, ReleasedSet:
		return byte(r.Op) == byte(kind)
	case NotHeld:
		return !kind.IsAcquire()
	case TimedOut, Busy:
		return kind.IsAcquire()
	case Moved, Indeterminate:
		return true
	case Refused:
		return strings.IndexByte(refusable[r.Code], byte(kind)) >= 0
	}
	return false
}

// DecodeReply reads the reply frame at the start of data and returns its size, 0 while it is
// incomplete. voters is the number of slots, 0 in single mode. An error ends the session.
func DecodeReply(data []byte, voters int) (Reply, int, error) {
	if len(data) == 0 {
		return Reply{}, 0, nil
	}
	reply := Reply{Op: Op(data[0])}
	bodySize, err := replyBodySize(reply.Op)
	if err != nil {
		return Reply{}, 0, err
	}
	if reply.Op == Leader && voters == 0 {
		return Reply{}, 0, ErrNotInCluster
	}
	if len(data) < HeadSizeBytes {
		return Reply{}, 0, nil
	}
	if got := int(binary.BigEndian.Uint16(data[1:])); got != bodySize {
		return Reply{}, 0, fmt.Errorf("%w: %q with %d bytes", ErrBodyLength, data[0], got)
	}
	size := HeadSizeBytes + bodySize
	if len(data) < size {
		return Reply{}, 0, nil
	}
	if err := reply.decodeBody(data[HeadSizeBytes:size], voters); err != nil {
		return Reply{}, 0, err
	}
	return reply, size, nil
}

func replyBodySize(op Op) (int, error) {
	switch op {
	case Granted, GrantedSet:
		return 16, nil
	case Released, ReleasedSet, NotHeld, TimedOut, Busy, Indeterminate:
		return 8, nil
	case Moved, Refused:
		return 9, nil
	case Leader:
		return 1, nil
	}
	return 0, fmt.Errorf("%w: %#02x", ErrUnknownOpcode, byte(op))
}

func (r *Reply) decodeBody(body []byte, voters int) error {
	if r.Op == Leader {
		r.Slot = body[0]
		return checkSlot(r.Slot, voters)
	}
	if r.ID = binary.BigEndian.Uint64(body); r.ID == 0 {
		return ErrRequestIDZero
	}
	switch r.Op {
	case Granted, GrantedSet:
		if r.Token = binary.BigEndian.Uint64(body[8:]); r.Token == 0 {
			return ErrTokenZero
		}
	case Moved:
		r.Slot = body[8]
		return checkSlot(r.Slot, voters)
	case Refused:
		if r.Code = body[8]; r.Code == 0 || int(r.Code) >= len(refusable) {
			return fmt.Errorf("%w: %d", ErrUnknownCode, r.Code)
		}
	}
	return nil
}

func checkSlot(slot uint8, voters int) error {
	if slot == NoSlot || int(slot) < voters {
		return nil
	}
	return fmt.Errorf("%w: slot %d of %d", ErrSlot, slot, voters)
}
