package memnet

import (
	"testing"
	"time"
)

func TestStreamLoss(t *testing.T) {
	const delay = 3 * time.Millisecond
	clean, dead := Link{Delay: delay}, Link{Delay: delay, StreamLoss: 1}
	for _, tt := range []struct {
		name        string
		took        time.Duration
		least, most time.Duration
	}{
		{"handshake", handshake(clean, clean), 2 * delay, 2 * delay},
		{"handshake that nobody hears", handshake(dead, clean), time.Hour, 3 * time.Hour},
		{"handshake whose answer nobody hears", handshake(clean, dead), time.Hour, 3 * time.Hour},
		{"a long write", transit(1<<20, clean, clean), delay, delay},
		{"a write whose receipts alone are lost", transit(1<<20, clean, dead), delay, delay},
		{"a write that nobody hears", transit(1, dead, clean), time.Hour, 3 * time.Hour},
	} {
		if tt.took < tt.least || tt.took > tt.most {
			t.Errorf("%s: took %v, want %v to %v", tt.name, tt.took, tt.least, tt.most)
		}
	}
	half := Link{StreamLoss: 0.5}
	slow := 0
	for range 1000 {
		if handshake(half, half) >= firstSYN {
			slow++
		}
	}
	if slow < 650 || slow > 850 { // 750 and six standard deviations
		t.Errorf("%d of 1000 handshakes lost their first packet, want about 750", slow)
	}
}
