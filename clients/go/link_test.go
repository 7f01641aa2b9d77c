package ticketing

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"ticketing.example/ticketing/internal/wire"
	"ticketing.example/ticketing/internal/wire/wiretest"
)

func TestBackoff(t *testing.T) {
	b := newBackoff(&timingDefault)
	var pauses []time.Duration
	for i := 0; i < 7; i++ {
		pauses = append(pauses, b.next())
	}
	for i, want := range []time.Duration{100, 200, 400, 800, 1600, 3200, 3200} {
		if pauses[i] != want*time.Millisecond {
			t.Fatalf("pauses %v", pauses)
		}
	}
	b.sessionLasted(timingDefault.sessionLong - 1)
	if got := b.next(); got != timingDefault.backoffMax {
		t.Fatalf("%v after a short session", got)
	}
	b.sessionLasted(timingDefault.sessionLong)
	if got := b.next(); got != timingDefault.backoffMin {
		t.Fatalf("%v after a long session", got)
	}
}

func TestReconnectsAfterEveryFault(t *testing.T) {
	s, broker, peers := pair(t)
	faults := map[string]func(*peer){
		"cut":        func(p *peer) { p.Close() },
		"unknown id": func(p *peer) { p.reply(wire.Reply{Op: wire.Released, ID: 9}) },
		"garbage":    func(p *peer) { p.write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) },
		"leader":     func(p *peer) { p.reply(wire.Reply{Op: wire.Leader, Slot: wire.NoSlot}) },
	}
	for name, fault := range faults {
		t.Log(name)
		fault(peers[0])
		peers[0].expectClosedOrCut()
		peers[0] = s.accept()
		waitUsable(t, broker, 2)
	}
	for _, hello := range [][]byte{
		[]byte("HTTP/1.1 400 Bad Request\r\n\r\n"),
		wiretest.Hello(1, 0, [16]byte{}),
		wiretest.Hello(0, 0, [16]byte{}),
	} {
		peers[0].Close()
		conn, err := s.listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		peers[0] = &peer{t, conn}
		peers[0].write(hello)
		peers[0].expectClosedOrCut()
	}
	peers[0] = s.accept()
	waitUsable(t, broker, 2)
}

// expectClosedOrCut waits until the client has closed the connection, whatever its end looks like.
func (p *peer) expectClosedOrCut() {
	p.t.Helper()
	if err := p.SetDeadline(time.Now().Add(patience)); errors.Is(err, net.ErrClosed) {
		return
	}
	p.expectClosed()
	p.Close()
}

// cluster starts a broker for scripts in the slots, and returns their ends in slot order.
func cluster(t *testing.T, voters int) (*Broker, []*script, []*peer) {
	t.Helper()
	var scripts []*script
	var addresses []string
	for slot := 0; slot < voters; slot++ {
		s := listen(t)
		s.mode, s.slot = 1, byte(slot)
		scripts, addresses = append(scripts, s), append(addresses, s.address())
	}
	broker, err := OpenCluster(Fingerprint{7}, addresses, withTiming(fast))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { broker.Close() })
	var peers []*peer
	for _, s := range scripts {
		peers = append(peers, s.accept())
	}
	waitUsable(t, broker, voters)
	return broker, scripts, peers
}

func TestRoundRobinWithoutALeader(t *testing.T) {
	broker, _, peers := cluster(t, 3)
	requests := arrivals(peers...)
	seen := make(map[*peer]int)
	for i := 0; i < 6; i++ {
		done := acquire(background, broker, "k", terms10)
		request := next(t, requests)
		seen[request.from]++
		request.from.reply(wire.Reply{Op: wire.TimedOut, ID: request.ID})
		expect(t, await(t, done).err, ErrTimeout)
	}
	for slot, p := range peers {
		if seen[p] != 2 {
			t.Errorf("slot %d got %d of 6 requests", slot, seen[p])
		}
	}
}

func TestFollowsTheLeader(t *testing.T) {
	broker, scripts, peers := cluster(t, 3)
	requests := arrivals(peers...)
	// M names slot 2: the retry and all later requests go there.
	done := acquire(background, broker, "k", terms10)
	request := next(t, requests)
	for request.from == peers[2] {
		request.from.reply(wire.Reply{Op: wire.Moved, ID: request.ID, Slot: wire.NoSlot})
		request = next(t, requests)
	}
	request.from.reply(wire.Reply{Op: wire.Moved, ID: request.ID, Slot: 2})
	for i := 0; i < 4; i++ {
		request = next(t, requests)
		if request.from != peers[2] {
			t.Fatal("not sent to the leader")
		}
		request.from.reply(wire.Reply{Op: wire.TimedOut, ID: request.ID})
		expect(t, await(t, done).err, ErrTimeout)
		done = acquire(background, broker, "k", terms10)
	}
	// The leader's connection breaks while it has that request: forgotten.
	next(t, requests).from.Close()
	expect(t, await(t, done).err, ErrIndeterminate)
	if broker.leader.Load() != noLeader {
		t.Fatal("a lost leader is remembered")
	}
	peers[2] = scripts[2].accept()
	waitUsable(t, broker, 3)
	requests = arrivals(peers[2])
	// A leader that says it is none is forgotten as well.
	for _, code := range []uint8{wire.NoLeader, wire.NotActive} {
		setLeader(t, broker, peers[1], 2)
		ctx, cancel := context.WithCancel(background)
		done = acquire(ctx, broker, "k", terms10)
		request = next(t, requests)
		request.from.reply(wire.Reply{Op: wire.Refused, ID: request.ID, Code: code})
		waitLeader(t, broker, noLeader)
		cancel()
		expect(t, await(t, done).err, ErrCancelled)
	}
	// L names and forgets leaders.
	for _, slot := range []uint8{1, wire.NoSlot, 0} {
		setLeader(t, broker, peers[1], slot)
	}
}

// setLeader has a node announce the leader, and waits until the broker knows.
func setLeader(t *testing.T, broker *Broker, from *peer, slot uint8) {
	t.Helper()
	from.reply(wire.Reply{Op: wire.Leader, Slot: slot})
	if slot == wire.NoSlot {
		waitLeader(t, broker, noLeader)
	} else {
		waitLeader(t, broker, int32(slot))
	}
}

func waitLeader(t *testing.T, broker *Broker, want int32) {
	t.Helper()
	for deadline := time.Now().Add(patience); broker.leader.Load() != want; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("leader %d, want %d", broker.leader.Load(), want)
		}
	}
}

func TestClusterRejectsAStrangeSlot(t *testing.T) {
	_, _, peers := cluster(t, 3)
	peers[0].reply(wire.Reply{Op: wire.Leader, Slot: 3})
	peers[0].expectClosed()
}
