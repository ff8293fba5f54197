// Package fault makes what may be wrong with one part of the process, while the others go on, a problem that people see: in the
// status as long as it lasts, and in the log when it begins, changes or ends.
//
// It refuses to know which parts there are, and what follows from a problem for the verdict.
package fault

import (
	"cmp"
	"log/slog"

	"github.com/ringlet/ringlet/internal/condition"
	"github.com/ringlet/ringlet/internal/logattr"
	"github.com/ringlet/ringlet/ipam"
)

// A Fault is what may be wrong with one part. Logger, Code, Text, and Next or NextOf must be set before its first use. It is safe for
// concurrent use.
type Fault struct {
	Logger *slog.Logger
	Code   string                 // of the problem
	Level  ipam.Verdict           // of the problem; empty: degraded
	Text   func(err error) string // of the problem
	Next   string                 // of the problem
	NextOf func(err error) string // in its place; may be nil
	Look   func() error           // finds out what is wrong, where that is looked at when somebody asks; else nil

	condition condition.Condition
}

// Set says how the part does; nil: well.
func (f *Fault) Set(err error) { f.condition.Set(err, f.log) }

func (f *Fault) log(err error) {
	if err != nil {
		f.Logger.Warn("problem began", logattr.Kind(f.Code), logattr.Err(err))
		return
	}
	f.Logger.Info("problem ended", logattr.Kind(f.Code))
}

// Is reports whether something is wrong, as far as it was set.
func (f *Fault) Is() bool { return f.condition.Err() != nil }

// Problem returns what to tell an operator; false if nothing is wrong.
func (f *Fault) Problem() (ipam.Problem, bool) {
	if f.Look != nil {
		f.Set(f.Look())
	}
	err := f.condition.Err()
	if err == nil {
		return ipam.Problem{}, false
	}
	next := f.Next
	if f.NextOf != nil {
		next = f.NextOf(err)
	}
	return ipam.Problem{Code: f.Code, Level: string(cmp.Or(f.Level, ipam.Degraded)), Text: f.Text(err), Next: next}, true
}

// Problems returns what to tell an operator of several faults, in order.
func Problems(faults ...*Fault) (out []ipam.Problem) {
	for _, f := range faults {
		if p, wrong := f.Problem(); wrong {
			out = append(out, p)
		}
	}
	return out
}
