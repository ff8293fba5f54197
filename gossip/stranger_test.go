package gossip_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/ringlet/ringlet/gossip"
	"github.com/ringlet/ringlet/ipam/wire"
)

// strangersFor is the environment variable with how long TestStranger sends each kind that it makes up; half a second without it.
const strangersFor = "RINGLET_STRANGERS"

// victimAt is the environment variable that makes this program the host which strangers send to.
const victimAt = "RINGLET_TEST_VICTIM"

const strangersLabel = "strangers"

func TestMain(m *testing.M) {
	if os.Getenv(victimAt) != "" {
		os.Exit(beVictim())
	}
	os.Exit(m.Run())
}

// beVictim runs a peer as a process of its own. Each line that it reads has it join at an address, or, empty, just tell its
// status, which it writes as a line.
func beVictim() int {
	g, err := gossip.New(gossip.Config{
		ID: idOf(1), Boot: 1, Nonce: 1, Bind: netip.MustParseAddrPort(os.Getenv(victimAt)), Label: strangersLabel,
		Keys: func() ([][]byte, error) { return [][]byte{key(1)}, nil }, Logger: slog.New(slog.DiscardHandler),
		Deliver: func(all iter.Seq2[[]byte, int]) {
			for range all {
			}
		},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ran := make(chan error, 1)
	go func() { ran <- g.Run(ctx) }()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		told := victimStatus{PID: os.Getpid()}
		if where := lines.Text(); where != "" {
			ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			_, err := g.Meet(ctx, where)
			cancel()
			told.Met = err == nil
		}
		told.Status = g.Status()
		if err := json.NewEncoder(os.Stdout).Encode(told); err != nil {
			return 1
		}
	}
	stop()
	if <-ran != nil {
		return 1
	}
	return 0
}

// victimStatus is what a victim tells.
type victimStatus struct {
	PID    int
	Met    bool
	Status gossip.Status
}

// victim is a peer in a process of its own.
type victim struct {
	t    *testing.T
	gone atomic.Bool

	mu  sync.Mutex
	in  io.WriteCloser
	out *json.Decoder
}

func startVictim(t *testing.T) *victim {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.Background(), self) // it outlives the test's context, and ends with its input
	cmd.Env = append(os.Environ(), victimAt+"=127.0.0.1:0")
	var crash bytes.Buffer
	cmd.Stderr = &crash
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	v := &victim{t: t, in: in, out: json.NewDecoder(out)}
	t.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the host ended: %v\n%s", err, &crash)
		}
	})
	return v
}

// ask has it join somewhere, or nowhere, and tell its status. Once it has gone it tells nothing.
func (v *victim) ask(where string) (told victimStatus) {
	v.t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	_, err := fmt.Fprintln(v.in, where)
	if err == nil {
		err = v.out.Decode(&told)
	}
	if err != nil && !v.gone.Swap(true) {
		v.t.Errorf("the host has gone: %v", err)
	}
	return told
}

// tap keeps what goes over a transport, in both directions.
type tap struct {
	*gossip.Sockets

	mu       sync.Mutex
	packets  [][]byte
	messages [][]byte // of whoever has opened a stream
	answers  [][]byte
}

// maxSamples is how many packets are kept.
const maxSamples = 24

func (s *tap) WriteTo(b []byte, to string) (time.Time, error) {
	s.mu.Lock()
	if len(s.packets) < maxSamples {
		s.packets = append(s.packets, bytes.Clone(b))
	}
	s.mu.Unlock()
	return s.Sockets.WriteTo(b, to)
}

func (s *tap) DialTimeout(to string, limit time.Duration) (net.Conn, error) {
	conn, err := s.Sockets.DialTimeout(to, limit)
	if err != nil {
		return nil, err
	}
	return &tapped{Conn: conn, of: s}, nil
}

// tapped is a stream of which both directions are kept when it is closed.
type tapped struct {
	net.Conn
	of        *tap
	out, back bytes.Buffer
}

func (c *tapped) Write(b []byte) (int, error) {
	c.out.Write(b)
	return c.Conn.Write(b)
}

func (c *tapped) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.back.Write(b[:n])
	return n, err
}

func (c *tapped) Close() error {
	c.of.mu.Lock()
	if c.out.Len() > 0 {
		c.of.messages = append(c.of.messages, bytes.Clone(c.out.Bytes()))
	}
	if c.back.Len() > 0 {
		c.of.answers = append(c.of.answers, bytes.Clone(c.back.Bytes()))
	}
	c.of.mu.Unlock()
	return c.Conn.Close()
}

