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
	ipam.NotePressed:     {slog.LevelDebug, "resting address handed out early, pool had no other"},
	ipam.NoteLeakFound:   {slog.LevelInfo, "held address has no endpoint, checking again"},
	ipam.NoteLeakMended:  {slog.LevelInfo, "leaked address freed"},
	ipam.NoteAdopted:     {slog.LevelInfo, "address of a container taken in"},
	ipam.NoteConflict:    {slog.LevelError, "container uses an address that is not its own"},
	ipam.NoteTakenOver:   {slog.LevelInfo, "address taken over from a container that is gone"},
	ipam.NoteNetworkGone: {slog.LevelInfo, "network missing in the engine forgotten"},
	ipam.NoteFounded:     {slog.LevelInfo, "cluster founded"},
	ipam.NoteLate:        {slog.LevelInfo, "late release of a former holder ignored"},
	ipam.NoteWithdrawn:   {slog.LevelInfo, "undelivered grant taken back"},
	ipam.NoteJoined:      {slog.LevelInfo, "admitted to the cluster"},
	ipam.NoteEvicted:     {slog.LevelWarn, "evicted from the cluster, asking to be admitted again"},
	ipam.NotePeerJoined:  {slog.LevelInfo, "peer joined"},
	ipam.NotePeerLeft:    {slog.LevelInfo, "peer left"},
	ipam.NotePeerEvicted: {slog.LevelWarn, "peer evicted"},
	ipam.NoteInherited:   {slog.LevelInfo, "ranges of this host's former self taken over"},
	ipam.NoteSuspended:   {slog.LevelError, "stopped handing out addresses"},
	ipam.NoteBootedAlone: {slog.LevelWarn, "no majority answered since the host started, continuing alone"},
	ipam.NoteGaveWay:     {slog.LevelInfo, "own empty cluster dissolved to join another"},
	ipam.NoteForgotten:   {slog.LevelWarn, "peer forgotten, its addresses released"},
	ipam.NoteRecovered:   {slog.LevelWarn, "cluster recovered without its lost majority"},
	ipam.NoteGiven:       {slog.LevelDebug, "range given to another peer"},
	ipam.NoteStranger:    {slog.LevelWarn, "address conflict on the LAN, address set aside"},
	ipam.NoteStrangerEnd: {slog.LevelInfo, "address set aside for a LAN conflict freed"},
	ipam.NoteGranted:     {slog.LevelDebug, "address handed out"},
	ipam.NoteFreed:       {slog.LevelDebug, "address freed"},
	ipam.NoteDescribed:   {slog.LevelDebug, "holder of an address updated"},
	ipam.NoteMoved:       {slog.LevelDebug, "range changed its owner"},
	ipam.NoteAnswered:    {slog.LevelDebug, "peer asked for a range"},
	ipam.NoteDoubted:     {slog.LevelDebug, "engine asked whether the holder of an address asks for it"},
	ipam.NoteParted:      {slog.LevelDebug, "engine asked which networks are left on a pool"},
	ipam.NoteLocked:      {slog.LevelDebug, "lock taken"},
	ipam.NoteUnlocked:    {slog.LevelDebug, "lock ended"},
	ipam.NoteLockExpired: {slog.LevelInfo, "lock ended, because its host was silent"},
	ipam.NoteUnclear:     {slog.LevelDebug, "engine asked whether a container or a network asks for an address"},
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
