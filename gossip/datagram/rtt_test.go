package datagram

import (
	"testing"
	"time"
)

func TestRTO(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		name string
		acks []time.Duration
		want time.Duration
	}{
		{"of a stranger", nil, initialRTO},
		{"in a LAN", []time.Duration{ms, ms, 2 * ms}, minRTO},
		{"over the world", []time.Duration{100 * ms, 100 * ms, 100 * ms, 100 * ms, 100 * ms, 100 * ms, 100 * ms, 100 * ms}, 127 * ms},
		{"of a host that is busy", []time.Duration{ms, 400 * ms, ms, 700 * ms}, maxRTO},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := path{}
			for _, after := range tt.acks {
				r.acked(after, true)
				r.acked(time.Hour, false) // of a message that was sent twice: of which time, nobody knows
			}
			if got := r.rto(1).Round(ms); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if got, want := r.rto(3), 4*r.rto(1); got != want {
				t.Errorf("the third time: got %v, want %v", got, want)
			}
		})
	}
}
