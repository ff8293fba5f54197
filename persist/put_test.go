package persist

import (
	"strings"
	"testing"

	"go.etcd.io/bbolt"
)

// What the database would refuse is refused before it is in the log, from where nobody could take it back.
func TestPutRefuses(t *testing.T) {
	long := make([]byte, bbolt.MaxKeySize+1)
	for name, put := range map[string]func(p *puts) error{
		"no bucket":              func(p *puts) error { return p.put("", []byte("k"), []byte("v")) },
		"a bucket of long name":  func(p *puts) error { return p.put(string(long), []byte("k"), []byte("v")) },
		"the bucket of our own":  func(p *puts) error { return p.put(metaBucket, []byte("k"), nil) },
		"no key":                 func(p *puts) error { return p.put("b", nil, []byte("v")) },
		"a long key":             func(p *puts) error { return p.put("b", long, []byte("v")) },
		"no key to delete":       func(p *puts) error { return p.put("b", nil, nil) },
		"a batch that has ended": func(p *puts) error { p.closed = true; return p.put("b", []byte("k"), nil) },
	} {
		var p puts
		if err := put(&p); err == nil || len(p.batch.Bytes()) > 0 {
			t.Errorf("%s: got %v and %d bytes, want an error alone", name, err, len(p.batch.Bytes()))
		}
	}
	// The longest of all pass, and the database takes them.
	s := mustOpen(t, hastyConfig(dbPath(t)))
	err := s.Commit(func(put put) error { return put(strings.Repeat("b", 300), long[:bbolt.MaxKeySize], []byte{}) })
	if err != nil {
		t.Error(err)
	}
}
