// Command conformance-driver exposes the client's public API on standard input and output, for the
// project's conformance suite. The contract is conformance/DRIVER.md.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"ticketing.example/ticketing"
)

var errBadCommand = errors.New("BadCommand")

// names maps the client's errors to those of the contract. Order matters: first match wins.
var names = []struct {
	err  error
	name string
}{
	{errBadCommand, "BadCommand"},
	{ticketing.ErrInvalidInput, "InvalidInput"},
	{ticketing.ErrClientCapacity, "ClientCapacity"},
	{ticketing.ErrCancelled, "Cancelled"},
	{ticketing.ErrClosed, "Closed"},
	{ticketing.ErrTimeout, "Timeout"},
	{ticketing.ErrBusy, "Busy"},
	{ticketing.ErrNotConnected, "NotConnected"},
	{ticketing.ErrUnauthorized, "Unauthorized"},
	{ticketing.ErrNoLeader, "NoLeader"},
	{ticketing.ErrInsufficientLease, "InsufficientLease"},
	{ticketing.ErrIndeterminate, "Indeterminate"},
	{ticketing.ErrReleaseUnconfirmed, "ReleaseUnconfirmed"},
}

func name(err error) string {
	var rejected *ticketing.RejectedError
	if errors.As(err, &rejected) {
		return fmt.Sprintf("Rejected %d", rejected.Code)
	}
	for _, known := range names {
		if errors.Is(err, known.err) {
			return known.name
		}
	}
	return "Unknown"
}

type driver struct {
	mu      sync.Mutex
	output  *bufio.Writer
	brokers map[string]*ticketing.Broker
	cancels map[string]context.CancelFunc
	tickets map[string]*ticketing.Ticket
}

func main() {
	d := &driver{
		output:  bufio.NewWriter(os.Stdout),
		brokers: make(map[string]*ticketing.Broker),
		cancels: make(map[string]context.CancelFunc),
		tickets: make(map[string]*ticketing.Ticket),
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if line := strings.TrimRight(lines.Text(), "\r"); line != "" {
			d.command(line)
		}
	}
	for _, broker := range d.brokers {
		broker.Close()
	}
}

// command starts one command. What later commands refer to is in place when it returns.
func (d *driver) command(line string) {
	words := strings.Split(line, " ")
	if len(words) < 2 {
		d.fail(words[0], errBadCommand)
		return
	}
	tag := words[1]
	options, err := parse(words[0], words[2:])
	if err != nil {
		d.fail(tag, err)
		return
	}
	switch words[0] {
	case "open":
		d.open(tag, options)
	case "acquire", "acquire-set":
		ctx, cancel := context.WithCancel(context.Background())
		d.mu.Lock()
		d.cancels[tag] = cancel
		d.mu.Unlock()
		go d.acquire(ctx, tag, options)
	case "cancel":
		d.mu.Lock()
		cancel := d.cancels[options["target"]]
		d.mu.Unlock()
		if cancel == nil {
			d.fail(tag, errBadCommand)
			return
		}
		d.say("%s ok", tag)
		cancel()
	case "drop":
		if ticket := d.ticket(options); ticket != nil {
			ticket.Abandon()
			d.say("%s ok", tag)
		} else {
			d.fail(tag, errBadCommand)
		}
	case "ready":
		go d.ready(tag, options)
	case "release":
		go d.release(tag, options)
	case "close":
		go d.close(tag, options)
	case "pairs":
		go d.pairs(tag, options)
	}
}

// known lists the options of every verb.
var known = map[string]string{
	"open":        " addrs mode fingerprint token tls server_name pending ",
	"ready":       " broker timeout_ms ",
	"acquire":     " broker key wait_ms lease budget_ms ",
	"acquire-set": " broker keys wait_ms lease budget_ms ",
	"cancel":      " target ",
	"release":     " ticket ",
	"drop":        " ticket ",
	"close":       " broker ",
	"pairs":       " broker key callers count ",
}

