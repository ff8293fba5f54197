package gossip

import (
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/memberlist"

	"github.com/ringlet/ringlet/ipam/peer"
)

// metaVersion is the version of what follows it in a member's meta:
//
//	version (1 byte), ID (16), boot (8), nonce (8), length of the name (1), name
//
// Integers are big-endian. What a later release appends is left unread.
const metaVersion = 1

// metaFixed is how long a meta without a name is.
const metaFixed = 1 + 16 + 8 + 8 + 1

// meta is what a member tells of itself beside its address.
type meta struct {
	id    peer.ID
	boot  peer.Boot
	nonce uint64
	name  peer.Name
}

var errMeta = errors.New("the description of a member cannot be read")

// encode fails if the name is longer than a peer's may be. memberlist panics
// if it gets more than [memberlist.MetaMaxSize], which therefore cannot happen.
func (m meta) encode() ([]byte, error) {
	if len(m.name) > peer.MaxName || metaFixed+len(m.name) > memberlist.MetaMaxSize {
		return nil, fmt.Errorf("the name of this peer has %d bytes, the most is %d", len(m.name), peer.MaxName)
	}
	b := append([]byte{metaVersion}, m.id[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(m.boot))
	b = binary.BigEndian.AppendUint64(b, m.nonce)
	b = append(b, byte(len(m.name)))
	return append(b, m.name...), nil
}

// decodeMeta takes hostile bytes. A name that would not print as one word is
// left out: it is for people, and nothing else depends on it.
func decodeMeta(b []byte) (meta, error) {
	if len(b) < metaFixed || b[0] != metaVersion || len(b) < metaFixed+int(b[metaFixed-1]) {
		return meta{}, errMeta
	}
	m := meta{
		id:    peer.ID(b[1:17]),
		boot:  peer.Boot(binary.BigEndian.Uint64(b[17:])),
		nonce: binary.BigEndian.Uint64(b[25:]),
		name:  peer.Name(b[metaFixed : metaFixed+int(b[metaFixed-1])]),
	}
	if m.id == peer.None || m.boot == 0 {
		return meta{}, errMeta
	}
	if !printable(string(m.name)) {
		m.name = ""
	}
	return m, nil
}

func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) })
}

// memberName is what memberlist calls a peer: 26 characters. Host names would
// clash, and every packet carries them.
func memberName(id peer.ID) string { return nameEncoding().EncodeToString(id[:]) }

// parseName reads what memberName wrote, and nothing else.
func parseName(name string) (peer.ID, bool) {
	b, err := nameEncoding().DecodeString(name)
	if err != nil || len(b) != len(peer.ID{}) {
		return peer.None, false
	}
	id := peer.ID(b)
	return id, id != peer.None && memberName(id) == name
}

func nameEncoding() *base32.Encoding { return base32.StdEncoding.WithPadding(base32.NoPadding) }

// The sender of a frame stands at a fixed place of it, in this version of
// frames: behind version, type and cluster (package wire).
const (
	frameVersion = 1
	senderAt     = 1 + 1 + 16
	minFrame     = senderAt + len(peer.ID{})
)

// sender returns who wrote a frame, or peer.None if that cannot be told.
func sender(frame []byte) peer.ID {
	if len(frame) < minFrame || frame[0] != frameVersion {
		return peer.None
	}
	return peer.ID(frame[senderAt:minFrame])
}
