package cli

import "testing"

// A name may stand where an address stands, also a short one, or one of several words.
func TestHolderNames(t *testing.T) {
	for _, name := range []string{"web", "c", "e", "db", "cafe", "bad1", "web-1.example", "shim of host-a", "Drucker, Büro", "a:z", "9979eb17bd63"} {
		if !isHolderName(name) {
			t.Errorf("%q is taken for an address", name)
		}
	}
	for _, address := range []string{"10.50.0.7", "10.50.0.7.1", "10.50.0.0/24", "fd00:50::7", "fd00:50::zz", "fd00::/64", "fe80::1%eth0", "02:42:c0:a8:01:79", "7", ""} {
		if isHolderName(address) {
			t.Errorf("%q is taken for a name", address)
		}
	}
	if got := ringlet(t, Config{}, "events", "-n", "many"); got.code != 2 || got.err != "ringlet: --last is a number, not \"many\"; see ringlet events --help\n" {
		t.Errorf("code %d, said %s", got.code, got.err)
	}
}
