// Package ticketing is the client of the Ticketing lock server: fair distributed locks with leases
// and fencing tokens.
//
//	broker, err := ticketing.Open("127.0.0.1:5225")
//	if err != nil { ... }
//	defer broker.Close()
//
//	ticket, err := broker.Acquire(ctx, "order-1234", ticketing.AcquireOptions{
//		Wait:  5 * time.Second,  // how long to queue
//		Lease: 30 * time.Second, // how long the lock lasts if it is never released
//	})
//	if err != nil { ... }
//	defer ticket.Release(ctx)
//
// # Fencing
//
// A lock with a lease can end while its holder is paused. So pass Ticket.Token with every write to
// the protected resource, and have the resource refuse a token below the highest it has seen, in
// the same transaction as the write. Do not act on the lock after Ticket.ValidBefore.
//
// # Errors
//
// Every error matches one of the Err variables by errors.Is, which tells what is known about the
// lock. After ErrIndeterminate the lock may be held by this process without its knowledge: do not
// enter the critical section.
//
// # Time
//
// Deadlines are counted on Go's monotonic clock. On Linux it stands still while the machine is
// suspended; the server's lease does not. The fencing token covers that case.
package ticketing
