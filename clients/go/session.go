package ticketing

import (
	"errors"
	"net"
	"runtime"
	"sync"
	"time"

	"ticketing.example/ticketing/internal/wire"
)

// A request's life: queued → sent (a byte may have left) → done. It belongs to one session.
type requestState uint8

const (
	stateQueued requestState = iota
	stateSent
	stateDone
)

// request is one attempt of a call. After submit the session's mutex guards state, sentAt, Wait and
// tombstone.
type request struct {
	wire.Request
	deadline  time.Time // Of an acquire that waits: Wait is what is left until then.
	sentAt    time.Time // Just before it was handed to the socket.
	state     requestState
	offset    int           // Of the frame within the batch it was sent in.
	tombstone bool          // Nobody waits for the answer; a grant in it is released.
	answers   chan<- answer // Takes every answer without blocking.
}

// answer is what became of a request: a reply, or the loss of its connection.
type answer struct {
	request *request
	reply   wire.Reply
	fate    fate
}

type fate uint8

const (
	replied    fate = iota
	lostUnsent      // Provably not sent.
	lostSent        // A byte may have left.
)

var errUnanswered = errors.New("the server leaves too many requests unanswered")

// session is one connection after its handshake. One goroutine writes, one reads.
type session struct {
	link *link
	conn net.Conn
	wake chan struct{} // One pending signal for the writer.
	done chan struct{} // Closed when the session has ended.
	// Whether what a write returns are the bytes that the socket has taken.
	countsBytes bool

	writeErr error // Why the writer closed the connection; read after it has stopped.

	mu       sync.Mutex
	ended    bool
	heardAt  time.Time // When bytes last came.
	queue    []*request
	batch    []*request // Handed to the socket by the current write.
	exchange *wire.Exchange[*request]
	unwanted []grant // Found by the current receive; released after it.
}

// grant is a lock on the server.
type grant struct {
	keys  []string
	token uint64
}

func newSession(l *link, conn net.Conn) *session {
	_, isTCP := conn.(*net.TCPConn)
	return &session{
		link:        l,
		conn:        conn,
		wake:        make(chan struct{}, 1),
		done:        make(chan struct{}),
		countsBytes: isTCP,
		exchange:    wire.NewExchange[*request](l.broker.voters()),
	}
}

// serve runs the session until its connection ends and reports why.
func (s *session) serve() error {
	writerDone := make(chan struct{})
	go func() {
		defer close(writerDone)
		s.writeLoop()
	}()
	err := s.readLoop()
	s.link.withdraw()
	s.stop()
	s.conn.Close()
	<-writerDone // Now it is known what the socket has taken.
	s.abandon()
	if s.writeErr != nil {
		return s.writeErr
	}
	return err
}

// submit queues a request. False means that the session has ended and nothing happened.
func (s *session) submit(r *request) bool {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return false
	}
	s.queue = append(s.queue, r)
	first := len(s.queue) == 1
	s.mu.Unlock()
	if first {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
	return true
}

// withdraw gives a request up. It tells how far the request had come: a queued one is never sent, a
// sent one leaves a tombstone that releases a late grant, and a done one has its answer delivered.
func (s *session) withdraw(r *request) requestState {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := r.state
	switch state {
	case stateQueued:
		r.state = stateDone
	case stateSent:
		r.tombstone = true
	}
	return state
}

// overdue tells how far a request has come and, if it is sent, when its answer must be there.
func (s *session) overdue(r *request) (state requestState, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := time.Duration(r.Wait) * time.Second
	return r.state, r.sentAt.Add(wait + s.link.broker.settings.timing.answerGrace)
}

// closeIfSilent closes a connection on which nothing came since the request was sent: it is dead.
func (s *session) closeIfSilent(r *request) {
	s.mu.Lock()
	silent := s.heardAt.Before(r.sentAt)
	s.mu.Unlock()
	if silent {
		s.conn.Close() // The reader ends the session.
	}
}

func (s *session) writeLoop() {
	var batch []byte
	for {
		select {
		case <-s.wake:
		case <-s.done:
			return
		}
		for {
			runtime.Gosched() // Callers that are ready to submit share this write.
			batch, s.writeErr = s.takeBatch(batch[:0])
			if len(batch) == 0 {
				break
			}
			if s.writeErr == nil {
				var taken int
				taken, s.writeErr = s.conn.Write(batch)
				s.batchTaken(taken)
			}
			if s.writeErr != nil {
				s.conn.Close() // The reader ends the session.
				return
			}
		}
	}
}

