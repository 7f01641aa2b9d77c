package ticketing

import (
	"bufio"
	"errors"
	"net"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"ticketing.example/ticketing/internal/wire"
	"ticketing.example/ticketing/internal/wire/wiretest"
)

// BenchmarkPairs measures uncontended acquire+release pairs of 64 callers, each on its own key,
// against a server inside the test that grants everything. Run it long enough for a steady figure:
//
//	go test -run - -bench Pairs -benchtime 1000000x
func BenchmarkPairs(b *testing.B) {
	const callers = 64
	address, _ := serveGrants(b)
	broker, err := Open(address)
	if err != nil {
		b.Fatal(err)
	}
	defer broker.Close()
	if err := broker.Ready(background); err != nil {
		b.Fatal(err)
	}
	pairs(b, broker, callers, 10*callers)
	heapBefore := heapBytes()
	b.ReportAllocs()
	b.ResetTimer()
	pairs(b, broker, callers, b.N)
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
	b.ReportMetric(float64(heapBytes())-float64(heapBefore), "B-heap-growth")
}

// pairs shares count acquire+release pairs out to callers.
func pairs(t testing.TB, broker *Broker, callers, count int) {
	var left atomic.Int64
	left.Store(int64(count))
	var group sync.WaitGroup
	for caller := 0; caller < callers; caller++ {
		group.Add(1)
		go func(key string) {
			defer group.Done()
			for left.Add(-1) >= 0 {
				ticket, err := broker.Acquire(background, key, terms10)
				if err == nil {
					err = ticket.Release(background)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		}("bench-" + strconv.Itoa(caller))
	}
	group.Wait()
}

// Under load, too, every call is one request, and every release is confirmed.
func TestManyCallers(t *testing.T) {
	address, requests := serveGrants(t)
	broker, err := Open(address)
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	const count = 20_000
	pairs(t, broker, 64, count)
	if got := requests.Load(); got != 2*count {
		t.Errorf("%d requests for %d pairs", got, count)
	}
}

func heapBytes() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// serveGrants starts a server that grants and releases everything at once, and counts requests.
func serveGrants(t testing.TB) (address string, requests *atomic.Uint64) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	requests = new(atomic.Uint64)
	go func() {
		for {
			conn, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			go grantAll(conn, requests)
		}
	}()
	return listener.Addr().String(), requests
}

func grantAll(conn net.Conn, requests *atomic.Uint64) {
	defer conn.Close()
	if _, err := conn.Write(wiretest.Hello(0, wire.NoSlot, [16]byte{})); err != nil {
		return
	}
	input := bufio.NewReaderSize(conn, 64<<10)
	if _, err := input.Discard(wire.ProofSizeBytes); err != nil {
		return
	}
	output := []byte{1}
	for {
		if input.Buffered() == 0 {
			if _, err := conn.Write(output); err != nil {
				return
			}
			output = output[:0]
		}
		request, err := wiretest.ReadRequest(input)
		if err != nil {
			return
		}
		reply := wire.Reply{Op: wire.Op(request.Kind), ID: request.ID}
		if count := requests.Add(1); request.Kind.IsAcquire() {
			reply.Token = count
		}
		output = wiretest.AppendReply(output, reply)
	}
}
