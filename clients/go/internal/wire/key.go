package wire

import (
	"fmt"
	"sort"
	"unicode/utf8"
)

// CheckKey applies the key rule: 1–128 bytes of valid UTF-8 without space, LF or CR.
func CheckKey(key string) error {
	if len(key) < KeySizeBytesMin {
		return fmt.Errorf("a key is empty: give it %d to %d bytes", KeySizeBytesMin, KeySizeBytesMax)
	}
	if len(key) > KeySizeBytesMax {
		return fmt.Errorf("a key has %d bytes: at most %d are allowed", len(key), KeySizeBytesMax)
	}
	for i := 0; i < len(key); i++ {
		switch key[i] {
		case ' ', '\n', '\r':
			return fmt.Errorf("key %q has a space, LF or CR at byte %d: leave it out", key, i)
		}
	}
	if !utf8.ValidString(key) {
		return fmt.Errorf("key %q is not valid UTF-8", key)
	}
	return nil
}

// KeySet sorts keys bytewise, removes duplicates and checks the result. One key may remain: such a
// set is sent like a single key. The argument is not changed.
func KeySet(keys []string) ([]string, error) {
	sorted := make([]string, len(keys))
	copy(sorted, keys)
	sort.Strings(sorted) // Go compares strings bytewise, as the protocol does.
	unique := sorted[:0]
	for i, key := range sorted {
		if i > 0 && key == sorted[i-1] {
			continue
		}
		if err := CheckKey(key); err != nil {
			return nil, err
		}
		unique = append(unique, key)
	}
	if len(unique) == 0 {
		return nil, fmt.Errorf("a key set is empty: give it 1 to %d keys", SetKeyCountMax)
	}
	if len(unique) > SetKeyCountMax {
		return nil, fmt.Errorf("a key set has %d keys: at most %d are allowed", len(unique), SetKeyCountMax)
	}
	return unique, nil
}
