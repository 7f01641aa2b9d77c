package ticketing

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"ticketing.example/ticketing/internal/wire"
	"ticketing.example/ticketing/internal/wire/wiretest"
)

var background = context.Background()

func TestAcquireAndRelease(t *testing.T) {
	_, broker, peers := pair(t)
	requests := arrivals(peers[:]...)
	before := time.Now()
	done := acquire(background, broker, "order-1", terms10)
	request := next(t, requests)
	want := wire.Request{Kind: wire.Acquire, Wait: 10, Lease: 30, Keys: []string{"order-1"}}
	if request.ID != 1 || !reflect.DeepEqual(request.Request.Request, want) {
		t.Fatalf("sent %+v", request.Request)
	}
	request.from.reply(wire.Reply{Op: wire.Granted, ID: 1, Token: 1 << 63})
	got := await(t, done)
	if got.err != nil {
		t.Fatal(got.err)
	}
	ticket := got.ticket
	if ticket.Token() != 1<<63 || ticket.Key() != "order-1" || ticket.Domain() != broker.Domain() {
		t.Fatalf("ticket %+v", ticket)
	}
	if text := fmt.Sprint(ticket); text != `ticket ["order-1"] token 9223372036854775808 domain single` {
		t.Fatal(text)
	}
	if v := ticket.ValidBefore(); v.Before(before.Add(30*time.Second)) || v.After(time.Now().Add(30*time.Second)) {
		t.Fatalf("valid before %v, called at %v", v, before)
	}
	released := make(chan error, 1)
	go func() { released <- ticket.Release(background) }()
	request = next(t, requests)
	want = wire.Request{Kind: wire.Release, Token: 1 << 63, Keys: []string{"order-1"}}
	if !reflect.DeepEqual(request.Request.Request, want) {
		t.Fatalf("sent %+v", request.Request)
	}
	request.from.reply(wire.Reply{Op: wire.Released, ID: request.ID})
	expect(t, await(t, released), nil)
	expect(t, ticket.Release(background), nil) // The first result again; nothing is sent.
}

func TestAcquireSetSortsAndCollapses(t *testing.T) {
	_, broker, peers := pair(t)
	requests := arrivals(peers[:]...)
	for _, c := range []struct {
		keys, sent []string
		kind       wire.Kind
		grant      wire.Op
	}{
		{[]string{"b", "é", "a", "b"}, []string{"a", "b", "é"}, wire.AcquireSet, wire.GrantedSet},
		{[]string{"a", "a"}, []string{"a"}, wire.Acquire, wire.Granted},
	} {
		done := make(chan outcome, 1)
		go func() {
			ticket, err := broker.AcquireSet(background, c.keys, terms10)
			done <- outcome{ticket, err}
		}()
		request := next(t, requests)
		if request.Kind != c.kind || !reflect.DeepEqual(request.Keys, c.sent) {
			t.Fatalf("sent %+v", request.Request)
		}
		request.from.reply(wire.Reply{Op: c.grant, ID: request.ID, Token: 5})
		got := await(t, done)
		if got.err != nil || !reflect.DeepEqual(got.ticket.Keys(), c.sent) {
			t.Fatalf("got %+v", got)
		}
		got.ticket.Abandon()
		request = next(t, requests)
		if request.Kind != wire.ReleaseKind(len(c.sent)) || request.Token != 5 || !reflect.DeepEqual(request.Keys, c.sent) {
			t.Fatalf("sent %+v", request.Request)
		}
		op := wire.Op(request.Kind)
		request.from.reply(wire.Reply{Op: op, ID: request.ID})
	}
}

func TestDefiniteAnswers(t *testing.T) {
	_, broker, peers := pair(t)
	requests := arrivals(peers[:]...)
	for _, c := range []struct {
		reply wire.Reply
		want  error
	}{
		{wire.Reply{Op: wire.TimedOut}, ErrTimeout},
		{wire.Reply{Op: wire.Busy}, ErrBusy},
		{wire.Reply{Op: wire.Indeterminate}, ErrIndeterminate},
		{wire.Reply{Op: wire.Refused, Code: wire.BadLease}, ErrRejected},
	} {
		done := acquire(background, broker, "k", terms10)
		request := next(t, requests)
		c.reply.ID = request.ID
		request.from.reply(c.reply)
		expect(t, await(t, done).err, c.want)
	}
	done := acquire(background, broker, "k", terms10)
	request := next(t, requests)
	request.from.reply(wire.Reply{Op: wire.Refused, ID: request.ID, Code: wire.BadKey})
	var rejected *RejectedError
	if err := await(t, done).err; !errors.As(err, &rejected) || rejected.Code != CodeBadKey {
		t.Fatal(err)
	}
}

