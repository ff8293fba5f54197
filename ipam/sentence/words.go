package sentence

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/space"
)

// Pool names a pool: its subnet, with its name where it has one.
func Pool(p *chronicle.Pool) string {
	if p.Name == "" {
		return p.CIDR.String()
	}
	return fmt.Sprintf("%v (%s)", p.CIDR, p.Name)
}

// Holder names what has held an address on that host, since a time in nanoseconds since 1970.
func Holder(host peer.Name, h space.Holder, since int64) string {
	at := Date(since)
	switch h.Kind {
	case space.Gateway:
		return fmt.Sprintf("%s as its own gateway since %s", host, at)
	case space.Host:
		return fmt.Sprintf("%s, which has it on an interface", host)
	case space.Stranger:
		if h.MAC == [6]byte{} {
			return warned
		}
		return fmt.Sprintf("%s, which answered %s at %s", Who(h), host, at)
	case space.Kept:
		return fmt.Sprintf("nobody on %s since %s", host, at)
	case space.Container, space.Unmarked, space.Client:
	}
	return fmt.Sprintf("%s on %s since %s", Who(h), host, at)
}

// warned names the holder of an address of which a peer warns: one that was given up, or one with a new database.
const warned = "a container, client or network on a host that was forgotten or has a new database"

// Who names a holder, whatever host it is on.
func Who(h space.Holder) string {
	switch short := Ref(h.Ref); {
	case h.Kind == space.Gateway:
		return "a network, as its gateway"
	case h.Kind == space.Host:
		return "the host itself"
	case h.Kind == space.Stranger && h.MAC == [6]byte{}:
		return warned
	case h.Kind == space.Stranger:
		return "another device on the network, with MAC " + addr.MAC(h.MAC).String()
	case h.Kind == space.Client:
		return fmt.Sprintf("%q", h.Ref)
	case h.Name != "" && short != "":
		return fmt.Sprintf("container %s (%s)", h.Name, short)
	case h.Name != "":
		return "container " + h.Name
	case short != "":
		return "container " + short
	case h.MAC != [6]byte{}:
		return "a container with MAC " + addr.MAC(h.MAC).String()
	}
	return "a container"
}

// PeerRef names a peer as a command takes it.
func PeerRef(name peer.Name, id peer.ID) string {
	if name == "" {
		return id.String()
	}
	return Word(string(name))
}

// Ref shortens a container's ID to what docker ps shows.
func Ref(id string) string {
	if len(id) == 64 {
		return id[:12]
	}
	return id
}

// Date writes a time, in nanoseconds since 1970.
func Date(nanos int64) string {
	return time.Unix(0, nanos).UTC().Format("2006-01-02 15:04 MST")
}

// Word writes what others chose as one word of a shell command.
func Word(s string) string {
	special := func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune("|&;<>()$`\\\"'*?[]#~!{}^", r) }
	if s != "" && !strings.ContainsFunc(s, special) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// Plural writes a number with the noun, and what else depends on the number.
func Plural[N ~int | ~uint64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return addr.Count(n).String() + " " + many
}

// maxListed is how many peers or subnets a sentence names; commands list all.
const maxListed = 8

// List joins names. Behind the first 8 it says how many more there are.
func List(names []string) string {
	shown := names[:min(len(names), maxListed)]
	out := strings.Join(shown, ", ")
	if more := len(names) - len(shown); more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	return out
}

// Subnets joins subnets in order, each of them once, as [List] does.
func Subnets(all []netip.Prefix) string {
	all = slices.Compact(slices.SortedFunc(slices.Values(all), netip.Prefix.Compare))
	texts := make([]string, len(all))
	for i, p := range all {
		texts[i] = p.String()
	}
	return List(texts)
}

// Reserved says what an address is reserved for: "is …".
func Reserved(r *chronicle.Reservation) string {
	switch r.Kind {
	case chronicle.KindNetwork, chronicle.KindBroadcast, chronicle.KindRouter:
		return "is the pool's " + r.Kind.String()
	case chronicle.KindExcluded:
		if r.Note != "" {
			return "is excluded (" + r.Note + ")"
		}
		return "is excluded"
	case chronicle.KindKeptForName:
		return "is reserved for " + r.Note
	default:
		return "is reserved as " + r.Kind.String()
	}
}

// LastOf64 is what the last address of an IPv6 /64 is, which has no offset in its pool (see package addr).
const LastOf64 = "subnet anycast address"

// BringBack says what ends the quarantine of an evicted host's space. ref names the host as a command takes it. If the
// cluster was recovered without that host, its status says so once it runs.
func BringBack(ref string) string {
	return "bring that host back, or release its addresses with ringlet forget " + ref + " if it is gone for good"
}

// Quarantined says that an evicted host may be using something, and what ends that: "may be …".
func Quarantined(name, ref string) string {
	return fmt.Sprintf("may be in use on %s, which was lost and evicted: %s", name, BringBack(ref))
}

// Share is how many addresses of a pool are something, and how that is said of one and of several.
type Share struct {
	N         addr.Count
	One, Many string
}

// InUse is the share of the addresses that are held.
func InUse(n addr.Count) Share { return Share{n, "is in use", "are in use"} }

// OwnGateway is the share that this host has as its gateways. Nobody expects them among what containers use.
func OwnGateway(n addr.Count) Share {
	return Share{n, "is this host's gateway", "are this host's gateways"}
}

// Lost is the share that evicted hosts may be using.
func Lost(n addr.Count) Share {
	return Share{n, "is quarantined for an evicted host", "are quarantined for evicted hosts"}
}

// Withheld is the share that is reserved.
func Withheld(n addr.Count) Share { return Share{n, "is reserved", "are reserved"} }

// Shares says what the addresses of a pool are. size is how many it has. Shares of none are left out.
func Shares(size addr.Count, shares ...Share) string {
	shares = slices.DeleteFunc(shares, func(s Share) bool { return s.N == 0 })
	if len(shares) == 1 && size > 1 {
		return fmt.Sprintf("all %v addresses %s", size, shares[0].Many)
	}
	texts := make([]string, len(shares))
	for i, s := range shares {
		texts[i] = Plural(uint64(s.N), s.One, s.Many)
	}
	last, before := len(texts)-1, ""
	switch {
	case last == 1:
		before = texts[0] + " and "
	case last > 1:
		before = strings.Join(texts[:last], ", ") + ", and "
	}
	return "of " + Plural(uint64(size), "address", "addresses") + " " + before + texts[last]
}
