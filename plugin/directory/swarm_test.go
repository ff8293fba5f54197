package directory

import (
	"context"
	"encoding/json"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/ipam"
)

// A manager of a swarm tells the virtual addresses of the services that have endpoints somewhere, in its own part of their keys, and
// takes them back with the service or the last endpoint.
func TestVirtualAddresses(t *testing.T) {
	s := newServices(Config{Self: ipam.Identity{Name: "host-a"}, Cluster: "ringlet", Containers: func(context.Context, []string) (map[string]Container, error) { return nil, nil }}, nil)
	web, db := ServiceKeys("ringlet")+"shop/web", ServiceKeys("ringlet")+"shop/db"
	at := func(a string) []VirtualAddress { return []VirtualAddress{{netip.MustParseAddr(a), "backend"}} }
	list := []SwarmService{{"shop", "web", at("10.0.1.2")}, {"shop", "db", at("10.0.1.4")}, {"other", "x", at("10.0.1.6")}}
	flushed := func(what string, want map[string]string) {
		t.Helper()
		keys, values := s.flush()
		got := map[string]string{}
		for i, key := range keys {
			var v Service
			got[key] = "gone"
			if values[i] != nil {
				if err := json.Unmarshal(values[i], &v); err != nil {
					t.Fatal(err)
				}
				got[key] = v.Virtual[0].Address.String()
				if v.Endpoints == nil || v.Swarm != (len(v.Endpoints) > 0) {
					t.Errorf("%s: the value is %s", what, values[i])
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", what, diff)
		}
	}
	end := Endpoint{Address: netip.MustParseAddr("10.50.0.2"), Container: "c1"}
	s.learned(end, Container{Namespace: "shop", Service: "web", Swarm: true, Started: true})
	both := map[string]bool{web: true, db: true}
	s.manage(list, both)
	flushed("at first", map[string]string{web: "10.0.1.2", db: "10.0.1.4"})
	s.manage(list, both)
	flushed("again", map[string]string{})
	list[0].Virtual = at("10.0.1.9")
	s.manage(list, both)
	flushed("another address", map[string]string{web: "10.0.1.9"})
	s.manage(list, map[string]bool{web: true})
	flushed("the last endpoint ended", map[string]string{db: "gone"})
	if !s.serves(web) || s.serves(db) {
		t.Error("it serves what it does not tell, or the other way round")
	}
	s.set(end.Address, Endpoint{})
	flushed("no endpoint is here any more", map[string]string{web: "10.0.1.9"})
	if !s.serves(web) {
		t.Error("the virtual address is taken for a key that nobody set")
	}
	s.manage(nil, both)
	flushed("it is no manager any more", map[string]string{web: "gone"})
}