func TestRetriesWhatTheServerDidNotTake(t *testing.T) {
	_, broker, peers := pair(t)
	requests := arrivals(peers[:]...)
	done := acquire(background, broker, "k", terms10)
	for _, reply := range []wire.Reply{
		{Op: wire.Moved, Slot: wire.NoSlot},
		{Op: wire.Refused, Code: wire.NoLeader},
		{Op: wire.Refused, Code: wire.NotActive},
		{Op: wire.Granted, Token: 3},
	} {
		request := next(t, requests)
		reply.ID = request.ID
		request.from.reply(reply)
	}
	if got := await(t, done); got.err != nil || got.ticket.Token() != 3 {
		t.Fatalf("got %+v", got)
	}
}

func TestNoLeaderWhenTheSearchIsOver(t *testing.T) {
	hasty := fast
	hasty.immediateFind = 20 * time.Millisecond
	_, broker, peers := pair(t, withTiming(hasty))
	requests := arrivals(peers[:]...)
	done := acquire(background, broker, "k", AcquireOptions{Lease: time.Second})
	for {
		select {
		case request := <-requests:
			if request.Wait != 0 {
				t.Fatalf("wait %d sent for an immediate try", request.Wait)
			}
			request.from.reply(wire.Reply{Op: wire.Refused, ID: request.ID, Code: wire.NoLeader})
		case got := <-done:
			expect(t, got.err, ErrNoLeader)
			return
		}
	}
}

func TestUnreachable(t *testing.T) {
	hasty := fast
	hasty.immediateFind = time.Millisecond
	s := listen(t)
	s.listener.Close()
	broker := open(t, s, withTiming(hasty))
	_, err := broker.Acquire(background, "k", AcquireOptions{Lease: time.Second})
	expect(t, err, ErrNotConnected)
	ctx, cancel := context.WithTimeout(background, time.Millisecond)
	defer cancel()
	expect(t, broker.Ready(ctx), ErrNotConnected)
}

func TestSilenceIsNamed(t *testing.T) {
	// A server with TLS waits for the client's first bytes, a client without it for the server's.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	broker, err := Open(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	ctx, cancel := context.WithTimeout(background, 50*time.Millisecond)
	defer cancel()
	err = broker.Ready(ctx)
	if !errors.Is(err, ErrNotConnected) || !strings.Contains(err.Error(), "both sides use TLS or neither") {
		t.Fatal(err)
	}
}

func TestUnauthorized(t *testing.T) {
	hasty := fast
	hasty.backoffMin, hasty.backoffMax, hasty.immediateFind = time.Hour, time.Hour, time.Millisecond
	s := listen(t)
	s.verdict = 0
	broker := open(t, s, withTiming(hasty), WithToken([]byte("0123456789abcdef")))
	s.accept().expectClosed()
	s.accept().expectClosed()
	_, err := broker.Acquire(background, "k", AcquireOptions{Lease: time.Second})
	expect(t, err, ErrUnauthorized)
	ctx, cancel := context.WithCancel(background)
	cancel()
	expect(t, broker.Ready(ctx), ErrUnauthorized)
}

func TestLostAfterSentIsIndeterminateAndNeverResent(t *testing.T) {
	_, broker, peers := pair(t)
	requests := arrivals(peers[:]...)
	done := acquire(background, broker, "k", terms10)
	request := next(t, requests)
	request.from.Close()
	expect(t, await(t, done).err, ErrIndeterminate)
	done = acquire(background, broker, "other", terms10)
	if request := next(t, requests); request.Keys[0] != "other" {
		t.Fatalf("resent %+v", request.Request)
	} else {
		request.from.reply(wire.Reply{Op: wire.TimedOut, ID: request.ID})
	}
	expect(t, await(t, done).err, ErrTimeout)
}

