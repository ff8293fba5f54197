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
			v.Endpoints, v.More = make([]Endpoint, most), n-most
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
