package route

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// line makes a line of the table as the kernel of this machine does.
func line(name, to, gateway string, flags, metric int, mask string) string {
	hex := func(a string) string {
		b := netip.MustParseAddr(a).As4()
		return fmt.Sprintf("%08X", binary.NativeEndian.Uint32(b[:]))
	}
	return fmt.Sprintf("%s\t%s\t%s\t%04X\t0\t0\t%d\t%s\t0\t0\t0      \n", name, hex(to), hex(gateway), flags, metric, hex(mask))
}

const titles = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT      \n"

func TestTable(t *testing.T) {
	table := titles +
		line("down0", "0.0.0.0", "192.168.1.1", 2, 0, "0.0.0.0") +
		line("eth0", "0.0.0.0", "192.168.1.1", 3, 100, "0.0.0.0") +
		line("tun0", "10.8.0.1", "0.0.0.0", 5, 0, "255.255.255.255") +
		line("eth0", "10.32.0.0", "192.168.1.7", 3, 4294967295, "255.240.0.0") +
		line("*", "10.99.0.0", "0.0.0.0", 0x201, 0, "255.255.0.0") +
		line("eth0", "192.168.1.0", "0.0.0.0", 1, 100, "255.255.255.0")
	want := []Route{
		{"eth0", netip.MustParsePrefix("0.0.0.0/0"), true, false, 100},
		{"tun0", netip.MustParsePrefix("10.8.0.1/32"), false, false, 0},
		{"eth0", netip.MustParsePrefix("10.32.0.0/12"), true, false, 4294967295},
		{"*", netip.MustParsePrefix("10.99.0.0/16"), false, true, 0},
		{"eth0", netip.MustParsePrefix("192.168.1.0/24"), false, false, 100},
	}
	var got []Route
	for r, err := range read(strings.NewReader(table)) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, r)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	for range read(strings.NewReader(table)) {
		break
	}
	for _, none := range []string{"", titles} {
		for r, err := range read(strings.NewReader(none)) {
			t.Errorf("%q: %v, %v", none, r, err)
		}
	}
}

func TestTableThatCannotBeRead(t *testing.T) {
	good := line("eth0", "192.168.1.0", "0.0.0.0", 1, 100, "255.255.255.0")
	for _, bad := range []string{
		"eth0\n",
		strings.Replace(good, "\t0001\t", "\tx\t", 1),
		strings.Replace(good, "\t100\t", "\t-1\t", 1),
		strings.Replace(good, "\t100\t", "\t4294967296\t", 1),
		strings.Repeat("x", 1<<20),
	} {
		routes, failed := 0, false
		for _, err := range read(strings.NewReader(titles + good + bad + good)) {
			if failed = err != nil; !failed {
				routes++
			}
		}
		if routes != 1 || !failed {
			t.Errorf("%d routes, failed: %v, of %.40q", routes, failed, bad)
		}
	}
}

// This machine's own table is one that can be read.
func TestAll(t *testing.T) {
	for _, err := range All() {
		if err != nil {
			t.Fatal(err)
		}
	}
}
