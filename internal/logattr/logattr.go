// Package logattr spells the attributes of log lines once.
//
// It refuses to know what is logged, and at which level.
//
// A line about the same thing must carry the same key wherever it is written,
// or nobody can search for it. So the shell packages make their slog
// attributes here and nowhere else; keys are snake case, one function per key.
// The core packages do not log and must not import this one.
//
// Constructors take the typed value and turn it into text only if the line is
// written, so that a debug line which nobody reads costs no formatting.
package logattr

import (
	"fmt"
	"log/slog"
	"net/netip"
	"time"
)

// integer is what can be counted: also the distinct count types of the core.
type integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

// Node is the name of the engine's host that writes the line.
func Node(name string) slog.Attr { return slog.String("node", name) }

// Peer is the identity of another allocator of the cluster.
func Peer(id fmt.Stringer) slog.Attr { return slog.Any("peer", text{id}) }

// Pool is the pool that the line is about: its subnet or its identifier.
func Pool(pool fmt.Stringer) slog.Attr { return slog.Any("pool", text{pool}) }

// Addr is one address, without its mask.
func Addr(a netip.Addr) slog.Attr { return slog.Any("addr", text{a}) }

// Range is a half-open range of addresses or of offsets in a pool.
func Range(r fmt.Stringer) slog.Attr { return slog.Any("range", text{r}) }

// Container is the ID or the name of a container.
func Container(id string) slog.Attr { return slog.String("container", id) }

// Endpoint is the ID or the name of a container's endpoint in a network.
func Endpoint(id string) slog.Attr { return slog.String("endpoint", id) }

// Network is the ID or the name of a Docker network.
func Network(id string) slog.Attr { return slog.String("network", id) }

// Name is what people call the thing that the message is about.
func Name(name string) slog.Attr { return slog.String("name", name) }

// Kind is the kind of a message, command, event or call.
func Kind(kind string) slog.Attr { return slog.String("kind", kind) }

// Ballot is the number of an attempt to decide.
func Ballot(b fmt.Stringer) slog.Attr { return slog.Any("ballot", text{b}) }

// Version is the version of a record or of a format.
func Version[N integer](v N) slog.Attr { return slog.Any("version", number(v)) }

// Slot is a place in the chronicle.
func Slot[N integer](s N) slog.Attr { return slog.Any("slot", number(s)) }

// Count is how many there were.
func Count[N integer](n N) slog.Attr { return slog.Any("count", number(n)) }

// Bytes is a size in bytes.
func Bytes[N integer](n N) slog.Attr { return slog.Any("bytes", number(n)) }

// Took is how long it lasted.
func Took(d time.Duration) slog.Attr { return slog.Duration("took", d) }

// Request is the ID under which the answer to a request can be found in the
// log; a user sees it in the error text.
func Request(id string) slog.Attr { return slog.String("request", id) }

// Err is the error that made the line necessary. A nil error is logged as
// such.
func Err(err error) slog.Attr { return slog.Any("err", err) }

// number keeps the sign: a uint64 above the largest int64 stays what it is.
func number[N integer](n N) slog.Value {
	if n < 0 {
		return slog.Int64Value(int64(n))
	}
	return slog.Uint64Value(uint64(n))
}

// text formats when the line is written, and as a string in every format:
// JSON would otherwise show the bytes of an ID as an array.
type text struct{ v fmt.Stringer }

// LogValue implements [slog.LogValuer].
func (t text) LogValue() slog.Value {
	if t.v == nil {
		return slog.StringValue("")
	}
	return slog.StringValue(t.v.String())
}
