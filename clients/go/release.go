package ticketing

import (
	"context"
	"fmt"
	"time"

	"ticketing.example/ticketing/internal/wire"
)

// releaseOutstandingMax is how many attempts of one release may be unanswered at once: one at the
// start and one more after each releaseAttempt of the releaseWindow, with room to spare.
const releaseOutstandingMax = 4

// releaseCall is one logical release: attempts until a definite answer or the end of its window.
// It holds a place in the broker's release queue from enterRelease to its end.
type releaseCall struct {
	broker   *Broker
	request  wire.Request
	deadline time.Time
	answers  chan answer // Of all attempts: a late one counts too.
	pause    pause
	timer    *time.Timer     // Nil until the first attempt.
	due      time.Time       // When the timer is to fire.
	usable   <-chan struct{} // What to wait for while no connection is usable, else nil.
	current  *request        // The last attempt, while it may be answered.
	session  *session        // Of the last attempt.
	silent   []*session      // Of attempts without an answer in time.

	done   chan struct{}
	result error // Set before done is closed.
}

func newReleaseCall(b *Broker, keys []string, token uint64) *releaseCall {
	return &releaseCall{
		broker:   b,
		request:  wire.Request{Kind: wire.ReleaseKind(len(keys)), Token: token, Keys: keys},
		deadline: time.Now().Add(b.settings.timing.releaseWindow),
		answers:  make(chan answer, releaseOutstandingMax),
		pause:    newPause(&b.settings.timing),
		done:     make(chan struct{}),
	}
}

// releaseUnwanted releases a grant that no caller wants, in the background. When the release queue
// is full or the broker has closed, the lease ends the grant.
func (b *Broker) releaseUnwanted(keys []string, token uint64) {
	if b.enterRelease(true) == nil {
		go newReleaseCall(b, keys, token).finish()
	}
}

// runOrDetach runs the release until ctx ends, and leaves the rest to the background.
func (c *releaseCall) runOrDetach(ctx context.Context) error {
	result, finished := c.run(ctx)
	if !finished {
		go c.finish()
		return cancelled(ctx)
	}
	c.end(result)
	return result
}

// finish runs the release to its end.
func (c *releaseCall) finish() {
	result, _ := c.run(context.Background())
	c.end(result)
}

func (c *releaseCall) end(result error) {
	c.timer.Stop()
	c.result = result
	close(c.done)
	c.broker.exitRelease()
}

// run makes attempts until the outcome is known (finished) or ctx ends. Run again, it goes on where it
// was: an attempt under way stays the one that counts, and the next is due when it was.
func (c *releaseCall) run(ctx context.Context) (result error, finished bool) {
	if c.timer == nil {
		c.timer = time.NewTimer(c.broker.settings.timing.releaseWindow)
		c.send()
	}
	for {
		select {
		case a := <-c.answers:
			if result, definite := c.settle(a); definite {
				return result, true
			}
			if a.request == c.current { // Of a superseded attempt, only a definite answer matters.
				c.current = nil
				c.arm(c.pause.step())
			}
		case <-c.usable:
			c.send()
		case <-c.timer.C:
			now := time.Now()
			if early := c.due.Sub(now); early > 0 { // Left over from before it was set again.
				c.timer.Reset(early)
				continue
			}
			if !now.Before(c.deadline) {
				return ErrReleaseUnconfirmed, true
			}
			if c.current != nil {
				c.silent = append(c.silent, c.session)
			}
			c.send()
		case <-ctx.Done():
			return nil, false
		case <-c.broker.ended.Done():
			return fmt.Errorf("%w: the broker closed", ErrReleaseUnconfirmed), true
		}
	}
}

// send makes one attempt and sets the timer to when the next is due. Without a usable connection it
// leaves the signal to wait for instead.
func (c *releaseCall) send() {
	usable := c.broker.usableSignal()
	c.session = c.broker.choose(c.silent)
	if c.session == nil {
		c.usable, c.current = usable, nil
		c.arm(c.broker.settings.timing.releaseWindow)
		return
	}
	c.usable, c.current = nil, &request{Request: c.request, answers: c.answers}
	if c.session.submit(c.current) {
		c.arm(c.broker.settings.timing.releaseAttempt)
	} else {
		c.current = nil
		c.arm(c.pause.step())
	}
}

// arm sets the timer, which only one goroutine at a time uses, to fire after duration or at the end of the
// window. A value that its channel holds from before is recognised by coming before due.
func (c *releaseCall) arm(duration time.Duration) {
	now := time.Now()
	if left := c.deadline.Sub(now); left < duration {
		duration = left
	}
	c.due = now.Add(duration)
	c.timer.Stop()
	c.timer.Reset(duration)
}

// settle turns an answer into the release's outcome. It is not definite when the release must be
// sent again, which is safe: the exact token can release only this grant.
func (c *releaseCall) settle(a answer) (result error, definite bool) {
	if a.fate != replied {
		return nil, false
	}
	switch a.reply.Op {
	case wire.Released, wire.ReleasedSet:
		return nil, true
	case wire.NotHeld:
		return ErrNotHeld, true
	case wire.Refused:
		if !isNotServing(a.reply) {
			return &RejectedError{Code(a.reply.Code)}, true
		}
	}
	return nil, false
}
