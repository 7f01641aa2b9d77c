package ticketing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ticketing.example/ticketing/internal/wire"
)

// AcquireOptions are the terms of an acquire. Lease is required.
type AcquireOptions struct {
	// Wait is how long to queue for the lock, 0 to 255 s, rounded up to whole seconds. 0 is one
	// immediate try.
	Wait time.Duration
	// Lease is how long the lock lasts unless it is released earlier: 1 to 250 s, whole seconds.
	Lease time.Duration
	// Budget is the least time the work needs, from 0 to less than Lease. A grant with less left is
	// released and reported as ErrInsufficientLease.
	Budget time.Duration
}

// terms are checked options.
type terms struct {
	wait   time.Duration // Whole seconds.
	lease  time.Duration // Whole seconds.
	budget time.Duration
}

func (o AcquireOptions) check() (terms, error) {
	switch {
	case o.Wait < 0 || o.Wait > waitMax:
		return terms{}, invalidf("Wait is %v: 0 to %v are allowed", o.Wait, waitMax)
	case o.Lease < leaseMin || o.Lease > leaseMax || o.Lease%time.Second != 0:
		return terms{}, invalidf("Lease is %v: whole seconds from %v to %v are allowed",
			o.Lease, leaseMin, leaseMax)
	case o.Budget < 0 || o.Budget >= o.Lease:
		return terms{}, invalidf("Budget is %v: 0 to less than Lease (%v) are allowed", o.Budget, o.Lease)
	}
	wait := (o.Wait + time.Second - 1) / time.Second * time.Second
	return terms{wait: wait, lease: o.Lease, budget: o.Budget}, nil
}

// Acquire waits in the key's queue and returns the lock when its turn comes. A key has 1 to 128
// bytes of UTF-8 without space, LF or CR. When ctx ends first the error is ErrCancelled, and the
// lock is given back should it be granted. See the Err variables for what each says of the lock.
//
// The lock is not re-entrant: its holder asking again queues like anyone else.
func (b *Broker) Acquire(ctx context.Context, key string, options AcquireOptions) (*Ticket, error) {
	if err := wire.CheckKey(key); err != nil {
		return nil, invalid(err)
	}
	return b.acquire(ctx, []string{key}, options)
}

// AcquireSet acquires 1 to 16 keys, all or nothing, under one token. Order and duplicates do not
// matter. Sets of several callers cannot deadlock. Otherwise it is like Acquire.
func (b *Broker) AcquireSet(ctx context.Context, keys []string, options AcquireOptions) (*Ticket, error) {
	set, err := wire.KeySet(keys)
	if err != nil {
		return nil, invalid(err)
	}
	return b.acquire(ctx, set, options)
}

func (b *Broker) acquire(ctx context.Context, keys []string, options AcquireOptions) (*Ticket, error) {
	terms, err := options.check()
	if err != nil {
		return nil, err
	}
	if b.closingBegun() {
		return nil, ErrClosed
	}
	if ctx.Err() != nil {
		return nil, cancelled(ctx)
	}
	if count := b.pending.Add(1); count > int64(b.settings.pendingLimit) {
		b.pending.Add(-1)
		return nil, fmt.Errorf("%w: %d acquires are pending", ErrClientCapacity, count-1)
	}
	call := newAcquireCall(b, keys, terms)
	ticket, err := call.run(ctx)
	if !call.leftTombstone { // A tombstone keeps its place until it is answered.
		b.pending.Add(-1)
	}
	return ticket, err
}

// acquireCall is one logical acquire: attempts until a definite outcome.
type acquireCall struct {
	broker   *Broker
	keys     []string
	terms    terms
	deadline time.Time // Of the call, while nothing is outstanding.
	answers  chan answer
	pause    pause

	everUsable    bool
	leaderless    bool // The last answer was M, NoLeader or NotActive.
	leftTombstone bool
}

func newAcquireCall(b *Broker, keys []string, terms terms) *acquireCall {
	limit := terms.wait
	if limit == 0 {
		limit = b.settings.timing.immediateFind
	}
	return &acquireCall{
		broker: b, keys: keys, terms: terms,
		deadline: time.Now().Add(limit),
		answers:  make(chan answer, 1), // One attempt at a time.
		pause:    newPause(&b.settings.timing),
	}
}

func (c *acquireCall) run(ctx context.Context) (*Ticket, error) {
	timer := time.NewTimer(time.Until(c.deadline))
	defer timer.Stop()
	for {
		usable := c.broker.usableSignal()
		session := c.broker.choose(nil)
		if session == nil {
			select {
			case <-usable:
				continue
			case <-timer.C:
				return nil, c.exhausted()
			case <-ctx.Done():
				return nil, cancelled(ctx)
			case <-c.broker.closing:
				return nil, ErrClosed
			}
		}
		c.everUsable = true
		ticket, next, err := c.attempt(ctx, session, timer)
		if next == finished {
			return ticket, err
		}
		if !time.Now().Before(c.deadline) {
			return nil, c.exhausted()
		}
		if next == retryNow {
			continue
		}
		select {
		case <-timer.C:
			return nil, c.exhausted()
		case <-time.After(c.pause.step()):
		case <-ctx.Done():
			return nil, cancelled(ctx)
		case <-c.broker.closing:
			return nil, ErrClosed
		}
	}
}