func (s *tap) samples() (packets, messages, answers [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.packets), slices.Clone(s.messages), slices.Clone(s.answers)
}

// changes are what can be made of some bytes that a peer has sent: each byte of what they begin with, each length, and each
// version. None of them begins with what was sent.
func changes(genuine []byte, head int) (all [][]byte) {
	for at := range min(head+14, len(genuine)) {
		for _, to := range []byte{genuine[at] ^ 1, genuine[at] ^ 0x80, 0, 1, 255, genuine[at] + 1, genuine[at] - 1} {
			all = append(all, with(genuine, at, to))
		}
	}
	version := head - 1
	for v := range 256 {
		all = append(all, with(genuine, version, byte(v)))
	}
	for n := range genuine {
		if n < head+40 || n > len(genuine)-20 || n%max(1, len(genuine)/20) == 0 {
			all = append(all, bytes.Clone(genuine[:n]))
		}
	}
	for _, at := range []int{head + 5, head + 20, len(genuine) - 17, len(genuine) - 16, len(genuine) - 1} {
		all = append(all, with(genuine, at, genuine[at]^0x10))
	}
	return slices.DeleteFunc(all, func(b []byte) bool { return bytes.Equal(b, genuine) })
}

// some returns so many of what differs most in length.
func some(all [][]byte, n int) [][]byte {
	slices.SortFunc(all, func(a, b []byte) int { return len(a) - len(b) })
	var few [][]byte
	for i := range min(n, len(all)) {
		few = append(few, all[i*(len(all)-1)/max(1, n-1)])
	}
	return few
}

func with(b []byte, at int, to byte) []byte {
	b = bytes.Clone(b)
	b[at] = to
	return b
}

// anyChange makes something up of some bytes.
func anyChange(genuine []byte) []byte {
	for {
		b := bytes.Clone(genuine)
		for range 1 + rand.IntN(4) {
			switch rand.IntN(4) {
			case 0:
				b = b[:rand.IntN(len(b)+1)]
			case 1: // more behind what was cut, so that it does not begin with the whole
				at := rand.IntN(len(b) + 1)
				b = slices.Insert(b, at, byte(rand.IntN(256)))
			default:
				if len(b) > 0 {
					b[rand.IntN(min(len(b), 1+rand.IntN(len(b))))] = byte(rand.IntN(256))
				}
			}
			if len(b) == 0 {
				break
			}
		}
		if !bytes.HasPrefix(b, genuine) {
			return b
		}
	}
}

