package startover

import (
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/persist"
	"github.com/ringlet/ringlet/plugin/plugintest"
)

func TestOf(t *testing.T) {
	a := &Error{}
	for err, want := range map[error]*Error{nil: nil, errors.New("x"): nil, a: a, errors.Join(errors.New("x"), a): a} {
		if got := Of(err); got != want {
			t.Errorf("of %v: %v", err, got)
		}
	}
}

// A host that is a member of its cluster does not start over, and goes on.
func TestMemberDoesNotStartOver(t *testing.T) {
	store, n := plugintest.Open(t, t.TempDir())
	defer store.Close()
	for _, dryRun := range []bool{true, false} {
		if _, err := Rejoin(t.Context(), n, dryRun); ipam.Code(err) == "" {
			t.Errorf("dry run %v: %v", dryRun, err)
		}
	}
	if _, _, err := n.CreatePool(t.Context(), netip.MustParsePrefix("10.50.0.0/24"), ""); err != nil {
		t.Errorf("the host does not go on: %v", err)
	}
}

// Another database takes the place of the former one, which is kept; where that fails the former one stays.
func TestSucceed(t *testing.T) {
	broken := errors.New("the disk is full")
	for _, want := range []error{nil, broken} {
		dir := t.TempDir()
		store, n := plugintest.Open(t, dir)
		id, err := n.Identity(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n.Stop()
		a := &Error{former: id, done: make(chan struct{})}
		committed := 0
		a.Succeed(store, func(*persist.Store, *ipam.Remains) error { committed++; return want }, slog.New(slog.DiscardHandler))
		a.Settle()
		<-a.done
		if committed != 1 || !errors.Is(a.err, want) || (a.kept == "") == (want == nil) {
			t.Errorf("%d commits, kept at %q: %v", committed, a.kept, a.err)
		}
		if want == nil && !strings.HasPrefix(a.kept, dir) {
			t.Errorf("the former database is at %s", a.kept)
		}
	}
}
