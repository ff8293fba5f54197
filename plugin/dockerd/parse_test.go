package dockerd

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/network"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var compareNetip = cmp.Options{
	cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{}),
	cmpopts.EquateEmpty(),
}

func TestParseNetwork(t *testing.T) {
	addr, prefix := netip.MustParseAddr, netip.MustParsePrefix
	const dual = `{
		"Name":"net","Id":"f00","Scope":"local","Driver":"macvlan","Internal":true,"Options":{"parent":"eth0"},
		"IPAM":{"Driver":"ringlet:latest","Options":{"pool":"blue"},"Config":[
			{"Subnet":"10.69.0.7/16","IPRange":"10.69.4.0/24","Gateway":"10.69.0.1","AuxiliaryAddresses":{"b":"10.69.0.3","a":"10.69.0.2"}},
			{"Subnet":"fd00::/64","Gateway":"fd00::1/64"}]},
		"Containers":{
			"c2":{"Name":"db","EndpointID":"e2","MacAddress":"","IPv4Address":"","IPv6Address":""},
			"c1":{"Name":"web","EndpointID":"e1","MacAddress":"02:42:0A:45:00:09","IPv4Address":"10.69.0.9/16","IPv6Address":"fd00::9/64"},
			"ep-e3":{"Name":"gone","EndpointID":"e3","MacAddress":"02:42:0a:45:00:0a","IPv4Address":"::ffff:10.69.0.10/112"}}}`
	tests := []struct {
		name, in string
		want     Network
		wantErr  string
	}{
		{"dual stack", dual, Network{
			ID: "f00", Name: "net", Driver: "macvlan", Scope: "local", Internal: true,
			Options: map[string]string{"pool": "blue"}, DriverOptions: map[string]string{"parent": "eth0"},
			Subnets: []Subnet{
				{prefix("10.69.0.0/16"), prefix("10.69.4.0/24"), addr("10.69.0.1"), []netip.Addr{addr("10.69.0.2"), addr("10.69.0.3")}},
				{Prefix: prefix("fd00::/64"), Gateway: addr("fd00::1")},
			},
			Endpoints: []Endpoint{
				{ID: "e3", Name: "gone", MAC: "02:42:0a:45:00:0a", Addresses: []netip.Prefix{prefix("10.69.0.10/16")}},
				{ID: "e1", Container: "c1", Name: "web", MAC: "02:42:0a:45:00:09", Addresses: []netip.Prefix{prefix("10.69.0.9/16"), prefix("fd00::9/64")}},
				{ID: "e2", Container: "c2", Name: "db"},
			},
		}, ""},
		{"nothing typed", `{"Id":"f00","IPAM":{"Options":null,"Config":null},"Containers":null}`, Network{ID: "f00"}, ""},
		{
			"no gateway", `{"Id":"f","EnableIPv6":true,"IPAM":{"Config":[{"Subnet":"fd00::/64","Gateway":"<nil>"}]}}`,
			Network{ID: "f", Subnets: []Subnet{{Prefix: prefix("fd00::/64")}}},
			"",
		},
		{
			"an IPv6 subnet without --ipv6", `{"Id":"f","IPAM":{"Config":[{"Subnet":"10.60.0.0/24"},{"Subnet":"fd00:60:1::/48"}]},"Containers":{"c":{"IPv4Address":"10.60.0.2/24"}}}`,
			Network{ID: "f", Subnets: []Subnet{{Prefix: prefix("10.60.0.0/24")}}, Endpoints: []Endpoint{{Container: "c", Addresses: []netip.Prefix{prefix("10.60.0.2/24")}}}},
			"",
		},
		{
			"an IPv6 subnet wider than a /64", `{"Id":"f","EnableIPv6":true,"IPAM":{"Config":[
				{"Subnet":"fd00::/32","IPRange":"fd00:0:a::/64","Gateway":"fd00::1","AuxiliaryAddresses":{"a":"fd00::2","b":"fd00:0:a::2"}},
				{"Subnet":"fd01::/32","Gateway":"fd01::1"},
				{"Subnet":"fd02::/32","IPRange":"fd02::/48","Gateway":"fd02::1"}]},
				"Containers":{"c":{"IPv6Address":"fd00:0:a::9/32"}}}`,
			Network{
				ID: "f", Endpoints: []Endpoint{{Container: "c", Addresses: []netip.Prefix{prefix("fd00:0:a::9/32")}}},
				Subnets: []Subnet{
					{Prefix: prefix("fd00:0:a::/64"), Range: prefix("fd00:0:a::/64"), Aux: []netip.Addr{addr("fd00:0:a::2")}},
					{Prefix: prefix("fd01::/32"), Gateway: addr("fd01::1")},
					{Prefix: prefix("fd02::/32"), Range: prefix("fd02::/48"), Gateway: addr("fd02::1")},
				},
			},
			"",
		},
		{"no id", `{}`, Network{Unreadable: 1}, "it is missing"},
		{
			"endpoint without its own id", `{"Id":"f","Containers":{"ep-e9":{}}}`,
			Network{ID: "f", Endpoints: []Endpoint{{ID: "e9"}}},
			"",
		},
		{
			"one bad address", `{"Id":"f","Containers":{"c":{"Name":"web","IPv4Address":"10.0.0.9","IPv6Address":"fd00::9/64"}}}`,
			Network{ID: "f", Unreadable: 1, Endpoints: []Endpoint{{Container: "c", Name: "web", Addresses: []netip.Prefix{prefix("fd00::9/64")}}}},
			`address of web "10.0.0.9" is not readable`,
		},
		{
			"unspecified address", `{"Id":"f","Containers":{"c":{"IPv4Address":"0.0.0.0/0"}}}`,
			Network{ID: "f", Unreadable: 1, Endpoints: []Endpoint{{Container: "c"}}},
			"unspecified",
		},
		{
			"all bad", `{"Id":"f","IPAM":{"Config":[{"Subnet":"x","IPRange":"10.0.0.0/33","Gateway":"fe80::1%eth0","AuxiliaryAddresses":{"a":"1"}}]},
			"Containers":{"c":{"MacAddress":"zz","IPv4Address":"<nil>","IPv6Address":"::ffff:1.2.3.4/80"}}}`,
			Network{ID: "f", Unreadable: 7, Subnets: []Subnet{{}}, Endpoints: []Endpoint{{Container: "c"}}},
			"zone",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var in network.Inspect
			if err := json.Unmarshal([]byte(tt.in), &in); err != nil {
				t.Fatal(err)
			}
			got, err := parseNetwork(in)
			if diff := cmp.Diff(tt.want, got, compareNetip); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if (err == nil) != (tt.wantErr == "") || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("got error %v, want %q", err, tt.wantErr)
			}
			if got.Options == nil || got.DriverOptions == nil {
				t.Error("options are nil")
			}
		})
	}
}

