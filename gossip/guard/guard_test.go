package guard

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
	"time"
)

const label = "ringlet"

func testKey(n byte) []byte { return bytes.Repeat([]byte{n}, 32) }

func testRing(t testing.TB, label string, keys ...[]byte) *Ring {
	t.Helper()
	r, err := NewRing(label, keys)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// seal encrypts as memberlist does. A test of package gossip holds the checks against its own bytes.
func seal(t testing.TB, key, text, data []byte) []byte {
	t.Helper()
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	nonce := []byte("twelve bytes")
	return gcm.Seal(append([]byte{1}, nonce...), nonce, text, data)
}

func header(label string) []byte {
	if label == "" {
		return nil
	}
	return append([]byte{244, byte(len(label))}, label...)
}

func packet(t testing.TB, key []byte, label, text string) []byte {
	t.Helper()
	return slices.Concat(header(label), seal(t, key, []byte(text), []byte(label)))
}

func message(t testing.TB, key []byte, label, text string, d Direction) []byte {
	t.Helper()
	head := binary.BigEndian.AppendUint32([]byte{10}, uint32(overhead+len(text)))
	b := append(head, seal(t, key, []byte(text), slices.Concat(head, []byte(label)))...)
	if d == Inbound {
		b = append(header(label), b...)
	}
	return b
}

// passes reports whether a packet is a peer's, and else why not.
func passes(r *Ring, b []byte) Reason {
	body, why := r.Packet(b)
	if why != None {
		return why
	}
	if _, ok := r.OpensPacket(body, nil); !ok {
		return Key
	}
	return None
}

// arrives reports whether a message is a peer's of which byte after byte comes, and else why not.
func arrives(t testing.TB, r *Ring, b []byte, d Direction) Reason {
	t.Helper()
	for n := 0; ; {
		h, why := r.Head(b[:n], d)
		switch {
		case why != None:
			return why
		case h.Want > r.HeadSize(d):
			t.Fatalf("%d bytes are wanted, and the head has at most %d", h.Want, r.HeadSize(d))
		case h.Want > n:
			if n++; n > len(b) {
				return Cut
			}
			continue
		case h.Want > 0:
			t.Fatalf("%d bytes are wanted of %d", h.Want, n)
		case !r.Keyed():
			return None
		case h.Len > len(b):
			return Cut
		}
		if _, ok := r.OpensMessage(b[:h.Len], d, nil); !ok {
			return Key
		}
		return None
	}
}

func TestPacket(t *testing.T) {
	keyed, plain, bare := testRing(t, label, testKey(1), testKey(2)), testRing(t, label), testRing(t, "", testKey(1))
	good := packet(t, testKey(2), label, "x")
	changed := func(at int, to byte) []byte {
		b := bytes.Clone(good)
		b[at] = to
		return b
	}
	in := len(header(label))
	for name, tt := range map[string]struct {
		ring *Ring
		b    []byte
		want Reason
	}{
		"a peer's":                     {keyed, good, None},
		"a peer's without labels":      {bare, packet(t, testKey(1), "", "x"), None},
		"none":                         {keyed, nil, Unlabelled},
		"a request of a browser":       {keyed, []byte("GET / HTTP/1.1"), Unlabelled},
		"no label":                     {keyed, good[in:], Unlabelled},
		"another label":                {keyed, packet(t, testKey(1), "other", "x"), Label},
		"a longer label":               {keyed, packet(t, testKey(1), label+"2", "x"), Label},
		"half a label":                 {keyed, good[:4], Label},
		"a label where there is none":  {bare, good, Label},
		"an empty label":               {bare, []byte{244, 0, 1}, Label},
		"a label alone":                {keyed, good[:in], Length},
		"two labels":                   {keyed, append(header(label), good...), Version},
		"version 0":                    {keyed, changed(in, 0), Version},
		"version 2":                    {keyed, changed(in, 2), Plain}, // an answer to a probe looks like that
		"version 255":                  {keyed, changed(in, 255), Version},
		"a probe in the clear":         {keyed, append(header(label), 0, 0x82), Plain},
		"several in the clear":         {keyed, append(header(label), 7, 2), Plain},
		"nothing encrypted":            {keyed, packet(t, testKey(1), label, ""), Length},
		"cut":                          {keyed, good[:in+20], Length},
		"another key":                  {keyed, packet(t, testKey(3), label, "x"), Key},
		"the last bit":                 {keyed, changed(len(good)-1, good[len(good)-1]^1), Key},
		"no key, a probe":              {plain, append(header(label), 0, 0x82), None},
		"no key, an indirect one":      {plain, append(header(label), 1, 0x86), None},
		"no key, a peer with one":      {plain, append(header(label), 1, 0x15), Encrypted},
		"no key, something compressed": {plain, append(header(label), 9, 0x82), Type},
		"no key, no type":              {plain, append(header(label), 77), Type},
		"no key, another label":        {plain, append(header("other"), 0, 0x82), Label},
	} {
		if got := passes(tt.ring, tt.b); got != tt.want {
			t.Errorf("%s: refused for %q, want %q", name, got, tt.want)
		}
	}
}

func TestMessage(t *testing.T) {
	keyed, plain, bare := testRing(t, label, testKey(1), testKey(2)), testRing(t, label), testRing(t, "", testKey(1))
	good, answer := message(t, testKey(2), label, "x", Inbound), message(t, testKey(2), label, "x", Answer)
	in := len(header(label))
	changed := func(at int, to ...byte) []byte {
		b := bytes.Clone(good)
		copy(b[at:], to)
		return b
	}
	for name, tt := range map[string]struct {
		ring *Ring
		b    []byte
		d    Direction
		want Reason
	}{
		"a peer's":                      {keyed, good, Inbound, None},
		"a peer's, and more":            {keyed, append(bytes.Clone(good), 1, 2, 3), Inbound, None},
		"an answer":                     {keyed, answer, Answer, None},
		"a peer's without labels":       {bare, message(t, testKey(1), "", "x", Inbound), Inbound, None},
		"an answer to nothing":          {keyed, answer, Inbound, Unlabelled},
		"an answer with a label":        {keyed, good, Answer, Type},
		"nothing":                       {keyed, nil, Inbound, Cut},
		"nothing for an answer":         {keyed, nil, Answer, Cut},
		"a request of a browser":        {keyed, []byte("GET / HTTP/1.1"), Inbound, Unlabelled},
		"another label":                 {keyed, message(t, testKey(1), "other", "x", Inbound), Inbound, Label},
		"half a label":                  {keyed, good[:4], Inbound, Cut},
		"a label where there is none":   {bare, good, Inbound, Label},
		"a state in the clear":          {keyed, append(header(label), 6), Inbound, Plain},
		"an error in the clear":         {keyed, []byte{13}, Answer, Plain},
		"no type":                       {keyed, append(header(label), 77), Inbound, Type},
		"something compressed":          {keyed, append(header(label), 9), Inbound, Type},
		"longer than any, at its start": {keyed, append(header(label), 10, 2), Inbound, Length},
		"longer than any":               {keyed, changed(in+1, 1, 64, 0, 1), Inbound, Length},
		"nothing encrypted":             {keyed, message(t, testKey(1), label, "", Inbound), Inbound, Length},
		"longer than it is":             {keyed, changed(in+4, good[in+4]+1), Inbound, Cut},
		"shorter than it is":            {keyed, message(t, testKey(1), label, "xyz", Inbound)[:in+5+overhead+2], Inbound, Cut},
		"version 0":                     {keyed, changed(in+5, 0), Inbound, Version},
		"version 2":                     {keyed, changed(in+5, 2), Inbound, Version},
		"another key":                   {keyed, message(t, testKey(3), label, "x", Inbound), Inbound, Key},
		"a packet's":                    {keyed, slices.Concat(header(label), []byte{10, 0, 0, 0, overhead + 1}, packet(t, testKey(1), label, "x")[in:]), Inbound, Key},
		"no key, a state":               {plain, append(header(label), 6), Inbound, None},
		"no key, an answer":             {plain, []byte{6}, Answer, None},
		"no key, a peer with one":       {plain, good, Inbound, Encrypted},
		"no key, something compressed":  {plain, append(header(label), 9), Inbound, Type},
		"no key, an error unasked":      {plain, append(header(label), 13), Inbound, Type},
	} {
		if got := arrives(t, tt.ring, tt.b, tt.d); got != tt.want {
			t.Errorf("%s: refused for %q, want %q", name, got, tt.want)
		}
	}
}

// TestNothingBesides demands that a whole message is what is opened, and nothing less or more.
func TestNothingBesides(t *testing.T) {
	r := testRing(t, label, testKey(1))
	good := message(t, testKey(1), label, "x", Inbound)
	for _, b := range [][]byte{nil, good[:5], good[:len(good)-1], append(bytes.Clone(good), 0)} {
		if _, ok := r.OpensMessage(b, Inbound, nil); ok {
			t.Errorf("%d bytes are opened as a message of %d", len(b), len(good))
		}
	}
}

func TestKeysThatAreNone(t *testing.T) {
	if _, err := NewRing(label, [][]byte{testKey(1), []byte("short")}); err == nil {
		t.Error("a key of 5 bytes is taken")
	}
}

func TestReasonsHaveNames(t *testing.T) {
	var seen []string
	for why := None + 1; why < NumReasons; why++ {
		if name := why.String(); name == "" || slices.Contains(seen, name) {
			t.Errorf("reason %d is called %q", why, name)
		} else {
			seen = append(seen, name)
		}
	}
}

func TestSource(t *testing.T) {
	for a, want := range map[string]string{
		"10.0.0.1": "10.0.0.1", "::ffff:10.0.0.1": "10.0.0.1",
		"2001:db8:1:2:3:4:5:6": "2001:db8:1:2::", "2001:db8:1:2::9": "2001:db8:1:2::", "fe80::1%eth0": "fe80::",
	} {
		if got := Source(netip.MustParseAddr(a)); got != netip.MustParseAddr(want) {
			t.Errorf("%s counts as %v, want %s", a, got, want)
		}
	}
	if got := Source(netip.Addr{}); got.IsValid() {
		t.Errorf("no address counts as %v", got)
	}
}

// TestFailures spends what one source has, and what all have, and gets it back.
func TestFailures(t *testing.T) {
	f, now := NewFailures(), time.Unix(1e9, 0)
	one, other := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	for f.slot(other) == f.slot(one) {
		other = other.Next()
	}
	spent := 0
	for ; f.Left(one, now); spent++ {
		f.Spend(one, now)
	}
	if spent != burstOfOne {
		t.Errorf("one source had %d, want %d", spent, burstOfOne)
	}
	if !f.Left(other, now) {
		t.Error("another source has none left")
	}
	if !f.Left(one, now.Add(time.Second)) || !f.Left(one, now.Add(refilled+1)) {
		t.Error("a source gets nothing back")
	}
	f, all := NewFailures(), 0
	for a := netip.MustParseAddr("10.1.0.0"); f.Left(a, now) && all < 2*burstOfAll; a = a.Next() {
		f.Spend(a, now)
		all++
	}
	if all < perSource || all > burstOfAll {
		t.Errorf("sources without number had %d, want at most %d", all, burstOfAll)
	}
	if f.Left(one, now.Add(-time.Hour)) {
		t.Error("a clock that goes back gives something back")
	}
}

// TestPacketsTakeNoMemory checks a packet of a peer's, and such as strangers send.
func TestPacketsTakeNoMemory(t *testing.T) {
	r := testRing(t, label, testKey(1), testKey(2))
	scratch := make([]byte, 2000)
	for name, b := range map[string][]byte{
		"a peer's": packet(t, testKey(2), label, "something"), "another key's": packet(t, testKey(3), label, "something"),
		"another label's": packet(t, testKey(1), "other", "something"),
	} {
		if n := testing.AllocsPerRun(100, func() {
			if body, why := r.Packet(b); why == None {
				scratch, _ = r.OpensPacket(body, scratch)
			}
		}); n > 0 {
			t.Errorf("%s packet takes memory %.0f times", name, n)
		}
	}
}

// FuzzStranger changes what peers have sent: nothing of it passes but what they have sent itself.
func FuzzStranger(f *testing.F) {
	key := testKey(1)
	keyed := testRing(f, label, testKey(2), key)
	plain, bare := testRing(f, label), testRing(f, "", key)
	var genuine [][]byte
	for _, text := range []string{"x", "a message that is somewhat longer, and ends in d", string(make([]byte, 300))} {
		genuine = append(genuine, packet(f, key, label, text), packet(f, key, "", text))
		for _, d := range []Direction{Inbound, Answer} {
			genuine = append(genuine, message(f, key, label, text, d), message(f, key, "", text, d))
		}
	}
	for _, b := range genuine {
		f.Add(b)
		for at := range min(len(b), 16) {
			changed := bytes.Clone(b)
			changed[at] ^= 1
			f.Add(changed)
		}
		f.Add(b[:len(b)-1])
	}
	begins := func(b []byte) bool {
		return slices.ContainsFunc(genuine, func(r []byte) bool { return bytes.HasPrefix(b, r) })
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, r := range []*Ring{keyed, bare} {
			if why := passes(r, b); why == None && !slices.ContainsFunc(genuine, func(r []byte) bool { return bytes.Equal(r, b) }) {
				t.Errorf("a packet passes that nobody has sent: %x", b)
			}
			for _, d := range []Direction{Inbound, Answer} {
				if why := arrives(t, r, b, d); why == None && !begins(b) {
					t.Errorf("a message passes that nobody has sent: %x", b)
				}
			}
		}
		passes(plain, b)
		for _, d := range []Direction{Inbound, Answer} {
			arrives(t, plain, b, d)
		}
	})
}
