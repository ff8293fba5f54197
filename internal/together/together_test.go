package together_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ringlet/ringlet/internal/together"
)

func untilEnd(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// One part that ends, with an error or without, ends all, and the first error counts.
func TestRun(t *testing.T) {
	broken := errors.New("broken")
	for _, want := range []error{nil, broken} {
		got := together.Run(t.Context(), untilEnd, func(context.Context) error { return want }, func(ctx context.Context) error {
			<-ctx.Done()
			if want == nil {
				return nil
			}
			return errors.New("later")
		})
		if !errors.Is(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := together.Run(ctx, untilEnd, untilEnd); err != nil {
		t.Errorf("at the end of its context: %v", err)
	}
}
