package driver

import "errors"

// Stats counts what a [Driver] has done since it was made.
type Stats struct {
	Calls       map[string]uint64 // requests, by the call's name
	EmptyBodies uint64            // requests repeated by the engine without their body
	Withdrawn   uint64            // grants taken back since they did not arrive
	Panics      uint64            // panics that were answered as errors
}

// Stats returns the counts up to now.
func (d *Driver) Stats() Stats {
	s := Stats{
		Calls:       make(map[string]uint64, len(d.routes)),
		EmptyBodies: d.noBodies.Load(), Withdrawn: d.withdrawn.Load(), Panics: d.panics.Load(),
	}
	for _, to := range d.routes {
		s.Calls[to.method] = to.calls.Load()
	}
	return s
}

// count counts how a call ended.
func (d *Driver) count(err error) {
	if errors.Is(err, errNoBody) {
		d.noBodies.Add(1)
	}
	if _, ok := errors.AsType[*panicked](err); ok {
		d.panics.Add(1)
	}
}
