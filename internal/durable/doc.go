// Package durable brings files and their names to the disk, and says so only when they are there.
//
// It knows what a power cut can do to a file and to its name in a directory. It refuses to know what is in a file. All
// functions return what the system said; after a failed sync the state of the disk is unknown, and nothing is tried again.
package durable
