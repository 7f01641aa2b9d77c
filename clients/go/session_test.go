package ticketing

import (
	"net"
	"testing"
	"time"

	"ticketing.example/ticketing/internal/wire"
)

// halfTaken is a socket that takes some bytes of the second write and then breaks.
type halfTaken struct {
	net.Conn
	takes  int
	writes int
}

func (c *halfTaken) Write(data []byte) (int, error) {
	if c.writes++; c.writes == 1 {
		return c.Conn.Write(data)
	}
	c.Conn.Close()
	return c.takes, net.ErrClosed
}

// Of the requests in a write that fails, those whose first byte was not taken are provably unsent.
func TestRequestsThatTheSocketDidNotTakeAreUnsent(t *testing.T) {
	frame := len((&wire.Request{Kind: wire.Acquire, Keys: []string{"k1"}}).Append(nil, 1))
	for takes, lost := range map[int]int{0: 0, 1: 1, frame: 1, frame + 1: 2, 2 * frame: 2} {
		s, theirs := brokenSession(t, &halfTaken{takes: takes})
		answers := make(chan answer, 3)
		submit := func(key string) {
			s.submit(&request{
				Request: wire.Request{Kind: wire.Acquire, Lease: 1, Keys: []string{key}},
				answers: answers,
			})
		}
		submit("k0")
		waitState(t, s, 1, 0) // The writer is inside the first write; the next two go together.
		submit("k1")
		submit("k2")
		go func() {
			buffer := make([]byte, frame)
			_, _ = theirs.Read(buffer)
		}()
		sent := 0
		for i := 0; i < 3; i++ {
			if a := await(t, answers); a.fate == lostSent {
				sent++
			}
		}
		if sent != 1+lost {
			t.Errorf("%d bytes taken: %d of 2 requests count as sent", takes, sent-1)
		}
	}
}

// brokenSession runs a session on a pipe behind the given socket.
func brokenSession(t *testing.T, conn *halfTaken) (*session, net.Conn) {
	t.Helper()
	settings, err := newSettings([]string{"127.0.0.1:1"}, Domain{}, []Option{withTiming(fast)})
	if err != nil {
		t.Fatal(err)
	}
	broker := newBroker(settings)
	broker.addLink(0, noLeader, wire.Single())
	ours, theirs := net.Pipe()
	conn.Conn = ours
	s := newSession(broker.links[0], conn)
	s.countsBytes = true
	broker.workers.Add(1)
	go func() { defer broker.workers.Done(); _ = s.serve() }()
	t.Cleanup(func() { ours.Close(); broker.Close() })
	if err := theirs.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return s, theirs
}
