// Package events keeps what happened on this peer lately, in order and
// numbered, for whoever watches: the page, ringlet events, a journal. It knows
// nothing of HTTP and of files.
//
// What happens is put in with [Log.Note] and [Log.Problems]; each kind of
// event is a word that stays the same, see [Kinds]. A [Reader] reads at its
// own pace from the one buffer that all share:
//
//	r := log.Read(events.ID{})
//	for {
//		list, err := r.Next(ctx)
//		…
//	}
//
// # Guarantees
//
//  1. Putting in never waits for a reader.
//  2. A reader gets every event that the buffer still has, once and in order.
//     What it was too slow for is reported as [*GapError], never skipped silently.
//  3. An [ID] is never used twice: numbers rise within one start of the
//     process, and the first part is the peer's boot, which rises with each
//     start. So a reader may go on where it was, after its own restart or the
//     peer's.
//
// What a reader returns is valid until it is asked again, since it makes the next
// ones in the same place. Sentences are made when an event is read, and not at all
// for who needs none ([Log.ReadSilent]).
//
// Only what is durable is put in: the node notes what it has committed. The
// buffer itself is lost with the process.
//
// All types are safe for concurrent use, except [Reader].
package events
