package ticketing

import (
	"errors"
	"strings"
	"testing"
)

func TestAddresses(t *testing.T) {
	token := WithToken(make([]byte, 16))
	for _, c := range []struct {
		address string
		options []Option
		valid   bool
	}{
		{"127.0.0.1:5225", nil, true},
		{"127.9.9.9:1", nil, true},
		{"localhost:65535", nil, true},
		{"[::1]:5225", nil, true},
		{"locks.example:5225", []Option{token}, true},
		{"locks.example:5225", nil, false},
		{"192.0.2.1:5225", nil, false},
		{"127.0.0.1", []Option{token}, false},
		{"127.0.0.1:", []Option{token}, false},
		{"127.0.0.1:0", []Option{token}, false},
		{"127.0.0.1:65536", []Option{token}, false},
		{"127.0.0.1:http", []Option{token}, false},
		{"::1:5225", []Option{token}, false},
		{":5225", []Option{token}, false},
		{"a:1,b:2", []Option{token}, false},
		{"", nil, false},
	} {
		_, err := newSettings([]string{c.address}, Domain{}, c.options)
		if (err == nil) != c.valid || (err != nil && !errors.Is(err, ErrInvalidInput)) {
			t.Errorf("%q: %v", c.address, err)
		}
	}
}

func TestSettings(t *testing.T) {
	for name, c := range map[string]struct {
		option Option
		valid  bool
	}{
		"token 15":      {WithToken(make([]byte, 15)), false},
		"token 16":      {WithToken(make([]byte, 16)), true},
		"token 4096":    {WithToken(make([]byte, 4096)), true},
		"token 4097":    {WithToken(make([]byte, 4097)), false},
		"token nil":     {WithToken(nil), false},
		"pending 0":     {WithPendingLimit(0), false},
		"pending 1":     {WithPendingLimit(1), true},
		"pending 16384": {WithPendingLimit(16_384), true},
		"pending 16385": {WithPendingLimit(16_385), false},
		"release 0":     {WithReleaseQueueLimit(0), false},
		"release 1":     {WithReleaseQueueLimit(1), true},
		"release 16385": {WithReleaseQueueLimit(16_385), false},
	} {
		_, err := newSettings([]string{"127.0.0.1:1"}, Domain{}, []Option{c.option})
		if (err == nil) != c.valid || (err != nil && !errors.Is(err, ErrInvalidInput)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestClusterSettings(t *testing.T) {
	for count := 0; count < 7; count++ {
		var addresses []string
		for len(addresses) < count {
			addresses = append(addresses, "127.0.0.1:1")
		}
		broker, err := OpenCluster(Fingerprint{}, addresses)
		if (err == nil) != (count == 3 || count == 5) {
			t.Errorf("%d addresses: %v", count, err)
		}
		if err == nil {
			broker.Close()
		}
	}
	digits := strings.Repeat("0a", 32)
	fingerprint, err := ParseFingerprint(digits)
	if err != nil || fingerprint.String() != digits {
		t.Errorf("%v, %v", fingerprint, err)
	}
	for _, wrong := range []string{"", digits[2:], digits + "00", "x" + digits[1:]} {
		if _, err := ParseFingerprint(wrong); !errors.Is(err, ErrInvalidInput) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

func TestDomains(t *testing.T) {
	single, cluster := Domain{}, Domain{true, Fingerprint{1}}
	if _, ok := single.Fingerprint(); ok || single.String() != "single" {
		t.Error(single)
	}
	if got, ok := cluster.Fingerprint(); !ok || got != (Fingerprint{1}) || cluster == (Domain{true, Fingerprint{2}}) {
		t.Error(cluster)
	}
}
