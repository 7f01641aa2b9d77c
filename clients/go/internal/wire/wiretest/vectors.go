package wiretest

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
)

// Case is one golden vector. See vectors/README.md.
type Case struct {
	ID           string   `json:"id"`
	Note         string   `json:"note"`
	Direction    string   `json:"direction"`
	Mode         string   `json:"mode"`
	VoterCount   int      `json:"voter_count"`
	ExpectedSlot int      `json:"expected_slot"`
	RequestsHex  []string `json:"requests_hex"`
	Fields       Fields   `json:"fields"`
	Hex          string   `json:"hex"`
	Expect       string   `json:"expect"`
	Layer        string   `json:"layer"`
}

// Fields are the decoded values of a case.
type Fields map[string]any

// Load returns the cases of a topic.
func Load(t *testing.T, topic string) []Case {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	path := filepath.Join(filepath.Dir(here), "../../../../../vectors", topic+".json")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Format    int    `json:"format"`
		CaseCount int    `json:"case_count"`
		Cases     []Case `json:"cases"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatalf("%s: %v", topic, err)
	}
	if file.Format != 1 || file.CaseCount != len(file.Cases) || file.CaseCount == 0 {
		t.Fatalf("%s: format %d, %d cases of %d", topic, file.Format, len(file.Cases), file.CaseCount)
	}
	return file.Cases
}

// Bytes decodes hex digits.
func Bytes(t *testing.T, digits string) []byte {
	t.Helper()
	bytes, err := hex.DecodeString(digits)
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

// Number is a numeric field; 0 if the case has none of that name.
func (f Fields) Number(t *testing.T, name string) uint64 {
	t.Helper()
	text, ok := f[name].(string)
	if !ok {
		return 0
	}
	number, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return number
}

// Bytes is a field in hex.
func (f Fields) Bytes(t *testing.T, name string) []byte {
	t.Helper()
	digits, ok := f[name].(string)
	if !ok {
		t.Fatalf("no field %s", name)
	}
	return Bytes(t, digits)
}

// Keys are the key or the keys of a request.
func (f Fields) Keys(t *testing.T) []string {
	t.Helper()
	if _, ok := f["key_hex"]; ok {
		return []string{string(f.Bytes(t, "key_hex"))}
	}
	var keys []string
	for _, digits := range f["keys_hex"].([]any) {
		keys = append(keys, string(Bytes(t, digits.(string))))
	}
	return keys
}
