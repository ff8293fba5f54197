// Package journal keeps what happened on this peer on disk: every grant and
// release, every range that changed hands, peers and problems, so that it can
// be told who had an address when. It is one more reader of package events, and
// nothing waits for it.
//
// It refuses to know why an address was handed out, and who asks.
//
// # Format
//
// A directory has the files journal.jsonl, which is written to, and
// journal-TIME.jsonl, full ones by the time of their end. A line is an event as
// /v1/events shows it, with "inferred": true if it was found out afterwards, and with
// "to_self": true if a range came to this peer, "from_self": true if it was this
// peer's, whose name may be another later. Files are only appended to; at 8 MiB the next
// one is begun, and of 8 the oldest goes. A line that a crash has cut is passed
// over.
//
// # What it promises
//
// Lines are not synced one by one: that would cost the allocator its disk. What
// a crash loses, or the journal is too slow for, is made up for when it goes
// on: what it tells is compared with what is held, and the difference is
// written down as inferred. So the present is always right, and of a time that was
// lost only what did not last is missing.
//
// Who has had an address for longer than the files reach back is told by the
// first record of it that is kept, or by who has it now.
//
// It knows what this peer saw. An address that was in another peer's range at
// the time is in that peer's journal; whose range it was is known everywhere.
package journal
