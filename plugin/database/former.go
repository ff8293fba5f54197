package database

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/persist"
)

// Former is the database that was in use before this host started over. It is told for as long as it is kept.
type Former struct {
	kept string // empty: there is none
	at   time.Time
}

// FindFormer looks for the database that was in use before.
func FindFormer(database string) (Former, error) {
	kept, at, err := persist.Former(database)
	return Former{kept, at}, err
}

// Problem returns a note for an operator; false if there is nothing to tell.
func (f Former) Problem() (ipam.Problem, bool) {
	if !exists(f.kept) {
		return ipam.Problem{}, false
	}
	when := ""
	if !f.at.IsZero() {
		when = " at " + f.at.UTC().Format("2006-01-02 15:04:05 MST")
	}
	return ipam.Problem{
		Code: "started-over", Level: string(ipam.Fine),
		Text: fmt.Sprintf("this host started over as a new peer%s, after ringlet rejoin; its former database is kept as %s", when, filepath.Base(f.kept)),
		Next: fmt.Sprintf("none is needed; to end this note, remove %s from the plugin's data", filepath.Base(f.kept)),
	}, true
}
