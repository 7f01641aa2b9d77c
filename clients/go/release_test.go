package ticketing

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"ticketing.example/ticketing/internal/wire"
)

// held returns a ticket and what its broker's connections receive afterwards.
func held(t *testing.T, options ...Option) (*Ticket, <-chan arrival) {
	t.Helper()
	_, broker, peers := pair(t, options...)
	requests := arrivals(peers[:]...)
	return grantOne(t, broker, requests, 41), requests
}

func grantOne(t *testing.T, broker *Broker, requests <-chan arrival, token uint64) *Ticket {
	t.Helper()
	done := acquire(background, broker, "k", terms10)
	request := next(t, requests)
	request.from.reply(wire.Reply{Op: wire.Granted, ID: request.ID, Token: token})
	got := await(t, done)
	if got.err != nil {
		t.Fatal(got.err)
	}
	return got.ticket
}

func release(ctx context.Context, ticket *Ticket) <-chan error {
	done := make(chan error, 1)
	go func() { done <- ticket.Release(ctx) }()
	return done
}

func TestReleaseAnswers(t *testing.T) {
	for _, c := range []struct {
		reply wire.Reply
		want  error
	}{
		{wire.Reply{Op: wire.Released}, nil},
		{wire.Reply{Op: wire.NotHeld}, ErrNotHeld},
		{wire.Reply{Op: wire.Refused, Code: wire.GroupMismatch}, ErrRejected},
	} {
		ticket, requests := held(t)
		done := release(background, ticket)
		request := next(t, requests)
		c.reply.ID = request.ID
		request.from.reply(c.reply)
		expect(t, await(t, done), c.want)
		expect(t, ticket.Release(background), c.want)
	}
}

// However many release one ticket at once, one request leaves, and its answer is everybody's: whoever
// sent another would wait for an answer that does not come.
func TestConcurrentReleasesAreOne(t *testing.T) {
	ticket, requests := held(t)
	const callers = 64
	var ready, done sync.WaitGroup
	ready.Add(callers)
	done.Add(callers)
	start := make(chan struct{})
	errs := make(chan error, callers)
	for caller := 0; caller < callers; caller++ {
		go func() {
			defer done.Done()
			ready.Done()
			<-start
			errs <- ticket.Release(background)
		}()
	}
	ready.Wait()
	close(start)
	request := next(t, requests)
	request.from.reply(wire.Reply{Op: wire.NotHeld, ID: request.ID})
	done.Wait()
	close(errs)
	for err := range errs {
		expect(t, err, ErrNotHeld)
	}
	ticket.Abandon()
	expect(t, ticket.Release(background), ErrNotHeld)
	select {
	case request := <-requests:
		t.Fatalf("sent again: %+v", request.Request)
	default:
	}
}

func TestReleaseIsSentAgain(t *testing.T) {
	ticket, requests := held(t)
	done := release(background, ticket)
	var from *peer
	for _, reply := range []wire.Reply{
		{Op: wire.Moved, Slot: wire.NoSlot},
		{Op: wire.Indeterminate},
		{Op: wire.Refused, Code: wire.NoLeader},
		{Op: wire.Refused, Code: wire.NotActive},
	} {
		request := next(t, requests)
		if request.Kind != wire.Release || request.Token != 41 {
			t.Fatalf("sent %+v", request.Request)
		}
		if request.from == from {
			t.Fatal("sent again on the same connection although there is another")
		}
		from = request.from
		reply.ID = request.ID
		request.from.reply(reply)
	}
	request := next(t, requests)
	request.from.Close() // Lost: sent again on the other connection.
	request = next(t, requests)
	request.from.reply(wire.Reply{Op: wire.Released, ID: request.ID})
	expect(t, await(t, done), nil)
}

func TestLateAnswerToAnEarlierAttemptCounts(t *testing.T) {
	hasty := fast
	hasty.releaseAttempt = time.Millisecond
	ticket, requests := held(t, withTiming(hasty))
	done := release(background, ticket)
	first := next(t, requests)
	second := next(t, requests)
	if second.Token != 41 || second.from == first.from {
		t.Fatalf("second attempt %+v", second.Request)
	}
	first.from.reply(wire.Reply{Op: wire.Released, ID: first.ID})
	expect(t, await(t, done), nil)
}

func TestReleaseWindow(t *testing.T) {
	hasty := fast
	hasty.releaseWindow = time.Millisecond
	ticket, requests := held(t, withTiming(hasty))
	expect(t, ticket.Release(background), ErrReleaseUnconfirmed)
	next(t, requests)
}

