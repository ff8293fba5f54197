package wire_test

import (
	"runtime"
	"testing"

	"github.com/ringlet/ringlet/ipam/codec"
	"github.com/ringlet/ringlet/ipam/wire"
)

// A frame that says that it has very many slots takes little more memory than it is long.
func TestManySlotsTakeNoMemory(t *testing.T) {
	const n = 4 << 20
	b := wire.Encode(nil, &wire.Frame{Header: header, Body: wire.Decided{First: 1}})
	b = append(codec.Uint(b[:len(b)-1], n), make([]byte, n)...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := wire.Decode(b)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 4*n {
		t.Errorf("%d bytes took %d (%v)", len(b), took, err)
	}
}
