// Package together runs the parts of a process that are of no use without one another.
// It refuses to know what a part does, and why it ends.
package together

import (
	"context"
	"sync"
)

// Run runs the parts until ctx ends or one of them returns, ends the
// others, and returns the first error.
func Run(ctx context.Context, parts ...func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	var once sync.Once
	var first error
	for _, part := range parts {
		wg.Go(func() {
			if err := part(ctx); err != nil {
				once.Do(func() { first = err })
			}
			cancel(nil)
		})
	}
	wg.Wait()
	return first
}