// The one request that a cancelled release has sent stays the one that counts: a second one, on the other
// connection, could only hear that the first was effective.
func TestCancelledReleaseGoesOn(t *testing.T) {
	ticket, requests := held(t)
	ctx, cancel := context.WithCancel(background)
	cancel()
	expect(t, ticket.Release(ctx), ErrCancelled)
	request := next(t, requests)
	done := release(background, ticket) // Waits for the result.
	request.from.reply(wire.Reply{Op: wire.Released, ID: request.ID})
	expect(t, await(t, done), nil)
	// On either connection, nothing came between.
	for range []int{0, 1} {
		acquire(background, ticket.broker, "next", terms10)
		if request := next(t, requests); request.Kind != wire.Acquire {
			t.Fatalf("sent again: %+v", request.Request)
		}
	}
}

// Going on in the background, it is sent again by the usual rules.
func TestCancelledReleaseIsSentAgain(t *testing.T) {
	ticket, requests := held(t)
	ctx, cancel := context.WithCancel(background)
	done := release(ctx, ticket)
	request := next(t, requests)
	cancel()
	expect(t, await(t, done), ErrCancelled)
	request.from.Close()
	request = next(t, requests)
	request.from.reply(wire.Reply{Op: wire.Released, ID: request.ID})
	expect(t, ticket.Release(background), nil)
}

func TestTheGarbageCollectorReleasesAForgottenTicket(t *testing.T) {
	_, broker, peers := pair(t)
	requests := arrivals(peers[:]...)
	grantOne(t, broker, requests, 41)
	deadline := time.After(patience)
	for {
		runtime.GC()
		select {
		case request := <-requests:
			if request.Kind != wire.Release || request.Token != 41 {
				t.Fatalf("sent %+v", request.Request)
			}
			request.from.reply(wire.Reply{Op: wire.Released, ID: request.ID})
			return
		case <-deadline:
			t.Fatal("the ticket was not released")
		case <-time.After(time.Millisecond):
		}
	}
}

func TestReleaseQueueLimit(t *testing.T) {
	_, broker, peers := pair(t, WithReleaseQueueLimit(1))
	requests := arrivals(peers[:]...)
	first, second := grantOne(t, broker, requests, 1), grantOne(t, broker, requests, 2)
	done := release(background, first)
	request := next(t, requests)
	expect(t, second.Release(background), ErrClientCapacity)
	request.from.reply(wire.Reply{Op: wire.Released, ID: request.ID})
	expect(t, await(t, done), nil)
	done = release(background, second) // Nothing was sent: it may be called again.
	request = next(t, requests)
	request.from.reply(wire.Reply{Op: wire.Released, ID: request.ID})
	expect(t, await(t, done), nil)
}

func TestCloseLetsReleasesFinish(t *testing.T) {
	_, broker, peers := pair(t)
	requests := arrivals(peers[:]...)
	ticket, other := grantOne(t, broker, requests, 1), grantOne(t, broker, requests, 2)
	pending := acquire(background, broker, "pending", terms10)
	late := next(t, requests)
	done := release(background, ticket)
	request := next(t, requests)
	closed := make(chan struct{})
	go func() { broker.Close(); close(closed) }()
	expect(t, await(t, pending).err, ErrIndeterminate)
	expect(t, other.Release(background), ErrClosed)
	_, err := broker.Acquire(background, "k", terms10)
	expect(t, err, ErrClosed)
	// A grant that comes during the drain is released too.
	late.from.reply(wire.Reply{Op: wire.Granted, ID: late.ID, Token: 3})
	unwanted := next(t, requests)
	if unwanted.Kind != wire.Release || unwanted.Token != 3 {
		t.Fatalf("sent %+v", unwanted.Request)
	}
	request.from.reply(wire.Reply{Op: wire.Released, ID: request.ID})
	expect(t, await(t, done), nil)
	unwanted.from.reply(wire.Reply{Op: wire.Released, ID: unwanted.ID})
	await(t, closed)
	broker.Close()
	expect(t, broker.Ready(background), ErrClosed)
}

func TestCloseGivesUpAfterTheDrain(t *testing.T) {
	hasty := fast
	hasty.closeDrain = time.Millisecond
	ticket, requests := held(t, withTiming(hasty))
	done := release(background, ticket)
	next(t, requests)
	ticket.broker.Close()
	expect(t, await(t, done), ErrReleaseUnconfirmed)
}
