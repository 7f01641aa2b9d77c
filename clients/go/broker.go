package ticketing

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ticketing.example/ticketing/internal/wire"
)

// noLeader is the leader's slot while none is known.
const noLeader = -1

// Broker is a client of one lock server or cluster. It keeps connections open in the background and
// reconnects for ever. It is safe for concurrent use: share one, and Close it once at the end.
type Broker struct {
	settings *settings
	links    []*link
	next     atomic.Uint32 // Round-robin position.
	leader   atomic.Int32  // Slot, or noLeader.
	refused  atomic.Bool   // The last handshake that got a verdict was refused.
	pending  atomic.Int64  // Acquires between call and answer, tombstones included.

	closing   chan struct{} // Closed when Close begins.
	closed    chan struct{} // Closed when nothing runs any more.
	terminate context.CancelFunc
	ended     context.Context // Ends when releases must give up and connections close.
	workers   sync.WaitGroup

	mu          sync.Mutex
	isClosing   bool
	releasing   int           // Releases in progress.
	drained     chan struct{} // Closed when closing and releasing is 0.
	usable      chan struct{} // Closed and replaced when a link becomes usable.
	lastFailure error         // Why the last connection failed or ended.
}

// Open returns a broker for the single server at address ("host:port"). Connections come up in the
// background: Open fails only on invalid input, with ErrInvalidInput.
func Open(address string, options ...Option) (*Broker, error) {
	settings, err := newSettings([]string{address}, Domain{}, options)
	if err != nil {
		return nil, err
	}
	b := newBroker(settings)
	for i := 0; i < connectionsSingle; i++ {
		b.addLink(0, noLeader, wire.Single())
	}
	b.start()
	return b, nil
}

// OpenCluster returns a broker for a cluster of three or five nodes, given by their addresses in
// slot order. Connections come up in the background: it fails only on invalid input, with
// ErrInvalidInput.
func OpenCluster(fingerprint Fingerprint, addresses []string, options ...Option) (*Broker, error) {
	if len(addresses) != 3 && len(addresses) != 5 {
		return nil, invalidf("a cluster has 3 or 5 addresses, not %d", len(addresses))
	}
	settings, err := newSettings(addresses, Domain{true, fingerprint}, options)
	if err != nil {
		return nil, err
	}
	b := newBroker(settings)
	for slot := range addresses {
		b.addLink(slot, slot, wire.Member(fingerprint, uint8(slot)))
	}
	b.start()
	return b, nil
}

func newBroker(settings *settings) *Broker {
	b := &Broker{
		settings: settings,
		closing:  make(chan struct{}),
		closed:   make(chan struct{}),
		drained:  make(chan struct{}),
		usable:   make(chan struct{}),
	}
	b.ended, b.terminate = context.WithCancel(context.Background())
	b.leader.Store(noLeader)
	return b
}

func (b *Broker) addLink(address, slot int, identity wire.Identity) {
	b.links = append(b.links, &link{
		broker:   b,
		address:  b.settings.addresses[address],
		host:     b.settings.hosts[address],
		slot:     slot,
		identity: identity,
	})
}

func (b *Broker) start() {
	for _, l := range b.links {
		b.workers.Add(1)
		go func(l *link) {
			defer b.workers.Done()
			l.run(b.ended)
		}(l)
	}
}

// Domain is the fencing domain of this broker's tokens.
func (b *Broker) Domain() Domain { return b.settings.domain }

// Ready waits until at least one connection is usable. When ctx ends first it returns
// ErrNotConnected, or ErrUnauthorized if the server refused the token.
func (b *Broker) Ready(ctx context.Context) error {
	for {
		usable := b.usableSignal()
		if b.closingBegun() {
			return ErrClosed
		}
		if b.choose(nil) != nil {
			return nil
		}
		select {
		case <-usable:
		case <-ctx.Done():
			return b.unreachable()
		case <-b.closing:
			return ErrClosed
		}
	}
}

// Close refuses new calls, lets releases in progress finish for at most 5 s, ends every connection,
// and returns when nothing runs any more. Acquires in progress end with ErrClosed, or with
// ErrIndeterminate if they may have been sent. Every call after the first waits for the same end.
// The error is always nil.
func (b *Broker) Close() error {
	b.mu.Lock()
	first := !b.isClosing
	if first {
		b.isClosing = true
		close(b.closing)
		if b.releasing == 0 {
			close(b.drained)
		}
	}
	b.mu.Unlock()
	if !first {
		<-b.closed
		return nil
	}
	timer := time.NewTimer(b.settings.timing.closeDrain)
	defer timer.Stop()
	select {
	case <-b.drained:
	case <-timer.C:
	}
	b.terminate()
	<-b.drained
	b.workers.Wait()
	close(b.closed)
	return nil
}

// enterRelease takes a place in the release queue. Unwanted grants found while the broker drains
// are still released.
func (b *Broker) enterRelease(unwanted bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.isClosing && (!unwanted || b.releasing == 0) {
		return ErrClosed
	}
	if b.releasing >= b.settings.releaseLimit {
		return fmt.Errorf("%w: %d releases are in progress", ErrClientCapacity, b.releasing)
	}
	b.releasing++
	return nil
}

func (b *Broker) exitRelease() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.releasing--
	if b.isClosing && b.releasing == 0 {
		close(b.drained)
	}
}

// voters is the number of slots, 0 in single mode.
func (b *Broker) voters() int {
	if b.settings.domain.cluster {
		return len(b.links)
	}
	return 0
}

// choose returns a usable session: the known leader's, otherwise round-robin; one that is not avoided
// if there is one. Nil if none is usable.
func (b *Broker) choose(avoid []*session) *session {
	var fallback *session
	if leader := b.leader.Load(); leader != noLeader {
		fallback = b.links[leader].current.Load()
		if fallback != nil && !slices.Contains(avoid, fallback) {
			return fallback
		}
	}
	start := int(b.next.Add(1) % uint32(len(b.links)))
	for i := range b.links {
		s := b.links[(start+i)%len(b.links)].current.Load()
		if s == nil {
			continue
		}
		if !slices.Contains(avoid, s) {
			return s
		}
		if fallback == nil {
			fallback = s
		}
	}
	return fallback
}

func (b *Broker) setLeader(slot uint8) {
	if slot == wire.NoSlot {
		b.leader.Store(noLeader)
	} else {
		b.leader.Store(int32(slot))
	}
}

// forgetLeader forgets the leader if it is that slot.
func (b *Broker) forgetLeader(slot int) { b.leader.CompareAndSwap(int32(slot), noLeader) }

func (b *Broker) announceUsable() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.usable)
	b.usable = make(chan struct{})
}

// usableSignal is closed when the next link becomes usable. Take it before looking for one.
func (b *Broker) usableSignal() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.usable
}

func (b *Broker) noteFailure(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lastFailure = err
}

// unreachable is the error of a call that found no usable connection.
func (b *Broker) unreachable() error {
	if b.refused.Load() {
		return ErrUnauthorized
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lastFailure != nil {
		return fmt.Errorf("%w: %w", ErrNotConnected, b.lastFailure)
	}
	return fmt.Errorf("%w: no answer yet; check the address, and that both sides use TLS or neither", ErrNotConnected)
}
