// Package route reads the kernel's table of IPv4 routes, as /proc/net/route shows
// the main one (proc_net(5)). It decides nothing: where a probe goes out, and which
// subnets are not to be chosen, is for who asks.
package route

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"math/bits"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// Route is a route that is up.
type Route struct {
	Interface string       // "*" of one that refuses
	To        netip.Prefix // masked
	Gateway   bool         // by way of another host; else what it leads to is on the link
	Reject    bool         // what is sent there is refused, or dropped
	Metric    uint32       // the lowest counts
}

// Flags of a route, from linux/route.h.
const (
	flagUp      = 0x1
	flagGateway = 0x2
	flagReject  = 0x200
)

// All returns the routes of this host, from the lowest address on. An error is the
// last that it returns.
func All() iter.Seq2[Route, error] {
	return func(yield func(Route, error) bool) {
		// Of this thread, whose network namespace a test may have changed.
		f, err := os.Open("/proc/thread-self/net/route")
		if err != nil {
			yield(Route{}, err)
			return
		}
		defer f.Close()
		read(f)(yield)
	}
}

// read returns the routes of a table.
func read(table io.Reader) iter.Seq2[Route, error] {
	return func(yield func(Route, error) bool) {
		lines := bufio.NewScanner(table)
		lines.Scan() // the titles
		for lines.Scan() {
			r, up, err := parse(lines.Text())
			if err != nil {
				yield(Route{}, fmt.Errorf("the kernel's table of routes has the line %q: %w", lines.Text(), err))
				return
			}
			if up && !yield(r, nil) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(Route{}, err)
		}
	}
}

// parse reads a line of the table: interface, destination, gateway, flags, two
// counters, metric, mask, and more that does not count.
func parse(line string) (r Route, up bool, err error) {
	f := strings.Fields(line)
	if len(f) < 8 {
		return r, false, io.ErrUnexpectedEOF
	}
	var n [4]uint64
	for i, field := range []struct {
		text string
		base int
	}{{f[1], 16}, {f[3], 16}, {f[6], 10}, {f[7], 16}} {
		if n[i], err = strconv.ParseUint(field.text, field.base, 32); err != nil {
			return r, false, err
		}
	}
	to, flags, metric, mask := uint32(n[0]), n[1], uint32(n[2]), uint32(n[3])
	// Addresses are numbers in the order of this machine, of bytes in that of the network.
	var a [4]byte
	binary.NativeEndian.PutUint32(a[:], to)
	r = Route{
		Interface: f[0], To: netip.PrefixFrom(netip.AddrFrom4(a), bits.OnesCount32(mask)).Masked(),
		Gateway: flags&flagGateway != 0, Reject: flags&flagReject != 0, Metric: metric,
	}
	return r, flags&flagUp != 0, nil
}
