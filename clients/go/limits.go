package ticketing

import (
	"time"

	"ticketing.example/ticketing/internal/wire"
)

const (
	pendingLimitDefault      = 1024
	releaseQueueLimitDefault = 1024
	callLimitMax             = 16_384 // The highest either limit may be set to.

	// outstandingMax bounds the unanswered requests of one session: every acquire a broker may have,
	// and as many attempts of releases. A server that leaves more unanswered has stopped serving.
	outstandingMax = 2 * callLimitMax

	// connectionsSingle is how many connections a single address gets, so that one broken socket
	// does not interrupt service.
	connectionsSingle = 2

	// batchSizeBytesMax bounds what one write hands to the socket, and so what a broken connection
	// makes indeterminate at once.
	batchSizeBytesMax = 64 << 10
	readSizeBytes     = 32 << 10

	// waitMax and the lease bounds are the protocol's.
	waitMax  = wire.WaitSecondsMax * time.Second
	leaseMin = wire.LeaseSecondsMin * time.Second
	leaseMax = wire.LeaseSecondsMax * time.Second
)

// timing holds every duration of the client, so that tests can shorten them.
type timing struct {
	connect        time.Duration // TCP connect.
	handshake      time.Duration // TLS and challenge–response together.
	backoffMin     time.Duration // First pause before reconnecting; doubles.
	backoffMax     time.Duration
	sessionLong    time.Duration // A session that lasted this long starts back-off again.
	immediateFind  time.Duration // How long an acquire with wait 0 may look for a server.
	answerGrace    time.Duration // Beyond the wait sent, until a sent acquire is indeterminate.
	releaseWindow  time.Duration // From the release call.
	releaseAttempt time.Duration // Without an answer, until a release is sent again.
	retryMin       time.Duration // Pause between attempts of one call; doubles.
	retryMax       time.Duration
	closeDrain     time.Duration // How long Close lets releases finish.
}

var timingDefault = timing{
	connect:        5 * time.Second,
	handshake:      10 * time.Second,
	backoffMin:     100 * time.Millisecond,
	backoffMax:     3200 * time.Millisecond,
	sessionLong:    time.Second,
	immediateFind:  5 * time.Second,
	answerGrace:    5 * time.Second,
	releaseWindow:  5 * time.Second,
	releaseAttempt: 2 * time.Second,
	retryMin:       10 * time.Millisecond,
	retryMax:       100 * time.Millisecond,
	closeDrain:     5 * time.Second,
}
