package wire

// Exchange is one session after its handshake: it numbers requests and matches replies to them.
// T is what the owner wants back with an answer. Not safe for concurrent use.
type Exchange[T any] struct {
	voters      int
	lastID      uint64
	outstanding map[uint64]entry[T]
	partial     []byte // The begun frame at the end of what was received.
}

type entry[T any] struct {
	kind  Kind
	owner T
}

// NewExchange returns a session's beginning. voters is the number of slots, 0 in single mode.
func NewExchange[T any](voters int) *Exchange[T] {
	return &Exchange[T]{voters: voters, outstanding: make(map[uint64]entry[T])}
}

// Send appends the request's frame to dst and remembers its owner until the answer.
func (x *Exchange[T]) Send(dst []byte, request *Request, owner T) []byte {
	x.lastID++
	x.outstanding[x.lastID] = entry[T]{request.Kind, owner}
	return request.Append(dst, x.lastID)
}

// Outstanding is the number of requests without an answer.
func (x *Exchange[T]) Outstanding() int { return len(x.outstanding) }

// Receive takes the next bytes from the server, split anywhere, and calls answered for every reply
// that answers a request and announced for every unsolicited one. An error ends the session.
func (x *Exchange[T]) Receive(data []byte, answered func(T, Reply), announced func(Reply)) error {
	if len(x.partial) > 0 {
		x.partial = append(x.partial, data...)
		data = x.partial
	}
	for {
		reply, size, err := DecodeReply(data, x.voters)
		if err != nil {
			return err
		}
		if size == 0 {
			break
		}
		data = data[size:]
		if reply.Op == Leader {
			announced(reply)
			continue
		}
		entry, ok := x.outstanding[reply.ID]
		if !ok {
			return ErrUnknownID
		}
		if !reply.Answers(entry.kind) {
			return ErrWrongKind
		}
		delete(x.outstanding, reply.ID)
		answered(entry.owner, reply)
	}
	x.partial = append(x.partial[:0], data...)
	return nil
}

// Abandon ends the session: it returns the owners of all requests without an answer.
func (x *Exchange[T]) Abandon() []T {
	owners := make([]T, 0, len(x.outstanding))
	for _, entry := range x.outstanding {
		owners = append(owners, entry.owner)
	}
	x.outstanding = make(map[uint64]entry[T])
	return owners
}
