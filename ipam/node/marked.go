//go:build marked

package node

import (
	"github.com/ringlet/ringlet/internal/contain"
	"github.com/ringlet/ringlet/ipam"
)

// marked panics at a request that bears the mark, see [contain.Marked].
func marked(ev ipam.Event) {
	if call, ok := ev.(*ipam.Call); ok {
		if r, ok := call.Request.(*ipam.AddressRequest); ok {
			contain.Marked([]byte(r.Name))
		}
	}
}
