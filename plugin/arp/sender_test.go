package arp

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func hexOf(s string) string { return strings.ReplaceAll(s, " ", "") }

// Announcements are, byte by byte, what RFC 5227 says in 3, and RFC 4861 in 7.2.6; the question about an IPv6 address is what
// RFC 4862 says in 5.4.2.
func TestFramesOnTheWire(t *testing.T) {
	six := netip.MustParseAddr("fd00:78::77")
	advertisement, err := advertisementOf(six, ours)
	if err != nil {
		t.Fatal(err)
	}
	solicitation, err := probe6For(six, ours, theirs)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what      string
		got       []byte
		head, mid string // before and after the checksum of ICMPv6
	}{
		{
			"announcement", announcementOf(wanted, ours).frame(everybody, ours),
			"ffffffffffff 02420a320002 0806 0001 0800 06 04 0001 02420a320002 c0a80132 000000000000 c0a80132", "",
		},
		{
			"advertisement", advertisement,
			"333300000001 02420a320002 86dd 60000000 0020 3a ff fd000078000000000000000000000077 ff020000000000000000000000000001 88 00",
			"20000000 fd000078000000000000000000000077 02 01 02420a320002",
		},
		{
			"solicitation", solicitation,
			"02420a320002 0a0000000050 86dd 60000000 0018 3a ff 00000000000000000000000000000000 ff0200000000000000000001ff000077 87 00",
			"00000000 fd000078000000000000000000000077",
		},
	} {
		got, head := hex.EncodeToString(c.got), hexOf(c.head)
		if !strings.HasPrefix(got, head) || c.mid == "" && got != head || c.mid != "" && got[min(len(got), len(head)+4):] != hexOf(c.mid) {
			t.Errorf("%s:\ngot  %s\nwant %s .... %s", c.what, got, head, hexOf(c.mid))
		}
	}
}

// Without the capability the error says so.
func TestSenderWithoutCapability(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: the capability is root's")
	}
	runtime.LockOSThread() // not given back: the thread ends with the test
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&header, &caps[0]); err != nil {
		t.Fatal(err)
	}
	caps[0].Effective &^= 1 << unix.CAP_NET_RAW
	if err := unix.Capset(&header, &caps[0]); err != nil {
		t.Fatal(err)
	}
	if s, err := OpenSender(); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("opened %v, %v", s, err)
	}
}
