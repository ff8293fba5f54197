package directory

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
	"github.com/ringlet/ringlet/plugin/directory/replica"
	"github.com/ringlet/ringlet/plugin/events"
)

// mailbox is a carrier of a peer that sees some others, and keeps what it was to send.
type mailbox struct {
	recorder
	living []peer.ID

	mu   sync.Mutex
	sent []wire.Frame
}

func (m *mailbox) Living() []peer.ID { return m.living }

func (m *mailbox) Send(to peer.ID, frames ...[]byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, frame := range frames {
		if f, err := wire.Decode(frame); err == nil && f.To == to {
			m.sent = append(m.sent, *f)
		}
	}
}

// takeSent returns the messages of one kind that were sent since, by whom they are for.
func takeSent[M replica.Message](t *testing.T, m *mailbox) (to []peer.ID, list []M) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.sent {
		body, _ := f.Body.(wire.Directory)
		got, err := replica.Decode(body.Message)
		if err != nil {
			t.Fatal(err)
		}
		if one, ok := got.(M); ok {
			to, list = append(to, f.To), append(list, one)
		}
	}
	m.sent = nil
	return to, list
}

// from is a frame of another peer of the cluster that [alone] is in.
func from(id peer.ID, m replica.Message) []byte {
	return wire.Encode(nil, &wire.Frame{
		Header: wire.Header{Cluster: [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, From: id, To: hostA.ID, Boot: 1},
		Body:   wire.Directory{Message: replica.Encode(m)},
	})
}

// answering is a directory that runs with what it answers, until the test ends.
func answering(t *testing.T, box *mailbox, past func(context.Context, netip.Addr, time.Time) ([]byte, error)) *Directory {
	t.Helper()
	d, end := running(t, alone{hostA}, events.New(1, 0, 0), box)
	d.cfg.Past = past // no question has come
	t.Cleanup(end)
	synctest.Wait()
	return d
}

var (
	hostB, hostC, hostD = peer.ID{2}, peer.ID{3}, peer.ID{4}
	anAddress           = netip.MustParseAddr("10.50.0.7")
	aTime               = time.Date(2026, 11, 21, 9, 0, 0, 1, time.UTC)
)

// Every peer that is seen is asked, again as long as it is silent. What counts is the first answer of each; who cannot tell,
// or does not answer in time, is named. Answers that nobody waits for change nothing.
func TestAsk(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		box := &mailbox{living: []peer.ID{hostB, hostC, hostD}}
		d := answering(t, box, nil)
		var told []Testimony
		var silent []string
		begun, done := time.Now(), make(chan struct{})
		go func() {
			told, silent = d.Ask(t.Context(), anAddress, aTime)
			close(done)
		}()
		synctest.Wait()
		to, asked := takeSent[replica.Question](t, box)
		if len(to) != 3 || asked[0].Address != anAddress || !asked[0].At.Equal(aTime) {
			t.Fatalf("asked %v: %+v", to, asked)
		}
		serial := asked[0].Serial
		for _, frame := range [][]byte{
			from(hostB, replica.Answer{Serial: serial + 1, Text: []byte("of another question")}),
			from(peer.ID{9}, replica.Answer{Serial: serial, Text: []byte("of a peer that was not asked")}),
			from(hostB, replica.Answer{Serial: serial, Text: []byte("first")}),
			from(hostB, replica.Answer{Serial: serial, Text: []byte("second")}),
			from(hostC, replica.Answer{Serial: serial}), // it cannot tell
		} {
			d.Deliver(frame)
		}
		time.Sleep(askEvery + time.Millisecond)
		synctest.Wait()
		if to, _ := takeSent[replica.Question](t, box); !slices.Equal(to, []peer.ID{hostD}) {
			t.Errorf("asked again: %v", to)
		}
		<-done
		if took := time.Since(begun); took != askTime {
			t.Errorf("it waited for %v, want %v", took, askTime)
		}
		if len(told) != 1 || told[0].Owner != hostB.String() || string(told[0].Text) != "first" || !slices.Equal(silent, []string{hostC.String(), hostD.String()}) {
			t.Errorf("told %q, silent %v", told, silent)
		}
		synctest.Wait()
		if len(d.inquiries) != 0 {
			t.Errorf("%d inquiries are left", len(d.inquiries))
		}
		box.living = nil
		if told, silent := d.Ask(t.Context(), anAddress, aTime); len(told)+len(silent) > 0 {
			t.Errorf("without others: %v, %v", told, silent)
		}
	})
}

// Questions of peers are answered one after the other. One that comes again is not looked up again, and a peer that asks very
// much does not keep the others from an answer.
func TestAnswers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const took = time.Second
		looked, atOnce, most := 0, 0, 0
		box := &mailbox{}
		d := answering(t, box, func(ctx context.Context, a netip.Addr, _ time.Time) ([]byte, error) {
			looked, atOnce = looked+1, atOnce+1
			most = max(most, atOnce)
			defer func() { atOnce-- }()
			select {
			case <-time.After(took):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			switch a.As4()[3] {
			case 1:
				return nil, errors.New("input/output error")
			case 2:
				return []byte(strings.Repeat("x", replica.MaxAnswer+1)), nil
			case 3:
				panic("a mistake")
			}
			return []byte("of " + a.String()), nil
		})
		question := func(serial uint64, last byte) replica.Question {
			return replica.Question{Serial: serial, Address: netip.AddrFrom4([4]byte{10, 50, 0, last}), At: aTime}
		}
		for i := range 100 {
			d.Deliver(from(hostB, question(uint64(i), 7)))
		}
		d.Deliver(from(hostC, question(1, 8)))
		d.Deliver(from(hostC, question(1, 8)))
		time.Sleep(10 * took)
		synctest.Wait()
		to, list := takeSent[replica.Answer](t, box)
		if looked != maxOfPeer+1 || most != 1 || len(list) != looked {
			t.Errorf("looked up %d, %d at a time, answered %d", looked, most, len(list))
		}
		at := slices.Index(to, hostC)
		if at < 0 || string(list[at].Text) != "of 10.50.0.8" || list[at].Serial != 1 {
			t.Fatalf("%v: %+v", to, list)
		}
		d.Deliver(from(hostC, question(1, 8))) // the answer was lost
		synctest.Wait()
		if to, again := takeSent[replica.Answer](t, box); !slices.Equal(to, []peer.ID{hostC}) || string(again[0].Text) != "of 10.50.0.8" {
			t.Errorf("asked again: %v %v", to, again)
		}
		for i := range byte(3) {
			d.Deliver(from(hostD, question(uint64(i), i+1)))
		}
		time.Sleep(4 * took)
		synctest.Wait()
		if _, none := takeSent[replica.Answer](t, box); len(none) != 3 || len(none[0].Text)+len(none[1].Text)+len(none[2].Text) > 0 {
			t.Errorf("who cannot tell says %v", none)
		}
		for i := range 100 { // nothing grows without end
			d.Deliver(from(peer.ID{byte(i), 1}, question(1, 7)))
			time.Sleep(2 * took)
		}
		synctest.Wait()
		if len(d.replies) > keptReplies {
			t.Errorf("%d answers are kept", len(d.replies))
		}
		stranger := wire.Encode(nil, &wire.Frame{Header: wire.Header{Cluster: [16]byte{9}, From: hostB, To: hostA.ID, Boot: 1}, Body: wire.Directory{Message: replica.Encode(question(7, 7))}})
		before := looked
		d.Deliver(stranger)
		time.Sleep(took)
		synctest.Wait()
		if looked != before {
			t.Error("a peer of another cluster got an answer")
		}
	})
}