func FuzzParseNetwork(f *testing.F) {
	f.Add([]byte(`{"Id":"f","IPAM":{"Config":[{"Subnet":"10.69.0.7/16","IPRange":"10.69.4.0/24","Gateway":"10.69.0.1/16","AuxiliaryAddresses":{"a":"10.69.0.2"}}]},"Containers":{"c":{"MacAddress":"02:42:0a:45:00:09","IPv4Address":"10.69.0.9/16","IPv6Address":"fd00::9/64"},"ep-1":{"IPv6Address":"::ffff:10.0.0.1/120"}}}`))
	f.Add([]byte(`{"Id":"f","Containers":{"":{"IPv4Address":"0.0.0.0/0"}}}`))
	f.Add([]byte(`{"IPAM":{"Config":[{"Subnet":"::ffff:0:0/95","Gateway":"fe80::1%0"}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var in network.Inspect
		if json.Unmarshal(data, &in) != nil {
			t.Skip()
		}
		got, err := parseNetwork(in)
		if (err == nil) != (got.Unreadable == 0) {
			t.Errorf("%d values unreadable, error %v", got.Unreadable, err)
		}
		if len(got.Endpoints) != len(in.Containers) || len(got.Subnets) != len(in.IPAM.Config) {
			t.Errorf("got %d endpoints of %d, %d subnets of %d", len(got.Endpoints), len(in.Containers), len(got.Subnets), len(in.IPAM.Config))
		}
		for _, e := range got.Endpoints {
			for _, p := range e.Addresses {
				if !p.IsValid() || p.Addr().Is4In6() || p.Addr().IsUnspecified() || p.Addr().Zone() != "" {
					t.Errorf("address %v of %q", p, e.ID)
				}
			}
			if strings.HasPrefix(e.Container, sandboxless) {
				t.Errorf("container %q", e.Container)
			}
		}
		for _, s := range got.Subnets {
			for _, p := range []netip.Prefix{s.Prefix, s.Range} {
				if p != p.Masked() || p.IsValid() && p.Addr().Is4In6() {
					t.Errorf("prefix %v", p)
				}
			}
			if !slices.IsSortedFunc(s.Aux, netip.Addr.Compare) || slices.ContainsFunc(append(s.Aux, s.Gateway), func(a netip.Addr) bool { return a.Is4In6() || a.Zone() != "" }) {
				t.Errorf("subnet %+v", s)
			}
		}
		if again, _ := parseNetwork(in); !cmp.Equal(got, again, compareNetip) {
			t.Errorf("two readings differ: %+v and %+v", got, again)
		}
	})
}
