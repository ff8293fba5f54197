package config

import (
	"slices"
	"strings"
	"testing"
)

// Shared has every setting of which the manual says that it is the same on all hosts, and no name that is none.
func TestShared(t *testing.T) {
	shared := Shared()
	for _, s := range Settings() {
		if strings.Contains(s.Effect, "the same on all hosts") && !slices.Contains(shared, s.Name) {
			t.Errorf("%s is to be the same on all hosts", s.Name)
		}
		shared = slices.DeleteFunc(shared, func(name string) bool { return name == s.Name })
	}
	if len(shared) > 0 {
		t.Errorf("there are no settings %v", shared)
	}
}