// TestStranger sends a host what strangers can make of what peers have sent: as packets, on streams, and as answers on
// streams that the host has opened. It must go on, answer nobody, and have its peer all the time.
func TestStranger(t *testing.T) {
	limit := time.Second / 2
	if d := os.Getenv(strangersFor); d != "" {
		var err error
		if limit, err = time.ParseDuration(d); err != nil {
			t.Fatal(err)
		}
	}
	v := startVictim(t)
	var at netip.AddrPort
	soon(t, "open", func() bool { at = v.ask("").Status.Self; return at.IsValid() })
	pid := v.ask("").PID
	var listening atomic.Pointer[tap]
	var gone atomic.Int32
	friend := startReal(t, 2, joining(at), func(cfg *gossip.Config) {
		cfg.Label = strangersLabel
		cfg.Transport = func(bind netip.AddrPort) (memberlist.Transport, error) {
			s, err := gossip.Listen(bind, cfg.Logger)
			if err != nil {
				return nil, err
			}
			n := &tap{Sockets: s}
			listening.Store(n)
			return n, nil
		}
		cfg.Bind = freePort(t, "127.0.0.1") // the transport of a test is told which
		cfg.Presence = func(p gossip.Presence) {
			if !p.Alive {
				gone.Add(1)
			}
		}
	})
	soon(t, "together", func() bool { return friend.Status().Alive == 1 && v.ask("").Status.Alive == 1 })
	friend.Send(idOf(1), friend.frame(wire.Snapshot{State: make([]byte, 50_000)}))
	soon(t, "heard", func() bool {
		friend.Send(idOf(1), friend.frame(wire.Submit{Batch: bytes.Repeat([]byte{250}, 10)})) // ends as padding may
		packets, messages, answers := listening.Load().samples()
		return len(packets) == maxSamples && len(messages) > 1 && len(answers) > 0
	})
	packets, messages, answers := listening.Load().samples()
	packets, messages, answers = some(packets, 10), some(messages, 3), some(answers, 1)

	s := &strangers{t: t, to: at, victim: v}
	labelSize := 2 + len(strangersLabel)
	s.sendPackets(packets, labelSize+1, limit)
	s.sendStreams(messages, labelSize+6, limit)
	s.sendAnswers(answers, 6, limit)

	last := v.ask("")
	if v.gone.Load() {
		return
	}
	t.Logf("%d packets, %d streams and %d answers; refused: %v", s.packets.Load(), s.streams.Load(), s.answers.Load(), last.Status.Counts.Refused)
	if last.PID != pid {
		t.Errorf("the process is %d, and was %d", last.PID, pid)
	}
	if last.Status.Alive != 1 || friend.Status().Alive != 1 || gone.Load() > 0 {
		t.Errorf("the host sees %d peers, its peer sees %d and saw it gone %d times", last.Status.Alive, friend.Status().Alive, gone.Load())
	}
	refused := uint64(0)
	for why, n := range last.Status.Counts.Refused {
		if slices.Contains([]string{"label", "type", "length", "version", "key", "unlabelled", "plain"}, why) && n == 0 {
			t.Errorf("nothing was refused for %s", why)
		}
		refused += n
	}
	if sent := s.streams.Load() + s.answers.Load(); refused < uint64(sent) {
		t.Errorf("%d were refused, want at least the %d on streams", refused, sent)
	}
	friend.Send(idOf(1), friend.frame(wire.Pull{After: 1}))
	soon(t, "in touch", func() bool { return v.ask("").Status.Counts.Received > last.Status.Counts.Received })
}

// strangers send what they make up.
type strangers struct {
	t                         *testing.T
	to                        netip.AddrPort
	victim                    *victim
	packets, streams, answers atomic.Int64
}

// until calls send with what is made of some bytes, and then with what chance makes of them until it is late. Several do so at a
// time, each as a source of its own.
func (s *strangers) until(genuine [][]byte, head int, limit time.Duration, send func(source int, b []byte)) {
	begun := time.Now()
	var all [][]byte
	for _, b := range genuine {
		all = append(all, changes(b, head)...)
	}
	next := make(chan []byte)
	var sending sync.WaitGroup
	for source := range 8 {
		sending.Go(func() {
			for b := range next {
				send(source, b)
			}
		})
	}
	for i := 0; !s.victim.gone.Load() && (i < len(all) || time.Since(begun) < limit); i++ {
		if i < len(all) {
			next <- all[i]
		} else {
			next <- anyChange(genuine[i%len(genuine)])
		}
	}
	close(next)
	sending.Wait()
}

// sendPackets sends packets, from an address that is known and from others.
func (s *strangers) sendPackets(genuine [][]byte, head int, limit time.Duration) {
	var sockets []*net.UDPConn
	var listening sync.WaitGroup
	for source := range 8 {
		from := net.IPv4(127, 0, 0, byte(1+20*source)) // the first one is the peer's
		c, err := net.DialUDP("udp", &net.UDPAddr{IP: from}, net.UDPAddrFromAddrPort(s.to))
		if err != nil {
			s.t.Fatal(err)
		}
		sockets = append(sockets, c)
		listening.Go(func() {
			b := make([]byte, 64<<10)
			for {
				n, err := c.Read(b)
				if errors.Is(err, net.ErrClosed) {
					return
				}
				if n > 0 || err != nil && !s.victim.gone.Load() {
					s.t.Errorf("a packet was answered: %x, %v", b[:n], err)
				}
			}
		})
	}
	s.until(genuine, head, limit, func(source int, b []byte) {
		if _, err := sockets[source].Write(b); err != nil && !s.victim.gone.Load() {
			s.t.Error(err)
		}
		if s.packets.Add(1)%50 == 0 {
			s.victim.ask("") // so that none is lost for coming too quickly
		}
	})
	s.victim.ask("")
	for _, c := range sockets {
		_ = c.Close()
	}
	listening.Wait()
}

