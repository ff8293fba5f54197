package driver

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestOngoing ends calls: those that wait, and one that comes too late, but not
// one that is done.
func TestOngoing(t *testing.T) {
	var o ongoing
	begin := func() (*call, context.Context) {
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		c := &call{}
		o.begin(c, cancel)
		return c, ctx
	}
	over, before := begin()
	_, waits := begin()
	o.done(over)
	o.end()
	_, late := begin()
	var got []error
	for _, ctx := range []context.Context{before, waits, late} {
		got = append(got, ctx.Err())
	}
	equal := cmp.Comparer(func(a, b error) bool { return errors.Is(a, b) })
	if diff := cmp.Diff([]error{nil, context.Canceled, context.Canceled}, got, equal); diff != "" {
		t.Errorf("ended (-want +got):\n%s", diff)
	}
}
