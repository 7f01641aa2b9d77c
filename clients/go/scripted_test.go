package ticketing

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"ticketing.example/ticketing/internal/wire"
	"ticketing.example/ticketing/internal/wire/wiretest"
)

// patience bounds what a test waits for things that must happen. It is never the expected time.
const patience = 20 * time.Second

// script is the server's end of a test: it accepts connections and does what the test says.
type script struct {
	t        *testing.T
	listener net.Listener
	mode     byte
	slot     byte
	verdict  byte
	tls      *tls.Config
}

// peer is the server's end of one connection.
type peer struct {
	t *testing.T
	net.Conn
}

func listen(t *testing.T) *script {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return &script{t: t, listener: listener, slot: wire.NoSlot, verdict: 1}
}

func (s *script) address() string { return s.listener.Addr().String() }

// accept takes the next connection through its handshake.
func (s *script) accept() *peer {
	s.t.Helper()
	if err := s.listener.(*net.TCPListener).SetDeadline(time.Now().Add(patience)); err != nil {
		s.t.Fatal(err)
	}
	conn, err := s.listener.Accept()
	if err != nil {
		s.t.Fatalf("accepting: %v", err)
	}
	s.t.Cleanup(func() { conn.Close() })
	if s.tls != nil {
		conn = tls.Server(conn, s.tls)
	}
	p := &peer{s.t, conn}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		s.t.Fatal(err)
	}
	p.write(wiretest.Hello(s.mode, s.slot, [16]byte{1, 2, 3}))
	var proof [wire.ProofSizeBytes]byte
	if _, err := io.ReadFull(conn, proof[:]); err != nil {
		s.t.Fatalf("reading the proof: %v", err)
	}
	p.write([]byte{s.verdict})
	return p
}

func (p *peer) write(data []byte) {
	p.t.Helper()
	if _, err := p.Write(data); err != nil {
		p.t.Fatalf("writing: %v", err)
	}
}

func (p *peer) reply(reply wire.Reply) {
	p.t.Helper()
	p.write(wiretest.AppendReply(nil, reply))
}

// expectClosed checks that the client sends nothing more before it closes the connection.
func (p *peer) expectClosed() {
	p.t.Helper()
	if request, err := wiretest.ReadRequest(p); err == nil {
		p.t.Fatalf("unexpected request %+v", request)
	} else if errors.Is(err, os.ErrDeadlineExceeded) {
		p.t.Fatal("the client keeps the connection open")
	}
}

// fast is the client's timing for tests: the order of events, not their length, is what counts.
var fast = timing{
	connect: patience, handshake: patience,
	backoffMin: time.Millisecond, backoffMax: 8 * time.Millisecond, sessionLong: time.Hour,
	immediateFind: patience, answerGrace: patience,
	releaseWindow: patience, releaseAttempt: patience,
	retryMin: time.Millisecond, retryMax: time.Millisecond,
	closeDrain: patience,
}

func withTiming(t timing) Option {
	return func(s *settings) error {
		s.timing = t
		return nil
	}
}

// open returns a broker for the script, closed when the test ends.
func open(t *testing.T, s *script, options ...Option) *Broker {
	t.Helper()
	broker, err := Open(s.address(), append([]Option{withTiming(fast)}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { broker.Close() })
	return broker
}

// pair opens a broker whose two connections are up.
func pair(t *testing.T, options ...Option) (*script, *Broker, [2]*peer) {
	t.Helper()
	s := listen(t)
	broker := open(t, s, options...)
	peers := [2]*peer{s.accept(), s.accept()}
	waitUsable(t, broker, 2)
	return s, broker, peers
}

// waitUsable waits until that many links are usable.
func waitUsable(t *testing.T, b *Broker, count int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		usable, signal := 0, b.usableSignal()
		for _, l := range b.links {
			if l.current.Load() != nil {
				usable++
			}
		}
		if usable >= count {
			return
		}
		select {
		case <-signal:
		case <-ctx.Done():
			t.Fatalf("%d of %d links became usable", usable, count)
		}
	}
}

// arrival is a request and the connection it came on.
type arrival struct {
	wiretest.Request
	from *peer
}

// arrivals reads requests from several peers until they close.
func arrivals(peers ...*peer) <-chan arrival {
	all := make(chan arrival, 1024)
	for _, p := range peers {
		go func(p *peer) {
			for {
				request, err := wiretest.ReadRequest(p)
				if err != nil {
					return
				}
				all <- arrival{request, p}
			}
		}(p)
	}
	return all
}

func next(t *testing.T, requests <-chan arrival) arrival {
	t.Helper()
	select {
	case request := <-requests:
		return request
	case <-time.After(patience):
		t.Fatal("no request came")
		panic("unreachable")
	}
}

var terms10 = AcquireOptions{Wait: 10 * time.Second, Lease: 30 * time.Second}

type outcome struct {
	ticket *Ticket
	err    error
}

// acquire runs Acquire in the background.
func acquire(ctx context.Context, b *Broker, key string, options AcquireOptions) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		ticket, err := b.Acquire(ctx, key, options)
		done <- outcome{ticket, err}
	}()
	return done
}

func await[T any](t *testing.T, done <-chan T) T {
	t.Helper()
	select {
	case value := <-done:
		return value
	case <-time.After(patience):
		t.Fatal("the call did not return")
		panic("unreachable")
	}
}

func expect(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
}

// TestMain fails when a goroutine of the client outlives all tests.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if left := leaked(); left != "" {
			println("goroutines left behind:\n" + left)
			code = 1
		}
	}
	os.Exit(code)
}

// leaked returns the stacks of the client's goroutines, after giving them time to end.
func leaked() string {
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		var left []string
		for _, stack := range strings.Split(string(stacks), "\n\n")[1:] {
			if strings.Contains(stack, "ticketing.example/ticketing.(*") {
				left = append(left, stack)
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return strings.Join(left, "\n\n")
		}
	}
}
