package ticketing

import (
	"errors"
	"fmt"

	"ticketing.example/ticketing/internal/wire"
)

// What a call may end with, for errors.Is. Each says what is known about the lock.
var (
	// ErrInvalidInput: an argument breaks a rule. Nothing was sent.
	ErrInvalidInput = errors.New("ticketing: invalid input")
	// ErrClientCapacity: this broker has as many acquires or releases in progress as it may.
	// Nothing was sent.
	ErrClientCapacity = errors.New("ticketing: too many requests in progress in this client")
	// ErrCancelled: the context ended. After Acquire the lock is not held, and whatever the server
	// may have granted is being released; after Release the release goes on in the background. The
	// error also matches the context's own (context.Canceled, context.DeadlineExceeded) and its
	// cause (context.Cause).
	ErrCancelled = errors.New("ticketing: cancelled")
	// ErrClosed: the broker is closed. Nothing was sent.
	ErrClosed = errors.New("ticketing: broker is closed")
	// ErrTimeout: the turn did not come within Wait. Not held, and this request can never be
	// granted.
	ErrTimeout = errors.New("ticketing: the turn did not come within the wait; wait longer or try again")
	// ErrBusy: the server is at capacity. Not held.
	ErrBusy = errors.New("ticketing: the server is at capacity; try again later or raise its limits")
	// ErrNotConnected: no server was reachable. Not held.
	ErrNotConnected = errors.New("ticketing: no server is reachable")
	// ErrUnauthorized: the server refused the token. Not held.
	ErrUnauthorized = errors.New("ticketing: the server refused the token, or its cluster has another fingerprint; " +
		"give the client those that the server accepts")
	// ErrNoLeader: the cluster has no leader that serves, or a restarted single server still waits for
	// the leases of its predecessor to end. Not held.
	ErrNoLeader = errors.New("ticketing: no server grants now: a restarted single server waits until its " +
		"predecessor's leases are over, a cluster needs a majority of its nodes; wait longer or try again")
	// ErrRejected: the server refused the request's values; the error is a *RejectedError. Not
	// held after Acquire, not released after Release.
	ErrRejected = errors.New("ticketing: server rejected the request")
	// ErrInsufficientLease: granted with less lease left than Budget; the lock is being released.
	ErrInsufficientLease = errors.New("ticketing: too little of the lease is left")
	// ErrIndeterminate: unknown whether the lock is held. Do not enter the critical section; at
	// worst the lease ends the lock.
	ErrIndeterminate = errors.New("ticketing: unknown whether the lock was granted")
	// ErrNotHeld: Release only. The token holds nothing any more: the lease ended, or an earlier
	// attempt of the same release was effective and its answer got lost.
	ErrNotHeld = errors.New("ticketing: lock is not held any more")
	// ErrReleaseUnconfirmed: Release only. Unknown whether the lock was released; the lease ends
	// it.
	ErrReleaseUnconfirmed = errors.New("ticketing: release was not confirmed")
)

// Code says why the server rejected a request.
type Code uint8

// The codes of the protocol. NotActive and NoLeader are retried and never reach a caller.
const (
	CodeBadKey        Code = wire.BadKey        // A key breaks the key rule.
	CodeBadLease      Code = wire.BadLease      // The lease is 0 or above 250 s.
	CodeBadKeySet     Code = wire.BadKeySet     // The set has not 2–16 ascending keys.
	CodeGroupMismatch Code = wire.GroupMismatch // The token was granted for another set of keys.
	CodeBadToken      Code = wire.BadToken      // The token is 0.
)

// String is the code's name on the protocol page.
func (c Code) String() string {
	switch c {
	case CodeBadKey:
		return "BadKey"
	case CodeBadLease:
		return "BadLease"
	case CodeBadKeySet:
		return "BadKeySet"
	case CodeGroupMismatch:
		return "GroupMismatch"
	case CodeBadToken:
		return "BadToken"
	}
	return fmt.Sprintf("Code(%d)", uint8(c))
}

// RejectedError is the error of a request whose values the server refused. It matches ErrRejected.
type RejectedError struct {
	Code Code
}

// Error names the code.
func (e *RejectedError) Error() string {
	return fmt.Sprintf("%v: %v (code %d)", ErrRejected, e.Code, uint8(e.Code))
}

// Is makes errors.Is(err, ErrRejected) true.
func (e *RejectedError) Is(target error) bool { return target == ErrRejected }

func invalid(cause error) error { return fmt.Errorf("%w: %w", ErrInvalidInput, cause) }

func invalidf(format string, args ...any) error { return invalid(fmt.Errorf(format, args...)) }
