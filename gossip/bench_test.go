package gossip_test

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"testing"
	"time"

	"github.com/ringlet/ringlet/gossip"
	"github.com/ringlet/ringlet/ipam/wire"
)

// pair starts two peers on the loopback interface that know each other. What the second gets goes to arrived.
func pair(b *testing.B, arrived func(frames int)) (first, second *gossip.Gossip) {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	start := func(n int, deliver func(iter.Seq2[[]byte, int]), join ...string) *gossip.Gossip {
		g, err := gossip.New(gossip.Config{
			ID: idOf(n), Boot: 1, Nonce: uint64(n), Bind: loopback(), Join: join, Label: "bench",
			Keys: func() ([][]byte, error) { return [][]byte{key(1)}, nil }, Logger: slog.New(slog.DiscardHandler), Deliver: deliver,
		})
		if err != nil {
			b.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = g.Run(ctx) // it has not run before
		}()
		b.Cleanup(func() { cancel(); <-done })
		return g
	}
	await := func(holds func() bool) {
		for end := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				b.Fatal("the two do not find each other")
			}
		}
	}
	first = start(1, func(all iter.Seq2[[]byte, int]) {
		for range all {
		}
	})
	await(func() bool { return first.Status().Self.IsValid() })
	second = start(2, func(all iter.Seq2[[]byte, int]) {
		n := 0
		for range all {
			n++
		}
		arrived(n)
	}, first.Status().Self.String())
	await(func() bool { return first.Status().Alive == 1 && second.Status().Alive == 1 })
	return first, second
}

// BenchmarkFrame sends one frame after the other, each once the one before has arrived: as a packet, and as a stream.
func BenchmarkFrame(b *testing.B) {
	for _, size := range []int{100, 1000, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			there := make(chan struct{}, 1)
			first, _ := pair(b, func(int) {
				select {
				case there <- struct{}{}:
				default:
				}
			})
			frame := wire.Encode(nil, &wire.Frame{Header: wire.Header{From: idOf(1), Boot: 1, Nonce: 1}, Body: wire.Submit{Batch: make([]byte, size)}})
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				first.Send(idOf(2), frame)
				select {
				case <-there:
				case <-time.After(5 * time.Second): // lost
				}
			}
		})
	}
}