// verdict is what follows an attempt.
type verdict uint8

const (
	finished   verdict = iota
	retryNow           // Not a byte was sent.
	retryLater         // The server answered that it did nothing.
)

// attempt sends the request once.
func (c *acquireCall) attempt(ctx context.Context, s *session, timer *time.Timer) (*Ticket, verdict, error) {
	r := &request{
		Request: wire.Request{
			Kind:  wire.AcquireKind(len(c.keys)),
			Lease: uint8(c.terms.lease / time.Second),
			Keys:  c.keys,
		},
		answers: c.answers,
	}
	if c.terms.wait > 0 {
		r.deadline = c.deadline
	}
	if !s.submit(r) {
		return nil, retryNow, nil // The session has ended and is no longer chosen.
	}
	for {
		select {
		case a := <-c.answers:
			return c.settle(a)
		case <-timer.C:
			switch state, due := s.overdue(r); state {
			case stateQueued:
				if s.withdraw(r) == stateQueued {
					return nil, finished, c.exhausted()
				}
				timer.Reset(0) // It was sent meanwhile: look again.
			case stateSent:
				if left := time.Until(due); left > 0 {
					timer.Reset(left)
					continue
				}
				s.closeIfSilent(r)
				return nil, finished, c.giveUp(s, r, ErrIndeterminate, ErrIndeterminate)
			}
		case <-ctx.Done():
			cause := cancelled(ctx)
			return nil, finished, c.giveUp(s, r, cause, cause)
		case <-c.broker.closing:
			return nil, finished, c.giveUp(s, r, ErrClosed, ErrIndeterminate)
		}
	}
}

// giveUp ends the wait for an answer, with one error for a request that was not sent and one for a
// request that may have been. A grant that has just come is released.
func (c *acquireCall) giveUp(s *session, r *request, unsent, sent error) error {
	switch s.withdraw(r) {
	case stateQueued:
		return unsent
	case stateSent:
		c.leftTombstone = true
		return sent
	}
	a := <-c.answers
	switch {
	case a.fate == lostUnsent:
		return unsent
	case a.fate == replied && isGrant(a.reply.Op):
		c.broker.releaseUnwanted(c.keys, a.reply.Token)
	}
	return sent
}

// settle turns an answer into the call's outcome.
func (c *acquireCall) settle(a answer) (*Ticket, verdict, error) {
	switch a.fate {
	case lostUnsent:
		return nil, retryNow, nil
	case lostSent:
		return nil, finished, fmt.Errorf("%w: the connection broke before the answer", ErrIndeterminate)
	}
	c.leaderless = false
	switch a.reply.Op {
	case wire.Granted, wire.GrantedSet:
		return c.granted(a)
	case wire.TimedOut:
		return nil, finished, ErrTimeout
	case wire.Busy:
		return nil, finished, ErrBusy
	case wire.Indeterminate:
		return nil, finished, fmt.Errorf("%w: the server lost its leadership meanwhile", ErrIndeterminate)
	case wire.Refused:
		if !isNotServing(a.reply) {
			return nil, finished, &RejectedError{Code(a.reply.Code)}
		}
	}
	c.leaderless = true
	return nil, retryLater, nil
}

func (c *acquireCall) granted(a answer) (*Ticket, verdict, error) {
	validBefore := a.request.sentAt.Add(c.terms.lease)
	if left := time.Until(validBefore); left <= 0 || left < c.terms.budget {
		c.broker.releaseUnwanted(c.keys, a.reply.Token)
		return nil, finished, fmt.Errorf("%w: %v of at least %v", ErrInsufficientLease, left, c.terms.budget)
	}
	return newTicket(c.broker, c.keys, a.reply.Token, validBefore), finished, nil
}

// exhausted is the outcome when the wait is over while nothing is outstanding.
func (c *acquireCall) exhausted() error {
	switch {
	case !c.everUsable:
		return c.broker.unreachable()
	case c.leaderless:
		return ErrNoLeader
	}
	return ErrTimeout
}

func (b *Broker) closingBegun() bool {
	select {
	case <-b.closing:
		return true
	default:
		return false
	}
}

func isGrant(op wire.Op) bool { return op == wire.Granted || op == wire.GrantedSet }

// cancelled matches ErrCancelled, the context's error and, if that is something else, its cause.
func cancelled(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return fmt.Errorf("%w: %w", ErrCancelled, cause)
	}
	return fmt.Errorf("%w: %w: %w", ErrCancelled, err, cause)
}

// pause is the growing pause between attempts of one call.
type pause struct{ length, max time.Duration }

func newPause(t *timing) pause { return pause{t.retryMin, t.retryMax} }

// step returns the next pause.
func (p *pause) step() time.Duration {
	length := p.length
	if p.length *= 2; p.length > p.max {
		p.length = p.max
	}
	return length
}
