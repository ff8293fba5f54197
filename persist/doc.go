// Package persist keeps keyed bytes in one bbolt file and says honestly what became of them.
// It takes batches of records and makes each batch durable as a whole; it gives all of them back at start.
//
// It knows buckets, keys and values, and what a disk can do to them. It refuses to know what a record means,
// and imports no other package of this module.
//
// # Guarantees
//
//  1. A batch is one transaction: after a crash all of it is there, or nothing of it.
//  2. When [Store.Commit] returns nil the batch is on disk (two fdatasync, none of them optional).
//  3. After any failed Commit the [Store] refuses everything with [ErrFailed]. The outcome of a failed write
//     or sync is unknown and a second fdatasync may report success for pages that the kernel has dropped, so
//     there is no retry: close, open again, and read what the disk holds.
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
//	format  8 B  version of this layout, now 1
//	schema  8 B  version of what the caller keeps in the records
//	guard  24 B  transaction id | number of records | sum of a hash of each record
//
// All integers are big-endian, and these three values carry the same checksum.
//
// # Damage
//
// bbolt has a checksum on its two meta pages and on nothing else. The record checksum finds a changed key or
// value, the guard finds records that are missing, doubled or of another time. What remains is the loss of
// a whole transaction: if the newer of the two meta pages is invalid, bbolt quietly takes the older one. That
// is right after a torn write and wrong after bit rot; the test in metapage.go tells these apart, except when
// two or more bits changed within 24 particular bytes of the last transaction.
//
// A damaged file can kill the process that reads it, with a fault in mapped memory that recover does not catch.
// Therefore [OpenVerified] lets a child process read the whole file first ([Verify], [ChildMain]); it moves a
// damaged file out of the way, keeps it, and reports that as [Damage]. [Open] alone trusts the file.
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