func parse(verb string, words []string) (map[string]string, error) {
	allowed, ok := known[verb]
	if !ok {
		return nil, errBadCommand
	}
	options := make(map[string]string)
	for _, word := range words {
		name, value, ok := strings.Cut(word, "=")
		if !ok || !strings.Contains(allowed, " "+name+" ") {
			return nil, errBadCommand
		}
		options[name] = value
	}
	return options, nil
}

func (d *driver) say(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprintf(d.output, format+"\n", args...)
	d.output.Flush()
}

func (d *driver) fail(tag string, err error) {
	d.say("%s error %s", tag, name(err))
	if !errors.Is(err, errBadCommand) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", tag, err)
	}
}

func (d *driver) open(tag string, options map[string]string) {
	broker, err := open(options)
	if err != nil {
		d.fail(tag, err)
		return
	}
	d.mu.Lock()
	d.brokers[tag] = broker
	d.mu.Unlock()
	d.say("%s ok", tag)
}

func open(options map[string]string) (*ticketing.Broker, error) {
	settings, err := settings(options)
	if err != nil {
		return nil, err
	}
	switch options["mode"] {
	case "single":
		if options["fingerprint"] != "" {
			return nil, ticketing.ErrInvalidInput // Open takes none.
		}
		return ticketing.Open(options["addrs"], settings...)
	case "cluster":
		fingerprint, err := ticketing.ParseFingerprint(options["fingerprint"])
		if err != nil {
			return nil, err
		}
		return ticketing.OpenCluster(fingerprint, strings.Split(options["addrs"], ","), settings...)
	}
	return nil, errBadCommand
}

func settings(options map[string]string) ([]ticketing.Option, error) {
	var settings []ticketing.Option
	if digits, ok := options["token"]; ok {
		token, err := bytes(digits)
		if err != nil {
			return nil, err
		}
		settings = append(settings, ticketing.WithToken(token))
	}
	if _, ok := options["pending"]; ok {
		count, err := number(options, "pending")
		if err != nil {
			return nil, err
		}
		settings = append(settings, ticketing.WithPendingLimit(count))
	}
	config, err := tlsConfig(options["tls"])
	if err != nil {
		return nil, err
	}
	if config != nil {
		config.ServerName = options["server_name"]
		settings = append(settings, ticketing.WithTLS(config))
	}
	return settings, nil
}

func tlsConfig(kind string) (*tls.Config, error) {
	switch {
	case kind == "" || kind == "off":
		return nil, nil
	case kind == "system":
		return &tls.Config{}, nil
	case kind == "insecure":
		return &tls.Config{InsecureSkipVerify: true}, nil
	case strings.HasPrefix(kind, "ca:"):
		return ticketing.TrustCAFile(strings.TrimPrefix(kind, "ca:"))
	}
	return nil, errBadCommand
}

func bytes(digits string) ([]byte, error) {
	if digits == "-" {
		return nil, nil
	}
	bytes, err := hex.DecodeString(digits)
	if err != nil {
		return nil, errBadCommand
	}
	return bytes, nil
}

func number(options map[string]string, name string) (int, error) {
	count, err := strconv.Atoi(options[name])
	if err != nil {
		return 0, errBadCommand
	}
	return count, nil
}

func (d *driver) broker(options map[string]string) *ticketing.Broker {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.brokers[options["broker"]]
}

func (d *driver) ticket(options map[string]string) *ticketing.Ticket {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tickets[options["ticket"]]
}

func (d *driver) ready(tag string, options map[string]string) {
	broker := d.broker(options)
	timeout, err := number(options, "timeout_ms")
	if broker == nil || err != nil {
		d.fail(tag, errBadCommand)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(timeout)*time.Millisecond)
	defer cancel()
	if err := broker.Ready(ctx); err != nil {
		d.fail(tag, err)
		return
	}
	d.say("%s ok", tag)
}

