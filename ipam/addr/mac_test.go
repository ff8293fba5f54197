package addr_test

import (
	"testing"

	"github.com/ringlet/ringlet/ipam/addr"
)

// People write a MAC in three forms, in either case. Another one, or a text of another form, is not it.
func TestMACAsWritten(t *testing.T) {
	mac := addr.MAC{0x02, 0x42, 0x0a, 0x32, 0x00, 0x15}
	for text, want := range map[string]bool{
		"02:42:0a:32:00:15": true, "02-42-0A-32-00-15": true, "0242.0a32.0015": true,
		"02:42:0a:32:00:16": false, "02420a320015": false, "web": false, "": false,
	} {
		if mac.Is(text) != want {
			t.Errorf("%v is %q: %v", mac, text, !want)
		}
		if is := addr.IsMAC(text); is != (want || text == "02:42:0a:32:00:16") {
			t.Errorf("%q is a MAC: %v", text, is)
		}
	}
	if none := (addr.MAC{}); !none.IsZero() || none.String() != "" || none.Is("00:00:00:00:00:00") || mac.String() != "02:42:0a:32:00:15" {
		t.Errorf("%q and %q", none, mac)
	}
}
