package wake

import "testing"

// However often it is woken, it wakes once.
func TestUp(t *testing.T) {
	c := make(chan struct{}, 1)
	for range 3 {
		Up(c)
	}
	if len(c) != 1 {
		t.Errorf("%d are to come", len(c))
	}
	<-c
	Up(c)
	if len(c) != 1 {
		t.Error("it is not woken again")
	}
}
