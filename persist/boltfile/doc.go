// Package boltfile reads a bbolt file and believes nothing that it has not checked.
//
// bbolt believes what it reads: a damaged file can end the process with a fault that recover does not catch, or be destroyed
// for good by a commit. Its own check believes in turn what it has not checked yet. It also passes over much that makes bbolt
// destroy the file, or die of it, when it writes:
//
//   - a branch that names a child by another key than the child's first;
//   - a page that goes on in more pages than it needs;
//   - a record that says that it is a bucket;
//   - an inline leaf that says that it has a page of its own.
//
// bbolt writes a page in one way only. So whatever deviates from that, and means something, is damage here.
//
// The package knows pages, trees and the two meta pages. It refuses to know what a bucket, a key or a value means, who has the
// file open, and what is to be done with a damaged one. It writes nothing but a meta page that it has read ([File.WriteMeta]),
// and does not import bbolt.
//
// # Guarantees
//
//  1. No bytes end the process, and none make [Check] take more memory than a few times a page and the list of free pages.
//  2. What a visit is shown lies where bbolt would have put it, each key behind the one before.
//  3. Each page is in use once, or in the list of free pages, or neither if the file has no such list.
//  4. The last transaction is not lost: if the newer meta page is broken, and the cause can be other than a power cut during
//     the next transaction, this is damage. bbolt takes the older one silently. Exception: two or more bits have changed within
//     32 particular bytes of it.
//  5. That the system cannot read the file is no damage.
//
// A value that has changed within its length is not found: bbolt keeps no checksum of it.
//
// # Format
//
// All numbers are in the byte order of the machine, and lengths are in bytes. A file begins with two meta pages. Each
// transaction overwrites the one that the previous one left alone, so their numbers differ by one. Behind the 16 bytes of a page
// header lies:
//
//	magic 4 | version 4 | page size 4 | flags 4 | root page 8 | sequence 8 | free list 8 | end page 8 | txid 8 | checksum 8
//
// The checksum is FNV-1a over what is before it. The file has "end page" pages.
//
// The list of free pages is in the page "free list" and those that follow it, in ascending order, with their number first if
// that is 65,535 or more:
//
//	page 8 | kind 2 | number of free pages 2 | number of following pages 4 | number of each free page 8
//
// Each bucket is a tree of pages. Behind a page header like that of the list of free pages, a page has an entry of 16 bytes for
// each of its keys:
//
//	of a branch:  place of the key 4 | size of the key 4 | page of the child 8
//	of a leaf:    flags 4 | place of the key 4 | size of the key 4 | size of the value 4
//
// The place counts from where the entry begins, and a value follows its key. The value of a bucket begins with its root page and
// a number that nothing here uses, 8 bytes each. A small bucket has root page 0, and its one leaf follows inline. The buckets
// are the entries of the root's own tree.
//
// To test against it, use bbolt: any file that it has written passes.
package boltfile
