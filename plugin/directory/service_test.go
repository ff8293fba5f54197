package directory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/directory/replica"
)

// What is said of services follows the addresses and what the engine tells of
// their containers, whichever comes first.
func TestServices(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var asked []string
		silent := false
		var list []Endpoint // by number of the change, from 1
		at := func(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 50, 0, byte(n)}) }
		told := func(after uint64, limit int) (out []Endpoint, upTo uint64) {
			for i := int(after); i < len(list) && len(out) < limit; i++ {
				later := slices.ContainsFunc(list[i+1:], func(e Endpoint) bool { return e.Address == list[i].Address })
				if upTo = uint64(i + 1); !later && list[i].Container != "" {
					out = append(out, list[i])
				}
			}
			return out, upTo
		}
		s := newServices(Config{
			Self: ipam.Identity{Name: "host-a"}, Cluster: "ringlet",
			Containers: func(_ context.Context, ids []string) (map[string]Container, error) {
				slices.Sort(ids)
				asked = append(asked, ids...)
				if silent {
					return nil, errors.New("it does not answer")
				}
				return map[string]Container{"c1": {Namespace: "shop", Service: "web"}, "c2": {Namespace: "shop", Service: "web"}, "c3": {Namespace: "shop", Service: "db"}}, nil
			},
		}, told)
		set := func(n int, container string) {
			list = append(list, Endpoint{Address: at(n), Container: container})
			if container == "" {
				s.set(at(n), Endpoint{})
				return
			}
			s.set(at(n), list[len(list)-1])
		}
		// flushed compares what is said anew, by service: the addresses.
		flushed := func(want map[string]string) {
			t.Helper()
			s.resolve(t.Context())
			keys, values := s.flush()
			got := map[string]string{}
			for i, key := range keys {
				var v Service
				text := "gone"
				if values[i] != nil {
					if err := json.Unmarshal(values[i], &v); err != nil || v.Node != "host-a" {
						t.Fatalf("%s: %s", key, values[i])
					}
					text = ""
					for _, e := range v.Endpoints {
						text += fmt.Sprint(e.Address.As4()[3], " ")
					}
				}
				got[key[len(ServiceKeys("ringlet")):]] = text
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		}
		set(2, "c2")
		set(1, "c1")
		set(9, "alone")
		flushed(map[string]string{"shop/web": "1 2 "})
		set(3, "c3")
		set(4, "c3") // two networks
		flushed(map[string]string{"shop/db": "3 4 "})
		if diff := cmp.Diff([]string{"alone", "c1", "c2", "c3"}, asked); diff != "" {
			t.Errorf("the engine was asked (-want +got)\n%s", diff)
		}
		flushed(map[string]string{})
		set(3, "")
		flushed(map[string]string{"shop/db": "4 "})
		set(4, "c1")
		flushed(map[string]string{"shop/db": "gone", "shop/web": "1 2 4 "})

		silent, asked = true, nil
		set(1, "")
		set(2, "")
		set(4, "")
		set(5, "c3")
		flushed(map[string]string{"shop/web": "gone"})
		if due := s.due(); time.Until(due) != askAgain {
			t.Errorf("the engine is asked again in %v", time.Until(due))
		}
		silent = false
		flushed(map[string]string{})
		time.Sleep(askAgain)
		flushed(map[string]string{"shop/db": "5 "})
		if len(asked) != 2 {
			t.Errorf("the engine was asked about %v", asked)
		}
		set(5, "")
		set(9, "")
		flushed(map[string]string{"shop/db": "gone"})
		if len(s.at)+len(s.of)+len(s.facts) > 0 {
			t.Errorf("something is left: %+v", s)
		}
	})
}

// A value that would be too long says less, and how much less.
func TestFitting(t *testing.T) {
	for _, n := range []int{0, 1, 100, 5000} {
		var v Service
		b := fitting(n, func(most int) any {
			v.Endpoints, v.More = make([]ServiceEndpoint, most), n-most
			return v
		})
		if len(b) > replica.MaxValue || len(v.Endpoints)+v.More != n {
			t.Errorf("of %d there are %d and %d more, in %d bytes", n, len(v.Endpoints), v.More, len(b))
		}
		if n <= 100 && v.More > 0 {
			t.Errorf("of %d only %d are told", n, len(v.Endpoints))
		}
	}
}

// The ports of a container are asked for again until it has started, ever more rarely, and then no more. What it says of a service
// without them is said at once.
func TestPortsOfServices(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		end := Endpoint{Address: netip.MustParseAddr("10.50.0.2"), Container: "c1", Name: "web-1"}
		of := Container{Namespace: "shop", Service: "web"}
		var asked []time.Duration
		begun := time.Now()
		silent := false
		s := newServices(Config{
			Self: ipam.Identity{Name: "host-a"}, Cluster: "ringlet",
			Containers: func(context.Context, []string) (map[string]Container, error) {
				asked = append(asked, time.Since(begun))
				if silent {
					return nil, errors.New("it does not answer")
				}
				return map[string]Container{"c1": of}, nil
			},
		}, func(uint64, int) ([]Endpoint, uint64) { return []Endpoint{end}, 1 })
		said := func() string {
			s.resolve(t.Context())
			_, values := s.flush()
			if len(values) == 0 {
				return ""
			}
			return string(values[0])
		}
		wait := func() { time.Sleep(time.Until(s.due())) }
		s.set(end.Address, end)
		const bare = `"address":"10.50.0.2","pool":"","container":"c1","name":"web-1"`
		if got, want := said(), `{"node":"host-a","endpoints":[{`+bare+`}]}`; got != want {
			t.Errorf("at first it says %s", got)
		}
		for range 3 {
			wait()
			if got := said(); got != "" {
				t.Errorf("it says %s again, and nothing has changed", got)
			}
		}
		if want := []time.Duration{0, 2 * time.Second, 6 * time.Second, 14 * time.Second}; !slices.Equal(asked, want) {
			t.Errorf("it asked after %v", asked)
		}
		silent = true
		wait()
		said()
		if d := time.Until(s.due()); d != askAgain {
			t.Errorf("an engine that does not answer is asked again in %v", d)
		}
		silent = false
		of.Started, of.Ports = true, []Port{{53, "udp"}, {80, "tcp"}}
		wait()
		if got, want := said(), `{"node":"host-a","endpoints":[{`+bare+`,"ports":[{"port":53,"protocol":"udp"},{"port":80,"protocol":"tcp"}]}]}`; got != want {
			t.Errorf("at last it says %s", got)
		}
		if at := s.due(); !at.IsZero() {
			t.Errorf("it asks again in %v", time.Until(at))
		}
	})
}

// Of a container with very many ports the first are told, and the number of the others.
func TestManyPorts(t *testing.T) {
	s := newServices(Config{Self: ipam.Identity{Name: "host-a"}, Cluster: "ringlet", Containers: func(context.Context, []string) (map[string]Container, error) { return nil, nil }}, nil)
	c := Container{Namespace: "shop", Service: "web", Started: true}
	for i := range 1000 {
		c.Ports = append(c.Ports, Port{uint16(i + 1), "tcp"})
	}
	s.learned(Endpoint{Address: netip.MustParseAddr("10.50.0.2"), Container: "c1"}, c)
	var v Service
	if err := json.Unmarshal(s.value(ServiceKeys("ringlet")+"shop/web"), &v); err != nil {
		t.Fatal(err)
	}
	if e := v.Endpoints[0]; len(e.Ports) != maxPorts || e.MorePorts != 1000-maxPorts {
		t.Errorf("%d ports are told and %d more", len(e.Ports), e.MorePorts)
	}
}