// takeBatch encodes queued requests and marks them sent: from here on a byte of them may leave.
func (s *session) takeBatch(batch []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	taken := 0
	for _, r := range s.queue {
		if s.ended || len(batch) > batchSizeBytesMax-wire.RequestSizeBytesMax {
			break
		}
		taken++
		if r.state == stateDone {
			continue // Withdrawn.
		}
		if !r.deadline.IsZero() {
			left := r.deadline.Sub(now)
			if left <= 0 { // A call with nothing left sends nothing.
				r.state = stateDone
				r.answer(answer{request: r, fate: lostUnsent})
				continue
			}
			r.Wait = uint8((left + time.Second - 1) / time.Second)
		}
		r.state = stateSent
		r.sentAt = now
		r.offset = len(batch)
		s.batch = append(s.batch, r)
		batch = s.exchange.Send(batch, &r.Request, r)
	}
	rest := copy(s.queue, s.queue[taken:])
	clear(s.queue[rest:])
	s.queue = s.queue[:rest]
	if s.exchange.Outstanding() > outstandingMax {
		return batch, errUnanswered
	}
	return batch, nil
}

// batchTaken notes how many bytes the socket has taken. A request whose first byte was not among
// them is provably unsent. Under TLS the count proves nothing: it is of plain text.
func (s *session) batchTaken(taken int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.countsBytes {
		for _, r := range s.batch {
			if r.offset >= taken && r.state == stateSent {
				r.state = stateQueued
			}
		}
	}
	clear(s.batch)
	s.batch = s.batch[:0]
}

func (s *session) readLoop() error {
	buffer := make([]byte, readSizeBytes)
	for {
		n, err := s.conn.Read(buffer)
		if n > 0 {
			if err := s.receive(buffer[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
}

func (s *session) receive(data []byte) error {
	s.mu.Lock()
	s.heardAt = time.Now()
	err := s.exchange.Receive(data, s.deliver, s.announce)
	unwanted := s.unwanted
	s.unwanted = nil
	s.mu.Unlock()
	for _, grant := range unwanted {
		s.link.broker.releaseUnwanted(grant.keys, grant.token)
	}
	return err
}

// deliver hands a reply to the waiting call. The mutex is held.
func (s *session) deliver(r *request, reply wire.Reply) {
	r.state = stateDone
	switch {
	case reply.Op == wire.Moved:
		s.link.broker.setLeader(reply.Slot)
	case isNotServing(reply):
		s.link.broker.forgetLeader(s.link.slot) // The leader itself says that it is none.
	}
	if !r.tombstone {
		r.answer(answer{request: r, reply: reply})
		return
	}
	if r.Kind.IsAcquire() {
		s.link.broker.pending.Add(-1)
		if reply.Op == wire.Granted || reply.Op == wire.GrantedSet {
			s.unwanted = append(s.unwanted, grant{r.Keys, reply.Token})
		}
	}
}

func (s *session) announce(reply wire.Reply) { s.link.broker.setLeader(reply.Slot) }

// isNotServing tells whether a node says that it does not lead.
func isNotServing(reply wire.Reply) bool {
	return reply.Op == wire.Refused && (reply.Code == wire.NoLeader || reply.Code == wire.NotActive)
}

// stop takes no more requests and sends no more.
func (s *session) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	close(s.done)
}

// abandon tells every request without an answer that its connection is lost.
func (s *session) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.queue {
		if r.state == stateQueued {
			r.state = stateDone
			r.answer(answer{request: r, fate: lostUnsent})
		}
	}
	s.queue = nil
	for _, r := range s.exchange.Abandon() {
		fate := lostSent
		if r.state == stateQueued {
			fate = lostUnsent
		}
		r.state = stateDone
		if !r.tombstone {
			r.answer(answer{request: r, fate: fate})
		} else if r.Kind.IsAcquire() {
			s.link.broker.pending.Add(-1)
		}
	}
}

// answer never blocks: a call has room for every request it may have outstanding at once.
func (r *request) answer(a answer) {
	select {
	case r.answers <- a:
	default:
	}
}
