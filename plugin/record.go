package main

import (
	"fmt"
	"log/slog"

	"github.com/ringlet/ringlet/ipam/node"
	"github.com/ringlet/ringlet/plugin/events"
	"github.com/ringlet/ringlet/plugin/journal"
)

// record is the journal, with what is wrong with it. Addresses are handed out
// whatever that is.
type record struct {
	*journal.Journal
	fault *fault
}

// newJournal returns the journal in a directory. It does nothing before it is
// run.
func newJournal(dir, self string, log *events.Log, n *node.Node, logger *slog.Logger) (*record, error) {
	f := &fault{
		logger: logger, code: "journal-unavailable",
		text: func(err error) string {
			return fmt.Sprintf("what happens is not written down, so that ringlet who --at will not know it: %v", err)
		},
		next: "see to the disk with the plugin's data; it is tried again every few seconds",
	}
	j, err := journal.New(journal.Config{Dir: dir, Log: log, Self: self, Held: n.Addresses, Report: f.set})
	if err != nil {
		return nil, err
	}
	return &record{j, f}, nil
}
