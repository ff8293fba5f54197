package gossip

import (
	"testing"
	"time"
)

func TestPatience(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		name     string
		receipts []time.Duration
		want     time.Duration
	}{
		{"of a stranger", nil, firstPatience},
		{"in a LAN", []time.Duration{ms, ms, 2 * ms}, minPatience},
		{"over the world", []time.Duration{100 * ms, 100 * ms, 100 * ms, 100 * ms, 100 * ms, 100 * ms, 100 * ms, 100 * ms}, 127 * ms},
		{"of a host that is busy", []time.Duration{ms, 400 * ms, ms, 700 * ms}, maxPatience},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := reach{}
			for _, after := range tt.receipts {
				r.receipt(after, true)
				r.receipt(time.Hour, false) // of a parcel that was sent twice: of which time, nobody knows
			}
			if got := r.patience(1).Round(ms); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if got, want := r.patience(3), 4*r.patience(1); got != want {
				t.Errorf("the third time: got %v, want %v", got, want)
			}
		})
	}
}
