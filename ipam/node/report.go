package node

import (
	"context"
	"log/slog"

	"github.com/ringlet/ringlet/internal/logattr"
	"github.com/ringlet/ringlet/ipam"
)

// lines says how each kind of note is logged.
var lines = map[ipam.NoteKind]struct {
	level slog.Level
	text  string
}{
	ipam.NotePoolCreated: {slog.LevelInfo, "pool created"},
	ipam.NotePoolDeleted: {slog.LevelInfo, "pool removed"},
	ipam.NotePressed:     {slog.LevelDebug, "freed address handed out before it had rested, for want of others"},
	ipam.NoteLeakFound:   {slog.LevelInfo, "held address has no endpoint, looking again"},
	ipam.NoteLeakMended:  {slog.LevelInfo, "address freed whose container is gone"},
	ipam.NoteAdopted:     {slog.LevelInfo, "address of an endpoint taken in"},
	ipam.NoteConflict:    {slog.LevelError, "endpoint has an address that is not its own"},
	ipam.NoteTakenOver:   {slog.LevelInfo, "address taken over from a container that is gone"},
	ipam.NoteNetworkGone: {slog.LevelInfo, "network forgotten that the engine no longer has"},
	ipam.NoteFounded:     {slog.LevelInfo, "cluster founded"},
	ipam.NoteEcho:        {slog.LevelInfo, "release may have been the last holder's, and was ignored"},
	ipam.NoteWithdrawn:   {slog.LevelInfo, "grant taken back that could not be delivered"},
	ipam.NoteJoined:      {slog.LevelInfo, "admitted to the cluster"},
	ipam.NoteEvicted:     {slog.LevelWarn, "evicted from the cluster, asking to be admitted again"},
	ipam.NotePeerJoined:  {slog.LevelInfo, "peer joined"},
	ipam.NotePeerLeft:    {slog.LevelInfo, "peer left"},
	ipam.NotePeerEvicted: {slog.LevelWarn, "peer evicted"},
	ipam.NoteInherited:   {slog.LevelInfo, "space of this host's former peer taken over"},
	ipam.NoteSuspended:   {slog.LevelError, "stopped handing out addresses"},
	ipam.NoteBootedAlone: {slog.LevelWarn, "no majority of the peers answered since the host started, going on alone"},
	ipam.NoteGaveWay:     {slog.LevelInfo, "own empty cluster dissolved, to join another"},
	ipam.NoteForgotten:   {slog.LevelWarn, "space of a lost peer given up"},
	ipam.NoteRecovered:   {slog.LevelWarn, "cluster founded anew without its lost majority"},
	ipam.NoteGiven:       {slog.LevelDebug, "space given to another peer"},
	ipam.NoteStranger:    {slog.LevelWarn, "something else on the network answers for a free address, which is kept back"},
	ipam.NoteStrangerEnd: {slog.LevelInfo, "address freed for which something else answered a while ago"},
	ipam.NoteGranted:     {slog.LevelDebug, "address handed out"},
	ipam.NoteFreed:       {slog.LevelDebug, "address freed"},
	ipam.NoteDescribed:   {slog.LevelDebug, "more was learnt of who holds an address"},
	ipam.NoteMoved:       {slog.LevelDebug, "range changed hands"},
	ipam.NoteAnswered:    {slog.LevelDebug, "peer was asked for space"},
	ipam.NoteDoubted:     {slog.LevelDebug, "engine is asked whether the holder of an address is who asks for it"},
	ipam.NoteParted:      {slog.LevelDebug, "engine is asked whether the last network of a pool is gone"},
	ipam.NoteUnclear:     {slog.LevelDebug, "engine is asked whether a container asks for an address or a network"},
}

// report passes the notes of a commit to the log and the metrics.
func (n *Node) report(notes []ipam.Note) {
	for _, note := range notes {
		if n.cfg.ObserveNote != nil {
			n.cfg.ObserveNote(note)
		}
		line := lines[note.Kind]
		if !n.cfg.Logger.Enabled(context.Background(), line.level) {
			continue
		}
		var attrs []slog.Attr
		if note.Pool.IsValid() {
			attrs = append(attrs, logattr.Pool(note.Pool))
		}
		if note.Address.IsValid() {
			attrs = append(attrs, logattr.Addr(note.Address))
		}
		if note.Last.IsValid() {
			attrs = append(attrs, slog.String("last", note.Last.String()))
		}
		if note.Holder != "" {
			attrs = append(attrs, slog.String("holder", note.Holder))
		}
		if note.Use.Container != "" {
			attrs = append(attrs, logattr.Container(note.Use.Container))
		}
		if note.Use.Name != "" {
			attrs = append(attrs, logattr.Name(note.Use.Name))
		}
		if note.To != "" {
			attrs = append(attrs, slog.String("from", note.From), slog.String("to", note.To))
		}
		n.cfg.Logger.LogAttrs(context.Background(), line.level, line.text, attrs...) //nolint:sloglint // constants, above
	}
}