// sendStreams opens streams, each from an address of its own.
func (s *strangers) sendStreams(genuine [][]byte, head int, limit time.Duration) {
	s.until(genuine, head, limit, func(source int, b []byte) {
		n := s.streams.Add(1)
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, byte(1+source), byte(1+n%250))}}
		conn, err := d.DialContext(s.t.Context(), "tcp", s.to.String())
		if err != nil {
			s.t.Error(err)
			return
		}
		defer conn.Close()
		// It may be closed before all is written.
		_, _ = conn.Write(b)
		_ = conn.(*net.TCPConn).CloseWrite()
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		answer, err := io.ReadAll(conn)
		if len(answer) > 0 {
			s.t.Errorf("%x was answered %x", b, answer)
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			s.t.Errorf("a stream is still open after a minute, on which %x was sent", b)
		}
	})
}

// sendAnswers has the host join where somebody answers who is no peer.
func (s *strangers) sendAnswers(genuine [][]byte, head int, limit time.Duration) {
	l, err := net.Listen("tcp", "127.0.0.9:0")
	if err != nil {
		s.t.Fatal(err)
	}
	defer l.Close()
	begun := time.Now()
	var all [][]byte
	for _, b := range genuine {
		all = append(all, changes(b, head)...)
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for i := 0; !s.victim.gone.Load() && (i < len(all) || time.Since(begun) < limit); i++ {
		b := anyChange(genuine[i%len(genuine)])
		if i < len(all) {
			b = all[i]
		}
		answered := make(chan string, 1)
		go func() { answered <- answerOnce(l, b) }()
		if told := s.victim.ask(l.Addr().String()); told.Met {
			s.t.Errorf("the host has joined where it was answered %x", b)
		}
		if s.victim.gone.Load() {
			return
		}
		if more := <-answered; more != "" {
			s.t.Errorf("on the answer %x: %s", b, more)
		}
		s.answers.Add(1)
	}
}

// answerOnce accepts a stream, reads one message and answers it. It tells what is wrong with what follows.
func answerOnce(l net.Listener, b []byte) string {
	conn, err := l.Accept()
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	head := make([]byte, 2+len(strangersLabel)+5)
	if _, err := io.ReadFull(conn, head); err != nil {
		return err.Error()
	}
	size := int64(head[len(head)-3])<<16 | int64(head[len(head)-2])<<8 | int64(head[len(head)-1])
	if _, err := io.CopyN(io.Discard, conn, size); err != nil {
		return err.Error()
	}
	_, _ = conn.Write(b)
	_ = conn.(*net.TCPConn).CloseWrite()
	more, err := io.ReadAll(conn)
	if len(more) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Sprintf("the host goes on with %x, %v", more, err)
	}
	return ""
}

// TestOneMessageOfAStream sends more behind a message of a peer's, which goes no further.
func TestOneMessageOfAStream(t *testing.T) {
	t.Parallel()
	var log text
	debug := func(cfg *gossip.Config) {
		cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	a := startReal(t, 1, debug)
	at := a.opened(t)
	b := startReal(t, 2, joining(at), func(cfg *gossip.Config) {
		cfg.Bind = freePort(t, "127.0.0.1")
		cfg.Transport = func(bind netip.AddrPort) (memberlist.Transport, error) {
			s, err := gossip.Listen(bind, cfg.Logger)
			return chatty{s}, err
		}
	})
	soon(t, "together", func() bool { return a.Status().Alive == 1 && b.Status().Alive == 1 })
	b.Send(a.id, b.frame(wire.Snapshot{State: make([]byte, 50_000)}))
	soon(t, "arrived", func() bool {
		return a.received(func(f *wire.Frame) bool { _, ok := f.Body.(wire.Snapshot); return ok })
	})
	if strings.Contains(log.String(), "failed to receive") {
		t.Errorf("memberlist has seen more than one message:\n%s", &log)
	}
}

// chatty sends garbage behind each message.
type chatty struct{ *gossip.Sockets }

func (c chatty) DialTimeout(to string, limit time.Duration) (net.Conn, error) {
	conn, err := c.Sockets.DialTimeout(to, limit)
	if err != nil {
		return nil, err
	}
	return &chattyConn{Conn: conn}, nil
}

type chattyConn struct {
	net.Conn
	written int
}

func (c *chattyConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if c.written++; c.written == 2 && err == nil { // behind the label, and the message
		_, err = c.Conn.Write([]byte("and more that is not encrypted"))
	}
	return n, err
}
