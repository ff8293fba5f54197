package node_test

import (
	"bytes"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/machinetest"
	"github.com/ringlet/ringlet/ipam/node"
)

// Every kind of note that the core may make has its line in the log.
func TestEveryNoteHasItsLine(t *testing.T) {
	var log bytes.Buffer
	var seen []ipam.Note
	n, err := node.New(node.Config{
		Machine: ipam.Config{Name: "host-a", Rand: rand.New(rand.NewPCG(1, 2))}, Store: &disk{records: machinetest.Disk{}},
		Logger:      slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		ObserveNote: func(note ipam.Note) { seen = append(seen, note) },
	})
	if err != nil {
		t.Fatal(err)
	}
	log.Reset()
	seen = nil
	g, err := n.RequestAddress(t.Context(), request("web"))
	if err != nil {
		t.Fatal(err)
	}
	if err := n.ReleaseAddress(t.Context(), network, g.Address.Addr()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`level=DEBUG msg="address handed out" pool=10.50.0.0/16 addr=10.50.0.1 name=web`,
		`level=DEBUG msg="address freed" pool=10.50.0.0/16 addr=10.50.0.1 name=web`,
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, log.String())
		}
	}
	if strings.Contains(log.String(), `msg=""`) {
		t.Errorf("a note has no line:\n%s", log.String())
	}
	for kind := ipam.NotePoolCreated; kind <= ipam.NoteAnswered; kind++ {
		if node.LineOf(kind) == "" {
			t.Errorf("note kind %d has no line", kind)
		}
	}
	var kinds []ipam.NoteKind
	for _, note := range seen {
		kinds = append(kinds, note.Kind)
	}
	if len(kinds) != 3 || kinds[0] != ipam.NotePoolCreated || kinds[1] != ipam.NoteGranted || kinds[2] != ipam.NoteFreed {
		t.Errorf("notes of kinds %v were observed", kinds)
	}
}
