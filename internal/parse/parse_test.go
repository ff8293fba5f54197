package parse

import (
	"testing"
)

func TestMAC(t *testing.T) {
	for text, want := range map[string][6]byte{
		"02:42:0a:00:00:01": {2, 0x42, 0x0a, 0, 0, 1}, "0242.0a00.0001": {2, 0x42, 0x0a, 0, 0, 1},
		"": {}, "web": {}, "02:42:0a:00:00:01:02:03": {},
	} {
		if got := MAC(text); got != want {
			t.Errorf("%q: %x", text, got)
		}
	}
}

func TestSubnet(t *testing.T) {
	for text, want := range map[string]string{
		"10.50.0.0/24": "10.50.0.0/24", "fd00:50::/64": "fd00:50::/64",
		"10.50.0.7/24": "10.50.0.7/24 has bits set behind its mask: did you mean 10.50.0.0/24",
		"10.50.0.0":    `"10.50.0.0" is not a subnet: write it like 10.50.0.0/24 or fd00:50::/64`,
		"10.0.0.0/33":  `"10.0.0.0/33" is not a subnet: write it like 10.50.0.0/24 or fd00:50::/64`,
	} {
		p, err := Subnet(text)
		got := p.String()
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %s", text, got)
		}
	}
}

func TestAddr(t *testing.T) {
	for text, want := range map[string]string{
		"10.50.0.7": "10.50.0.7", "fd00::7": "fd00::7", "::ffff:10.50.0.7": "10.50.0.7",
		"": "", "10.50.0.7/24": "", "fe80::1%eth0": "", "web": "", "10.50.0.007": "",
	} {
		got, ok := Addr(text)
		if ok != (want != "") || ok && got.String() != want {
			t.Errorf("%q: %v, %v", text, got, ok)
		}
	}
}
