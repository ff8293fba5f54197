package main

import (
	"path/filepath"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/persist"
)

// aside is a database that was set aside, in whose place there is a new one, or an older one. Lists of the
// engine tell that one what containers have, and nobody what ringlet alloc had given out: so it is told for
// as long as the file lies there, also by later starts.
type aside struct{ *persist.Damage } // nil: nothing was set aside

// findAside looks for what was set aside from the database.
func findAside(database string) (aside, error) {
	damage, err := persist.LeftAside(database)
	return aside{damage}, err
}

// problem returns what to tell an operator; false if there is no such file, or it is not there any more.
func (a aside) problem() (ipam.Problem, bool) {
	if a.Damage == nil || !exists(a.Kept) {
		return ipam.Problem{}, false
	}
	text := "the database of this host was damaged, and a new one took its place"
	if a.LogAlone {
		text = "the database of this host was taken away, or an older copy was written over it"
	}
	return ipam.Problem{
		Code: "database-replaced", Level: string(ipam.Degraded),
		Text: text + ": what ringlet alloc had given out may be given out again",
		Next: "give out again with ringlet alloc --ip what is in use outside Docker, and then remove " + filepath.Base(a.Kept) +
			" from the plugin's data",
	}, true
}
