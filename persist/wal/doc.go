// Package wal keeps batches of records durable until they are in the database: a write-ahead log of two segments, which takes
// one write and one sync for each batch.
//
// When a segment is full its owner brings what it says to the database, while the other segment is written ([Log.Switch]).
// After a crash [Read] returns what is in neither.
//
// The package knows sectors, and what a power cut can do to them. It refuses to know the database: what a bucket, a key or a
// value means, which of them are allowed, what the log's file is called, and who else has a log there. It imports no bbolt.
//
// # Guarantees
//
//  1. When [Log.Append] returns nil the batch is on disk. After an error its outcome is unknown, and the log must not be used.
//  2. Of the batches that were appended [Read] finds each one, or returns [DamageError]. Exception: two bits or more have
//     changed in the last batch, which looks like a write that a power cut tore.
//  3. No bytes make a reader panic, or take more memory than a few times the log.
//
// # Format
//
// Integers are big-endian, and lengths are in bytes. The log begins with a page of 4,096 bytes that says whose it is. Its two
// segments, of one size, follow.
//
//	magic 8 | id 16 | size of a segment 8 | CRC-32C over these 4 | zeros
//
// A record is one batch. It has sectors of 512 bytes of its own, so that no write touches one in which an earlier batch is. Its
// number is one more than that of the batch before, and that of the first is 1.
//
//	CRC-32C 4 | length of the batch 4 | number 8 | batch | zeros | CRC-32 of number and batch 4 | "end\n" 4
//
// The first checksum is over the id of the log and what is between it and the zeros. So no record of another log, or of an
// earlier use of the segment, passes for one of this place. A disk with longer sectors must not harm the part of a sector that
// a write does not change.
//
// A batch has, for each of its entries:
//
//	length of the bucket's name, 0 for that of the entry before | name
//	length of the key | key
//	length of the value and 1, 0 to delete the record | value
//
// These lengths are unsigned varints.
//
// # Torn or rotten
//
// An incomplete record after the last complete one is a write torn by a power cut. Its caller got no answer, so it does not
// count. Exception: if flipping one bit makes the record valid, and its trailer matches, it had been complete and that bit has
// rotted: this is damage. The trailer is read for nothing else.
//
// To test against it, use a real log in a directory of the test.
package wal
