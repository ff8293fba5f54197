// Package packed keeps records of which there may be a hundred thousand, as keys
// with JSON values, in some 90 bytes each instead of 600: who holds which address,
// for the directory and for the journal.
//
// It refuses to know whose records these are, and when one goes.
//
// The records lie one behind the other in a few large pieces of memory, in the
// order of their changes, so that the collector finds no pointers in them and the
// list of changes costs nothing of its own. What many share, as the directory of a
// key, or pool, node and kind of a holder, is kept once. A value that tells of a
// holder is taken apart: container ID, MAC and time are kept as the bytes that
// their digits stand for. Every value comes out as the very text that went in; one
// of any other form is kept as it is.
//
// Values are taken apart by hand, because two are kept for each address that is handed
// out: to read one by encoding/json, and to write it again, took 28 µs, and [Log.Put]
// takes 1.3 µs (best of three each), where a durable call over the socket takes about
// 30 µs in all.
//
// A [Log] is not safe for concurrent use. To test against it, compare it with a map
// and a list.
package packed
