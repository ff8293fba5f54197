package e2e

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// strangerFor makes this program the stranger of TestClusterStranger, who sends to this address.
const strangerFor = "RINGLET_E2E_STRANGER"

// strangerAt is where the stranger is: in the switch, where it sees all that the hosts say.
const strangerAt = "192.168.50.66"

func TestMain(m *testing.M) {
	if to := os.Getenv(strangerFor); to != "" {
		said, err := beStranger(to)
		if err == nil {
			err = json.NewEncoder(os.Stdout).Encode(said)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// said is what the stranger tells.
type said struct {
	Packets, Streams, Answers int // that it has sent
	Heard                     int // bytes that it was answered
}

// Somebody without the key sees all that two hosts say, and sends them what can be made of it: as packets, on streams, and
// as answers where one of them was told to join. The plugins go on, as the same processes, and their hosts stay together.
func TestClusterStranger(t *testing.T) {
	t.Parallel()
	need(t, "pidof")
	c := NewCluster(t, 2)
	c.Switch.Run("ip", "address", "add", strangerAt+"/24", "dev", "br0")
	a, b := c.Engines[0], c.Engines[1]
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range c.Engines {
		e.ImportDemo()
	}
	a.InstallPlugin(c.Settings(a)...)
	cmd := c.Switch.Command(t.Context(), self)
	cmd.Env = append(cmd.Env, strangerFor+"="+hostAt(0).String())
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b.InstallPlugin("RINGLET_KEY="+c.Key, "RINGLET_JOIN=host-a,"+strangerAt)
	together := func(all []PeerStatus) string {
		for i, st := range all {
			reached := len(st.Peers) == 2
			for _, p := range st.Peers {
				reached = reached && (p.Reachable || p.ID == st.Self.ID)
			}
			if st.State != "ready" || !reached {
				return fmt.Sprintf("%s is %s and has peers %v", c.Engines[i].Name, st.State, st.Peers)
			}
		}
		return ""
	}
	c.Await("the two hosts are together", c.Engines, together)
	var before []string
	for _, e := range c.Engines {
		e.lan("lan", lanSubnet)
		before = append(before, e.Run("pidof", "-s", "ringlet"))
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("the stranger: %v\n%s", err, &problems)
	}
	var has said
	if err := json.Unmarshal(out.Bytes(), &has); err != nil {
		t.Fatal(err)
	}
	t.Logf("the stranger has said %+v", has)
	if has.Heard > 0 || has.Packets < 100 || has.Streams < 100 || has.Answers == 0 {
		t.Errorf("the stranger has said %+v, want much and no answer", has)
	}
	c.Await("the two hosts are together still", c.Engines, together)
	for i, e := range c.Engines {
		if now := e.Run("pidof", "-s", "ringlet"); now != before[i] {
			t.Errorf("the plugin on %s is the process %s, and was %s", e.Name, now, before[i])
		}
	}
	c.crowd(c.Engines, "lan", "guest", 2)
	c.union("beside a stranger")
}

// beStranger sees what hosts say until it has enough, then says what it makes of that.
func beStranger(to string) (said, error) {
	var has said
	false7950, err := net.Listen("tcp", strangerAt+":7950")
	if err != nil {
		return has, err
	}
	seen, err := capture(readyLimit) // hosts exchange their states each two minutes
	if err != nil {
		return has, err
	}
	const labelSize = 2 + len("ringlet")
	answered := make(chan int)
	go func() { answered <- answerWrongly(false7950, seen.answers) }()

	target := net.JoinHostPort(to, "7950")
	packets, err := net.Dial("udp", target)
	if err != nil {
		return has, err
	}
	for _, genuine := range seen.packets {
		for _, b := range madeOf(genuine, labelSize) {
			if _, err := packets.Write(b); err != nil {
				return has, err
			}
			has.Packets++
		}
	}
	_ = packets.SetReadDeadline(time.Now().Add(2 * time.Second))
	n, _ := packets.Read(make([]byte, 1<<16))
	has.Heard += n
	for _, genuine := range seen.messages {
		for _, b := range madeOf(genuine, labelSize+5) {
			conn, err := net.DialTimeout("tcp", target, 10*time.Second)
			if err != nil {
				return has, err
			}
			_, _ = conn.Write(b) // it may be closed meanwhile
			_ = conn.(*net.TCPConn).CloseWrite()
			_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
			answer, err := io.ReadAll(conn)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return has, fmt.Errorf("a stream is still open on which %x was sent", b)
			}
			has.Heard += len(answer)
			has.Streams++
			_ = conn.Close()
		}
	}
	has.Answers = <-answered
	return has, nil
}

// answerWrongly answers some of those who join.
func answerWrongly(l net.Listener, genuine [][]byte) int {
	n := 0
	for end := time.Now().Add(time.Minute); n < 3 && time.Now().Before(end); {
		_ = l.(*net.TCPListener).SetDeadline(end)
		conn, err := l.Accept()
		if err != nil {
			return n
		}
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		_, _ = conn.Read(make([]byte, 4096))
		b := bytes.Clone(genuine[n%len(genuine)])
		b[5] = byte([]int{0, 2, 255}[n]) // its version
		_, _ = conn.Write(b)
		_ = conn.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, conn)
		_ = conn.Close()
		n++
	}
	return n
}

// madeOf returns what can be made of what a peer has sent, whose version of the encryption is at some place: the version
// first of all, then each byte before it and some behind, and some lengths.
func madeOf(genuine []byte, version int) (all [][]byte) {
	for _, v := range []byte{0, 0, 2, 10, 255} {
		all = append(all, put(genuine, version, v))
	}
	for at := range min(version+14, len(genuine)) {
		all = append(all, put(genuine, at, genuine[at]^1))
	}
	for n := 1; n < len(genuine); n += 1 + len(genuine)/40 {
		all = append(all, bytes.Clone(genuine[:n]), put(genuine[:n], min(version, n-1), 0))
	}
	return append(all, put(genuine, len(genuine)-1, genuine[len(genuine)-1]^1))
}

func put(b []byte, at int, to byte) []byte {
	b = bytes.Clone(b)
	b[at] = to
	return b
}

// overheard is what hosts have sent each other.
type overheard struct{ packets, messages, answers [][]byte }

// capture reads what passes the switch until it has enough of each kind.
func capture(limit time.Duration) (overheard, error) {
	var o overheard
	all := uint16(syscall.ETH_P_ALL)
	fd, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW, int(all<<8|all>>8))
	if err != nil {
		return o, err
	}
	defer func() { _ = syscall.Close(fd) }()
	if err := syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &syscall.Timeval{Sec: 1}); err != nil {
		return o, err
	}
	flows := make(map[string][]byte)
	b := make([]byte, 1<<17)
	for end := time.Now().Add(limit); time.Now().Before(end); {
		n, from, err := syscall.Recvfrom(fd, b, 0)
		if err != nil {
			if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR) {
				continue
			}
			return o, err
		}
		if l, ok := from.(*syscall.SockaddrLinklayer); !ok || l.Pkttype != syscall.PACKET_OTHERHOST {
			continue // each frame once: as it comes to the switch
		}
		o.take(bytes.Clone(b[:n]), flows)
		if len(o.packets) >= 20 && len(o.complete(flows, true)) >= 3 && len(o.complete(flows, false)) >= 1 {
			o.messages, o.answers = o.complete(flows, true), o.complete(flows, false)
			return o, nil
		}
	}
	return o, fmt.Errorf("only %d packets and %d streams were overheard", len(o.packets), len(flows))
}

