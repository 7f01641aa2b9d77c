package ticketing_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"ticketing.example/ticketing"
)

func ExampleOpen() {
	broker, err := ticketing.Open("127.0.0.1:5225")
	if err != nil {
		log.Fatal(err)
	}
	defer broker.Close()

	ctx := context.Background()
	ticket, err := broker.Acquire(ctx, "order-1234", ticketing.AcquireOptions{
		Wait:  5 * time.Second,
		Lease: 30 * time.Second,
	})
	switch {
	case errors.Is(err, ticketing.ErrTimeout):
		log.Print("somebody else holds it")
	case err != nil:
		log.Fatal(err)
	default:
		defer ticket.Release(ctx)
		fmt.Println("fencing token", ticket.Token())
	}
}

func ExampleTicket_ValidBefore() {
	var ticket *ticketing.Ticket // From Broker.Acquire.
	work := func(ctx context.Context, fence uint64) error { return nil }

	ctx, cancel := context.WithDeadline(context.Background(), ticket.ValidBefore())
	defer cancel()
	if err := work(ctx, ticket.Token()); err != nil {
		log.Print(err)
	}
}
