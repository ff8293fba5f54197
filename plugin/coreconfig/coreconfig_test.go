package coreconfig

import (
	"testing"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/config"
)

// How a peer without a cluster comes to one follows from RINGLET_JOIN and RINGLET_BOOTSTRAP.
func TestOf(t *testing.T) {
	three := "RINGLET_JOIN=10.0.0.1,10.0.0.2,10.0.0.3"
	for _, tt := range []struct {
		name              string
		settings          []string
		join, alone, list bool
		size              int
	}{
		{name: "nothing is set"},
		{name: "a list of hosts", settings: []string{three}, join: true, list: true, size: 3},
		{name: "one other", settings: []string{"RINGLET_JOIN=10.0.0.1"}, join: true},
		{name: "a number beside the list", settings: []string{three, "RINGLET_BOOTSTRAP=2"}, join: true, size: 2},
		{name: "the number of the list", settings: []string{three, "RINGLET_BOOTSTRAP=3"}, join: true, list: true, size: 3},
		{name: "alone", settings: []string{three, "RINGLET_BOOTSTRAP=1"}, alone: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg, err := config.Load(append([]string{"RINGLET_NAME=host-a", "RINGLET_REST=0s", "RINGLET_INSECURE=true"}, tt.settings...), nil)
			if err != nil {
				t.Fatal(err)
			}
			got := Of(cfg)
			if got.Name != "host-a" || got.Rest >= 0 || got.Rand == nil {
				t.Errorf("got %+v", got)
			}
			if got.Join != tt.join || got.FoundAlone != tt.alone || got.Formation.Size != tt.size {
				t.Errorf("it joins: %v, founds alone: %v, founds with %d", got.Join, got.FoundAlone, got.Formation.Size)
			}
			if named := got.Formation.List != (ipam.Formation{}).List; named != tt.list {
				t.Errorf("it founds with the hosts of its list: %v", named)
			}
		})
	}
}
