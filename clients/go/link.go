package ticketing

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"ticketing.example/ticketing/internal/wire"
)

// link is the place of one connection: it connects, serves, and reconnects until the broker closes.
type link struct {
	broker   *Broker
	address  string
	host     string
	slot     int // In a cluster; -1 in single mode.
	identity wire.Identity
	current  atomic.Pointer[session] // Nil while the link is not usable.
}

func (l *link) run(ctx context.Context) {
	backoff := newBackoff(&l.broker.settings.timing)
	for {
		conn, err := l.connect(ctx)
		if err == nil {
			began := time.Now()
			err = l.serve(ctx, conn)
			backoff.sessionLasted(time.Since(began))
		}
		l.broker.noteFailure(fmt.Errorf("%s: %w", l.address, err))
		if !sleep(ctx, backoff.next()) {
			return
		}
	}
}

// backoff is the growing pause before reconnecting.
type backoff struct {
	timing *timing
	length time.Duration
}

func newBackoff(t *timing) backoff { return backoff{t, t.backoffMin} }

// next returns the next pause.
func (b *backoff) next() time.Duration {
	length := b.length
	if b.length *= 2; b.length > b.timing.backoffMax {
		b.length = b.timing.backoffMax
	}
	return length
}

// sessionLasted starts again after a session that was no mere flicker.
func (b *backoff) sessionLasted(duration time.Duration) {
	if duration >= b.timing.sessionLong {
		b.length = b.timing.backoffMin
	}
}

// connect returns a connection after its handshake.
func (l *link) connect(ctx context.Context) (net.Conn, error) {
	settings := l.broker.settings
	dialer := net.Dialer{Timeout: settings.timing.connect}
	tcp, err := dialer.DialContext(ctx, "tcp", l.address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { tcp.Close() })
	defer stop()
	conn := tcp
	if settings.tls != nil {
		config := settings.tls.Clone()
		if config.ServerName == "" {
			config.ServerName = l.host
		}
		conn = tls.Client(conn, config)
	}
	if err := l.handshake(conn); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

func (l *link) handshake(conn net.Conn) error {
	settings := l.broker.settings
	if err := conn.SetDeadline(time.Now().Add(settings.timing.handshake)); err != nil {
		return err
	}
	if secured, ok := conn.(*tls.Conn); ok {
		if err := secured.Handshake(); err != nil {
			return fmt.Errorf("TLS handshake: %w", err)
		}
	}
	err := l.identity.Handshake(conn, settings.token)
	if err == nil || errors.Is(err, wire.ErrRefused) {
		l.broker.refused.Store(err != nil)
	}
	if err != nil {
		return err
	}
	return conn.SetDeadline(time.Time{})
}

func (l *link) serve(ctx context.Context, conn net.Conn) error {
	session := newSession(l, conn)
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	l.current.Store(session)
	l.broker.announceUsable()
	return session.serve()
}

// withdraw makes the link unusable. Called before the session's requests learn of their loss, so
// that none of them chooses it again.
func (l *link) withdraw() {
	l.current.Store(nil)
	l.broker.forgetLeader(l.slot)
}

// sleep waits, and reports false at once when the context ends.
func sleep(ctx context.Context, duration time.Duration) bool {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
