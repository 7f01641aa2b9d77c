package ticketing

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// Ticket is a held lock. It is safe for concurrent use. A ticket that the garbage collector finds
// unreleased is abandoned; so keep it while the work under the lock runs, or defer its Release.
type Ticket struct {
	broker      *Broker
	keys        []string
	token       uint64
	validBefore time.Time

	mu      sync.Mutex
	release *releaseCall // Nil until released or abandoned.
}

func newTicket(b *Broker, keys []string, token uint64, validBefore time.Time) *Ticket {
	t := &Ticket{broker: b, keys: keys, token: token, validBefore: validBefore}
	runtime.SetFinalizer(t, (*Ticket).Abandon)
	return t
}

// String names the keys and the token, for logs.
func (t *Ticket) String() string {
	return fmt.Sprintf("ticket %q token %d domain %s", t.keys, t.token, t.Domain())
}

// Key is the key, or the first of a set.
func (t *Ticket) Key() string { return t.keys[0] }

// Keys are all keys, ascending bytewise.
func (t *Ticket) Keys() []string { return append([]string(nil), t.keys...) }

// Token is the fencing token, larger than every token granted before it in the same domain. Have
// the protected resource refuse any write with a token below the highest it has seen, in the same
// transaction as the write.
func (t *Ticket) Token() uint64 { return t.token }

// Domain is the fencing domain of the token.
func (t *Ticket) Domain() Domain { return t.broker.settings.domain }

// ValidBefore is the time, on this process's monotonic clock, after which the holder must not act
// on the lock: when the request was sent, plus the lease. It fits context.WithDeadline.
func (t *Ticket) ValidBefore() time.Time { return t.validBefore }

// Remaining is the time until ValidBefore; negative after it.
func (t *Ticket) Remaining() time.Duration { return time.Until(t.validBefore) }

// Release gives the lock back and returns nil when the server has confirmed it. It is retried for
// at most 5 s. ErrNotHeld says that the lock is not held any more, ErrReleaseUnconfirmed that nothing
// is known, and a *RejectedError that the server refused.
//
// When ctx ends first, also before the call, the release goes on in the background and the error is
// ErrCancelled. A second call waits for and returns the first one's result. After ErrClientCapacity
// nothing was sent and Release may be called again.
func (t *Ticket) Release(ctx context.Context) error {
	call, first, err := t.beginRelease()
	if err != nil {
		return err
	}
	if first {
		return call.runOrDetach(ctx)
	}
	select {
	case <-call.done:
		return call.result
	case <-ctx.Done():
		return cancelled(ctx)
	}
}

// Abandon releases the lock in the background, without a report. It does not block.
func (t *Ticket) Abandon() {
	if call, first, err := t.beginRelease(); err == nil && first {
		go call.finish()
	}
}

func (t *Ticket) beginRelease() (call *releaseCall, first bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.release != nil {
		return t.release, false, nil
	}
	if err := t.broker.enterRelease(false); err != nil {
		return nil, false, err
	}
	runtime.SetFinalizer(t, nil)
	t.release = newReleaseCall(t.broker, t.keys, t.token)
	return t.release, true, nil
}