// stuck is a session whose socket takes nothing, so that later requests stay queued.
func stuck(t *testing.T) (*session, *Broker, net.Conn) {
	t.Helper()
	settings, err := newSettings([]string{"127.0.0.1:1"}, Domain{}, []Option{withTiming(fast)})
	if err != nil {
		t.Fatal(err)
	}
	broker := newBroker(settings)
	broker.addLink(0, noLeader, wire.Single())
	ours, theirs := net.Pipe()
	s := newSession(broker.links[0], ours)
	broker.links[0].current.Store(s)
	broker.workers.Add(1)
	go func() { defer broker.workers.Done(); s.serve() }()
	t.Cleanup(func() { ours.Close(); broker.Close() })
	return s, broker, theirs
}

func waitState(t *testing.T, s *session, sent, queued int) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		fits := s.exchange.Outstanding() == sent && len(s.queue) == queued
		s.mu.Unlock()
		if fits {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("session never had %d sent and %d queued requests", sent, queued)
		}
	}
}

func TestQueuedRequestMovesOnAndSentOneIsLost(t *testing.T) {
	s, broker, theirs := stuck(t)
	sent := acquire(background, broker, "sent", terms10)
	waitState(t, s, 1, 0) // The writer is inside the write of the first request.
	queued := acquire(background, broker, "queued", terms10)
	waitState(t, s, 1, 1)
	theirs.Close()
	expect(t, await(t, sent).err, ErrIndeterminate)
	// The queued one looks for another connection: give it one.
	ours, theirs := net.Pipe()
	t.Cleanup(func() { ours.Close() })
	second := newSession(broker.links[0], ours)
	broker.links[0].current.Store(second)
	broker.workers.Add(1)
	go func() { defer broker.workers.Done(); second.serve() }()
	broker.announceUsable()
	request, err := wiretest.ReadRequest(theirs)
	if err != nil || request.Keys[0] != "queued" {
		t.Fatalf("sent %+v, %v", request, err)
	}
	go theirs.Write(wiretest.AppendReply(nil, wire.Reply{Op: wire.Granted, ID: request.ID, Token: 9}))
	if got := await(t, queued); got.err != nil || got.ticket.Token() != 9 {
		t.Fatalf("got %+v", got)
	}
}

func TestCancelledWhileQueuedIsNeverSent(t *testing.T) {
	s, broker, theirs := stuck(t)
	first := acquire(background, broker, "first", terms10)
	waitState(t, s, 1, 0)
	ctx, cancel := context.WithCancel(background)
	second := acquire(ctx, broker, "second", terms10)
	waitState(t, s, 1, 1)
	cancel()
	err := await(t, second).err
	expect(t, err, ErrCancelled)
	expect(t, err, context.Canceled)
	third := acquire(background, broker, "third", terms10)
	for _, key := range []string{"first", "third"} {
		request, err := wiretest.ReadRequest(theirs)
		if err != nil || request.Keys[0] != key {
			t.Fatalf("sent %+v, %v", request, err)
		}
		if _, err := theirs.Write(wiretest.AppendReply(nil, wire.Reply{Op: wire.TimedOut, ID: request.ID})); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, await(t, first).err, ErrTimeout)
	expect(t, await(t, third).err, ErrTimeout)
}

func TestCancelledAfterSentReleasesALateGrant(t *testing.T) {
	_, broker, peers := pair(t, WithPendingLimit(1))
	requests := arrivals(peers[:]...)
	ctx, cancel := context.WithCancel(background)
	done := acquire(ctx, broker, "k", terms10)
	request := next(t, requests)
	cancel()
	expect(t, await(t, done).err, ErrCancelled)
	// Until it is answered it keeps its place.
	_, err := broker.Acquire(background, "k2", terms10)
	expect(t, err, ErrClientCapacity)
	request.from.reply(wire.Reply{Op: wire.Granted, ID: request.ID, Token: 77})
	request = next(t, requests)
	if request.Kind != wire.Release || request.Token != 77 || request.Keys[0] != "k" {
		t.Fatalf("sent %+v", request.Request)
	}
	request.from.reply(wire.Reply{Op: wire.Released, ID: request.ID})
	done = acquire(background, broker, "k2", terms10)
	request = next(t, requests)
	request.from.reply(wire.Reply{Op: wire.Busy, ID: request.ID})
	expect(t, await(t, done).err, ErrBusy)
}

func TestAlreadyCancelled(t *testing.T) {
	_, broker, _ := pair(t)
	ctx, cancel := context.WithCancel(background)
	cancel()
	_, err := broker.Acquire(ctx, "k", terms10)
	expect(t, err, ErrCancelled)
}

