package health

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/ringlet/ringlet/internal/backoff"
	"github.com/ringlet/ringlet/plugin/fault"
)

const (
	// answerTime is how long a host has for its answer.
	answerTime = 3 * time.Second
	// maxLine is how long an answer is at most, in bytes.
	maxLine = 64
	// mostAnswered is how many connections are answered at a time. Others wait.
	mostAnswered = 16

	greeting = "ringlet "
	// Where the address cannot be opened it is tried again after firstRetry, and each time later, up to lastRetry.
	firstRetry = time.Second
	lastRetry  = 10 * time.Second
)

// listen answers at the address of this host, whenever it can, until ctx ends.
func (m *Monitor) listen(ctx context.Context) {
	pause := backoff.Backoff{First: firstRetry, Last: lastRetry}
	for ctx.Err() == nil {
		var lc net.ListenConfig
		l, err := lc.Listen(ctx, "tcp", m.cfg.At.String())
		if err == nil {
			m.fault.Set(nil)
			pause.Reset()
			err = m.serve(ctx, l)
		}
		if ctx.Err() != nil {
			return
		}
		m.fault.Set(cause(err))
		backoff.Sleep(ctx, pause.Next(), nil)
	}
}

// serve gives each connection one line with the ID of this peer. It ends with ctx, or where this host has lost its address.
func (m *Monitor) serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	defer l.Close()
	m.lost.Store(&cancel)
	defer m.lost.Store(nil)
	var answering sync.WaitGroup
	defer answering.Wait()
	room := make(chan struct{}, mostAnswered)
	for {
		conn, err := l.Accept()
		if err != nil {
			return cmp.Or(context.Cause(ctx), err)
		}
		room <- struct{}{} // each makes room again in time
		answering.Go(func() {
			defer func() { <-room }()
			defer func() { _ = conn.Close() }()
			_ = conn.SetDeadline(time.Now().Add(answerTime))
			_, _ = io.WriteString(conn, greeting+m.cfg.Self+"\n") // who does not read it has no answer
		})
	}
}

// ask asks the peer that is to answer at an address, from an address of this host. The error says why it does not.
func ask(ctx context.Context, from netip.Addr, id string, at netip.AddrPort) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), KeepAlive: -1}
	conn, err := dialer.DialContext(ctx, "tcp", at.String())
	if err != nil {
		return cause(err)
	}
	defer func() { _ = conn.Close() }()
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline)
	line, err := io.ReadAll(io.LimitReader(conn, maxLine))
	if err != nil {
		return cause(err)
	}
	other, greeted := strings.CutPrefix(string(line), greeting)
	switch other = strings.TrimSuffix(other, "\n"); {
	case !greeted:
		return errors.New("what answers there is not ringlet")
	case other != id:
		return errors.New("the ringlet of another host answers there")
	}
	return nil
}

// cause strips an error of the network of the addresses, which its reader is told beside it.
func cause(err error) error {
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return fmt.Errorf("no answer within %v", answerTime)
	}
	if e, ok := errors.AsType[*os.SyscallError](err); ok {
		return e.Err
	}
	return err
}

// has says why this host cannot use an address; nil: it can.
func has(a netip.Addr) error {
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(a, 0)))
	if err != nil {
		return cause(err)
	}
	return l.Close()
}

// unavailable returns the fault of a host that cannot use its health address.
func unavailable(at netip.AddrPort, logger *slog.Logger) *fault.Fault {
	return &fault.Fault{
		Logger: logger, Code: "health-unavailable",
		Text: func(err error) string {
			return fmt.Sprintf("this host cannot use its health address %v (RINGLET_HEALTH), so it neither answers there nor asks other hosts: %v", at, err)
		},
		Next: fmt.Sprintf("let RINGLET_HEALTH name an address that this host has (ip addr shows them) and a port that no other program has (ss -ltnp shows them), or set it to off; ringlet tries again at least every %v", lastRetry),
	}
}
