// Package report is what people see of a peer: its status and problems, who has an address, the story of an address,
// lists of addresses, and the report of a check.
//
// It reads and never writes. Package ipam fills a [Picture] with plain data, in one place, and the functions here turn
// the picture into answers. Each answer is a snapshot: nothing in it changes any more.
//
// The package refuses to know how anything came about. It asks no Machine, sends nothing, and decides nothing: whether
// a peer is cut off, suspended or waits for a list, and why, stands in the picture.
package report