func TestCancelledWithACause(t *testing.T) {
	_, broker, _ := pair(t)
	cause := errors.New("the user went away")
	canceled, cancel := context.WithCancelCause(background)
	cancel(cause)
	late, stop := context.WithDeadlineCause(background, time.Time{}, cause)
	defer stop()
	for want, ctx := range map[error]context.Context{context.Canceled: canceled, context.DeadlineExceeded: late} {
		_, err := broker.Acquire(ctx, "k", terms10)
		expect(t, err, ErrCancelled)
		expect(t, err, want)
		expect(t, err, cause)
	}
}

func TestNoAnswerWithinGrace(t *testing.T) {
	hasty := fast
	hasty.immediateFind, hasty.answerGrace = time.Millisecond, time.Millisecond
	_, broker, peers := pair(t, withTiming(hasty))
	requests := arrivals(peers[:]...)
	_, err := broker.Acquire(background, "k", AcquireOptions{Lease: time.Second})
	expect(t, err, ErrIndeterminate)
	// Nothing came on that connection since: it is dead, and a new one is made.
	dead := next(t, requests).from
	if _, err := dead.Read(make([]byte, 1)); err == nil || errors.Is(err, net.ErrClosed) {
		t.Fatalf("connection lives on: %v", err)
	}
}

func TestInsufficientLease(t *testing.T) {
	_, broker, peers := pair(t)
	requests := arrivals(peers[:]...)
	done := acquire(background, broker, "k", AcquireOptions{Lease: time.Second, Budget: time.Second - 1})
	request := next(t, requests)
	request.from.reply(wire.Reply{Op: wire.Granted, ID: request.ID, Token: 8})
	expect(t, await(t, done).err, ErrInsufficientLease)
	if request = next(t, requests); request.Kind != wire.Release || request.Token != 8 {
		t.Fatalf("sent %+v", request.Request)
	}
	request.from.reply(wire.Reply{Op: wire.Released, ID: request.ID})
}

func TestWaitIsRoundedUp(t *testing.T) {
	_, broker, peers := pair(t)
	requests := arrivals(peers[:]...)
	for wait, sent := range map[time.Duration]uint8{
		1: 1, time.Second: 1, 1001 * time.Millisecond: 2, 255 * time.Second: 255,
	} {
		done := acquire(background, broker, "k", AcquireOptions{Wait: wait, Lease: time.Second})
		request := next(t, requests)
		if request.Wait != sent {
			t.Errorf("wait %v was sent as %d", wait, request.Wait)
		}
		request.from.reply(wire.Reply{Op: wire.TimedOut, ID: request.ID})
		expect(t, await(t, done).err, ErrTimeout)
	}
}

func TestInvalidInput(t *testing.T) {
	_, broker, _ := pair(t)
	long := strings.Repeat("k", wire.KeySizeBytesMax)
	var many []string
	for key := 'a'; len(many) <= wire.SetKeyCountMax; key++ {
		many = append(many, string(key))
	}
	for _, c := range []struct {
		keys    []string
		options AcquireOptions
	}{
		{[]string{""}, terms10},
		{[]string{long + "k"}, terms10},
		{[]string{"a b"}, terms10},
		{[]string{"a\n"}, terms10},
		{[]string{"\xff"}, terms10},
		{nil, terms10},
		{many, terms10},
		{[]string{"k"}, AcquireOptions{Wait: -1, Lease: time.Second}},
		{[]string{"k"}, AcquireOptions{Wait: 255*time.Second + 1, Lease: time.Second}},
		{[]string{"k"}, AcquireOptions{}},
		{[]string{"k"}, AcquireOptions{Lease: 251 * time.Second}},
		{[]string{"k"}, AcquireOptions{Lease: 1500 * time.Millisecond}},
		{[]string{"k"}, AcquireOptions{Lease: time.Second, Budget: time.Second}},
		{[]string{"k"}, AcquireOptions{Lease: time.Second, Budget: -1}},
	} {
		_, err := broker.AcquireSet(background, c.keys, c.options)
		if !errors.Is(err, ErrInvalidInput) {
			t.Errorf("%q, %+v: %v", c.keys, c.options, err)
		}
	}
	if err := wire.CheckKey(long); err != nil {
		t.Error(err)
	}
	if _, err := wire.KeySet(many[1:]); err != nil {
		t.Error(err)
	}
}
