// Package persist keeps keyed bytes in a bbolt file and says honestly what became of them.
// It takes batches of records and makes each batch durable as a whole; it gives all of them back at start.
//
// It knows buckets, keys and values, and what a disk can do to them. It refuses to know what a record means. Of this module it
// imports its two parts, and package durable:
//
//   - package wal is the log, which does not know the database;
//   - package boltfile reads a bbolt file that may be damaged, and does not know what is in it.
//
// # Guarantees
//
//  1. A batch is one record of the log, or one transaction: after a crash all of it is there, or nothing of it.
//  2. When [Store.Commit] returns nil the batch is on disk (one fdatasync in the log, two in bbolt, none
//     of them optional).
//  3. After any failed Commit the [Store] refuses everything with [ErrFailed]. The outcome of a failed write
//     or sync is unknown and a second fdatasync may report success for pages that the kernel has dropped, so
//     there is no retry: close, open again, and go on with what is found, which Open brings to the disk first.
//  4. What [Store.Load] returns is what was committed, or Load returns [ErrDamaged]. See below.
//  5. A database written by a newer version is refused ([ErrNewerSchema]) and left untouched.
//
// # Format
//
// Each bucket of the caller is a bbolt bucket, each value is followed by a checksum:
//
//	+-----------------+------------------------------------------------------------------+
//	| value, n bytes  | CRC-32C, big-endian, over                                        |
//	|                 | len(bucket) (4 B) | bucket | len(key) (4 B) | key | value         |
//	+-----------------+------------------------------------------------------------------+
//
// The bucket "meta" is ours. It is small enough for bbolt to keep it inside the root page, which each
// commit rewrites anyway, so what it holds costs no page:
//
//	format  8 B  version of this layout: 1, or 2 while there is a log
//	schema  8 B  version of what the caller keeps in the records
//	guard  24 B  transaction id | number of records | sum of a hash of each record
//	wal    24 B  once there was one: id of the log | number of its last batch that bbolt holds
//
// All integers are big-endian, and these values carry the same checksum.
//
// # Log
//
// A transaction of bbolt writes some six pages and syncs twice; that is most of what a caller waits for. So a batch goes
// to a write-ahead log beside the file (package wal), with one write and one sync. The log has two segments: when one is full,
// what it says is brought to bbolt in one transaction, of each key the last value, while the other is written. A
// batch that is longer than a segment goes to bbolt itself, after all that is in the log. So do the first batches of
// a process, until the log has been made, and all of them where none can be made.
//
// [Store.Close] brings the rest to bbolt and removes the log: a closed database is one file, in format 1. After a
// crash the next [Open] does so. Until then file and log belong together, and one is damaged without the other. What in a log
// counts as a write that a power cut tore, and what as damage, package wal says.
//
// # A full disk
//
// The log has its room from the beginning; what is brought from it to bbolt may need more, and so may a start, which
// does that before anything else. A [Ballast] beside the database keeps that room. Whoever finds the disk full gives it
// up: a commit fails nevertheless, as after any error, and the next Open has room.
//
// # Damage
//
// bbolt has a checksum on its two meta pages and on nothing else. The record checksum finds a changed key or
// value, the guard finds records that are missing, doubled or of another time. What remains is the structure, the list of free
// pages, and the loss of a whole transaction: package boltfile finds these, with the exception that it names.
//
// Each transaction writes the list of free pages, so that a start need not read the whole tree to find out what is
// free. A wrong list would have bbolt overwrite what is in use, so the list is checked like all else.
//
// bbolt gets a file only after [Open] has read all of it with package boltfile, which believes nothing, and Load
// hands out the leaves that it has found, unless something was written since. A [Preview] is shown each record as soon as that
// is sound, and told when all of them are: it saves reading the file twice. [OpenOrReplace] moves a damaged file out of
// the way, keeps it, and reports that as [Damage].
//
// # A new database in the place of another
//
// [Store.Supersede] makes a new database whole under another name, gives the old one a second name under which it stays
// (".former-" and the time in UTC), and renames the new one onto the old. Each step is on disk before the next begins, so a
// power cut leaves the old database or the new one. The old database is closed by then, so no log belongs to it.
//
// # Concurrency
//
// A Store is safe for concurrent use. Commits run one at a time; grouping them is the caller's business, as it
// alone knows what belongs together. Load must not be called from within Commit, nor Commit from within Load.
//
// # Testing against it
//
// Use the real thing in a directory of the test: creating a database takes about a millisecond on a local disk.
package persist