// take keeps what a frame carries to or from the hosts' port.
func (o *overheard) take(frame []byte, flows map[string][]byte) {
	if len(frame) < 34 || binary.BigEndian.Uint16(frame[12:]) != syscall.ETH_P_IP {
		return
	}
	ip := frame[14:]
	size := int(ip[0]&15) * 4
	total := int(binary.BigEndian.Uint16(ip[2:]))
	if total < size+20 || total > len(ip) {
		return
	}
	src, dst := netip.AddrFrom4([4]byte(ip[12:16])), netip.AddrFrom4([4]byte(ip[16:20]))
	segment := ip[size:total]
	from, to := binary.BigEndian.Uint16(segment), binary.BigEndian.Uint16(segment[2:])
	switch ip[9] {
	case syscall.IPPROTO_UDP:
		if to == 7950 && len(o.packets) < 20 && len(segment) > 8+40 {
			o.packets = append(o.packets, segment[8:])
		}
	case syscall.IPPROTO_TCP:
		if from != 7950 && to != 7950 {
			return
		}
		flow := fmt.Sprintf("%v:%d>%v:%d", src, from, dst, to)
		flows[flow] = append(flows[flow], segment[int(segment[12]>>4)*4:]...)
	}
}

// complete returns the whole messages of those who have opened a stream, or of those who have answered.
func (*overheard) complete(flows map[string][]byte, opened bool) (all [][]byte) {
	for flow, b := range flows {
		head := 0
		if strings.HasSuffix(flow, ":7950") != opened || strings.Contains(flow, strangerAt) {
			continue
		}
		if opened {
			head = 2 + len("ringlet")
		}
		if len(b) < head+5 || b[head] != 10 || len(b) != head+5+int(binary.BigEndian.Uint32(b[head+1:])) {
			continue
		}
		all = append(all, b)
	}
	return all[:min(len(all), 3)]
}
