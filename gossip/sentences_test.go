package gossip

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringlet/ringlet/gossip/guard"
	"github.com/ringlet/ringlet/internal/golden"
	"github.com/ringlet/ringlet/ipam/peer"
)

// TestSentences holds what an operator reads.
func TestSentences(t *testing.T) {
	cfg := goodConfig()
	cfg.Label = "blue"
	g, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	here, there := netip.MustParseAddrPort("10.0.0.3:7950"), netip.MustParseAddrPort("10.0.0.4:7950")
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	var out strings.Builder
	write := func(p Problem) { fmt.Fprintf(&out, "%s\n  %s\n  next: %s\n", p.Code, p.Text, p.Next) }
	for _, c := range []cause{causeLabel, causeKey, causePlain, causeNoKey, causeUnclear} {
		write(problem(string(c), "", g.explain(c, "10.0.0.2")))
	}
	for _, err := range []error{
		g.refusal(guard.Key, errStranger),
		g.refusal(guard.None, errors.New("EOF")),
		g.refusal(guard.None, errors.New("1 error occurred: failed to join 10.0.0.2:7950: read tcp 10.0.0.1:4711->10.0.0.2:7950: i/o timeout")),
		unreachable(dial(os.NewSyscallError("connect", syscall.ECONNREFUSED))),
		unreachable(dial(os.NewSyscallError("connect", syscall.EHOSTUNREACH))),
		unreachable(dial(os.ErrDeadlineExceeded)),
		unreachable(dial(os.NewSyscallError("connect", syscall.EPERM))),
	} {
		write(problem(codeUnreached, "host-b:7950 in RINGLET_JOIN cannot be reached: ", err))
	}
	write(problem(codeConflict, "", explainConflict(peer.ID{0xab}, false, conflict{here, there, time.Time{}})))
	write(problem(codeConflict, "", explainConflict(peer.ID{0xab}, true, conflict{here, there, time.Time{}})))
	golden.Check(t, "sentences.txt", []byte(out.String()))
}
