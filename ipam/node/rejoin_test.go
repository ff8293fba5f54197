package node_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/machinetest"
	"github.com/ringlet/ringlet/ipam/node"
)

// A peer that has no reason to start over goes on, and whoever waits for it goes on waiting.
func TestRetire(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := &disk{records: machinetest.Disk{}}
		n := start(t, d, ipam.Config{Join: true}) // it waits for a cluster, and so does who asks it for anything
		ended := serve(t, n)
		waiting := make(chan error, 1)
		go func() {
			_, err := n.RequestAddress(t.Context(), request("web"))
			waiting <- err
		}()
		synctest.Wait()
		why, told := errors.New("an operator says so"), false
		cause := func(ipam.Remains) error { told = true; return why }
		if err := n.Retire(t.Context(), cause); !errors.Is(err, ipam.ErrBadRequest) || told {
			t.Fatalf("a peer that has no reason to start over: %v, %t", err, told)
		}
		synctest.Wait()
		if len(waiting) > 0 || len(ended) > 0 {
			t.Fatal("it stopped all the same")
		}
	})
}

// The same of one that starts over, as its database is known to be an old one. Who waits for it is told, and so is who asks
// behind that.
func TestRetireOfASuspendedPeer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := &disk{records: machinetest.Disk{}}
		n := start(t, d, ipam.Config{})
		claim := ipam.ClientRequest{Pool: "10.50.0.0/16", ID: "printer"}
		if _, _, err := n.CreatePool(t.Context(), network.Pool, ""); err != nil {
			t.Fatal(err)
		}
		if _, err := n.Client(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
		d.records.Commit([]ipam.Record{{Bucket: "identity", Key: []byte("old"), Value: []byte("its database is an old one")}})
		n = start(t, d, ipam.Config{})
		ended := serve(t, n)
		why := errors.New("an operator says so")
		var got ipam.Remains
		if err := n.Retire(t.Context(), func(r ipam.Remains) error { got = r; return why }); err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(got.Clients, func(c ipam.ClientRequest) bool { return c.ID == "printer" }) {
			t.Errorf("it carries over %+v", got)
		}
		tries := d.tried()
		_, err := n.Client(t.Context(), claim)
		if stop, ok := errors.AsType[*node.StopError](err); !ok || !errors.Is(stop, why) || stop.Stack != nil || !errors.Is(err, ipam.ErrStopped) {
			t.Errorf("got %v", err)
		}
		if err := <-ended; !errors.Is(err, why) {
			t.Errorf("Run returned %v", err)
		}
		time.Sleep(time.Minute)
		if d.tried() != tries {
			t.Error("its machine took a step behind that")
		}
	})
}