func (d *driver) acquire(ctx context.Context, tag string, options map[string]string) {
	ticket, err := d.tryAcquire(ctx, options)
	if err != nil {
		d.fail(tag, err)
		return
	}
	d.mu.Lock()
	d.tickets[tag] = ticket
	d.mu.Unlock()
	d.say("%s granted token=%d remaining_ms=%d", tag, ticket.Token(), ticket.Remaining().Milliseconds())
}

func (d *driver) tryAcquire(ctx context.Context, options map[string]string) (*ticketing.Ticket, error) {
	broker := d.broker(options)
	terms, err := terms(options)
	if broker == nil || err != nil {
		return nil, errBadCommand
	}
	if digits, ok := options["key"]; ok {
		key, err := bytes(digits)
		if err != nil {
			return nil, err
		}
		return broker.Acquire(ctx, string(key), terms)
	}
	var keys []string
	for _, digits := range strings.Split(options["keys"], ",") {
		key, err := bytes(digits)
		if err != nil {
			return nil, err
		}
		keys = append(keys, string(key))
	}
	return broker.AcquireSet(ctx, keys, terms)
}

func terms(options map[string]string) (ticketing.AcquireOptions, error) {
	wait, err := number(options, "wait_ms")
	if err != nil {
		return ticketing.AcquireOptions{}, err
	}
	lease, err := number(options, "lease")
	if err != nil {
		return ticketing.AcquireOptions{}, err
	}
	budget := 0
	if _, ok := options["budget_ms"]; ok {
		if budget, err = number(options, "budget_ms"); err != nil {
			return ticketing.AcquireOptions{}, err
		}
	}
	return ticketing.AcquireOptions{
		Wait:   time.Duration(wait) * time.Millisecond,
		Lease:  time.Duration(lease) * time.Second,
		Budget: time.Duration(budget) * time.Millisecond,
	}, nil
}

func (d *driver) release(tag string, options map[string]string) {
	ticket := d.ticket(options)
	if ticket == nil {
		d.fail(tag, errBadCommand)
		return
	}
	switch err := ticket.Release(context.Background()); {
	case err == nil:
		d.say("%s released", tag)
	case errors.Is(err, ticketing.ErrNotHeld):
		d.say("%s not-held", tag)
	default:
		d.fail(tag, err)
	}
}

func (d *driver) close(tag string, options map[string]string) {
	broker := d.broker(options)
	if broker == nil {
		d.fail(tag, errBadCommand)
		return
	}
	broker.Close()
	d.say("%s ok", tag)
}

func (d *driver) pairs(tag string, options map[string]string) {
	broker := d.broker(options)
	key, err := bytes(options["key"])
	callers, err2 := number(options, "callers")
	count, err3 := number(options, "count")
	if broker == nil || callers < 1 || errors.Join(err, err2, err3) != nil {
		d.fail(tag, errBadCommand)
		return
	}
	began := time.Now()
	failed := runPairs(broker, string(key), callers, count)
	d.say("%s pairs count=%d failed=%d nanoseconds=%d", tag, count, failed, time.Since(began).Nanoseconds())
}

// runPairs shares count acquire+release pairs out to callers and returns how many failed.
func runPairs(broker *ticketing.Broker, prefix string, callers, count int) int {
	terms := ticketing.AcquireOptions{Wait: 5 * time.Second, Lease: 30 * time.Second}
	failures := make(chan int)
	for caller := 0; caller < callers; caller++ {
		share := count / callers
		if caller < count%callers {
			share++
		}
		go func(key string, share int) {
			failed := 0
			for i := 0; i < share; i++ {
				ticket, err := broker.Acquire(context.Background(), key, terms)
				if err == nil {
					err = ticket.Release(context.Background())
				}
				if err != nil {
					failed++
				}
			}
			failures <- failed
		}(prefix+strconv.Itoa(caller), share)
	}
	failed := 0
	for caller := 0; caller < callers; caller++ {
		failed += <-failures
	}
	return failed
}
