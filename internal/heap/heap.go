// Package heap reads how much of the heap is in use. Tests that hold the memory
// of something to what it may take compare two readings, and keep alive
// what they measure until the second one.
//
// It refuses to know what is measured.
package heap

import "runtime"

// InUse returns the bytes of all objects that can be reached, and few others:
// garbage is collected twice, since finalizers keep some from the first.
func InUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
