package ipam_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/lock"
	"github.com/ringlet/ringlet/ipam/machinetest"
)

func wantLock(name string, token uint64) *ipam.LockRequest {
	return &ipam.LockRequest{Want: lock.Want{Name: name, Holder: "restic", Token: token}}
}

func renewal(fence uint64) *ipam.RenewalRequest {
	return &ipam.RenewalRequest{Name: "backup", Fence: fence}
}

// Who asks again with the same token has the lock already, also over a start of the process. Another one waits.
func TestLock(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	first := h.Call(wantLock("backup", 1))
	if first.Err != nil || first.Fence == 0 {
		t.Fatalf("fence %d: %v", first.Fence, first.Err)
	}
	h.Restart()
	if again := h.Call(wantLock("backup", 1)); again.Err != nil || again.Fence != first.Fence {
		t.Errorf("fence %d, then %d: %v", first.Fence, again.Fence, again.Err)
	}
	if r := h.Call(renewal(first.Fence)); r.Fence != first.Fence || r.Err != nil {
		t.Errorf("the lock stands: %v, %v", r.Fence, r.Err)
	}
	for range 2 {
		if r := h.Call(&ipam.UnlockRequest{Name: "backup", Fence: first.Fence}); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	if r := h.Call(renewal(first.Fence)); r.Fence != 0 || r.Err != nil {
		t.Errorf("the lock stands although it has ended: %v, %v", r.Fence, r.Err)
	}
	if second := h.Call(wantLock("backup", 2)); second.Err != nil || second.Fence <= first.Fence {
		t.Errorf("fence %d follows %d: %v", second.Fence, first.Fence, second.Err)
	}
}

// Who asks for a lock that somebody on another host has hears who that is. Of two who ask at once one gets it.
func TestLockOfAnotherHost(t *testing.T) {
	c := newLockstep(t, 3)
	c.run(time.Minute, c.agreed)
	first := c.ask(0, wantLock("backup", 1))
	if first.Err != nil {
		t.Fatal(first.Err)
	}
	c.run(time.Minute, c.agreed)
	wantErr(t, c.ask(1, wantLock("backup", 2)).Err, ipam.ErrLocked, "the lock backup is held by restic on host-0: wait for it with --wait, or try again later")
	if r := c.ask(0, &ipam.UnlockRequest{Name: "backup", Fence: first.Fence}); r.Err != nil {
		t.Fatal(r.Err)
	}
	c.run(time.Minute, c.agreed)
	one, two := c.call(1, wantLock("backup", 3)), c.call(2, wantLock("backup", 4))
	c.wait(5 * time.Second)
	a, b := c.peers[1].replies[one], c.peers[2].replies[two]
	if a.Err != nil {
		a, b = b, a
	}
	if a.Err != nil || a.Fence <= first.Fence {
		t.Errorf("one of two gets fence %d behind %d: %v", a.Fence, first.Fence, a.Err)
	}
	wantErr(t, b.Err, ipam.ErrLocked, "the lock backup is held by restic")
}

func TestLockRefused(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	for name, want := range map[string]string{
		"":                       "the name of a lock has 1 to 128 characters, not 0",
		"a/b":                    `the name of a lock has letters, digits and the characters . _ - : @ + alone, and "a/b" has others`,
		strings.Repeat("x", 129): "the name of a lock has 1 to 128 characters, not 129",
	} {
		wantErr(t, h.Call(wantLock(name, 1)).Err, ipam.ErrBadRequest, want)
	}
	wantErr(t, h.Call(wantLock("backup", 0)).Err, ipam.ErrBadRequest, "a token that is not 0")
}

// A host is cut off. The others end its lock when it was silent for 25 seconds, and not sooner. It cannot tell any more whether
// it has the lock, and learns that it has not when it is back.
func TestLockOfASilentHost(t *testing.T) {
	c := newLockstep(t, 3)
	c.run(time.Minute, c.agreed)
	first := c.ask(2, wantLock("backup", 1))
	if first.Err != nil {
		t.Fatal(first.Err)
	}
	c.run(time.Minute, c.agreed)
	c.silence(2)
	c.part(2, 0, 1)
	began := c.now
	held := func() bool { return len(c.peers[0].machine.Locks()) > 0 }
	if c.wait(20 * time.Second); !held() {
		t.Error("the lock of a host ended that was silent for 20 seconds")
	}
	if r := c.ask(2, renewal(first.Fence)); r.Fence != 0 || r.Err == nil {
		t.Errorf("a host that reaches nobody says that its lock stands: %v, %v", r.Fence, r.Err)
	}
	if c.run(time.Minute, func() bool { return !held() }); c.now.Sub(began) > 40*time.Second {
		t.Errorf("the lock ended after %v", c.now.Sub(began))
	}
	second := c.ask(0, wantLock("backup", 2))
	if second.Err != nil || second.Fence <= first.Fence {
		t.Errorf("fence %d follows %d: %v", second.Fence, first.Fence, second.Err)
	}
	c.heal()
	if r := c.ask(2, wantLock("report", 3)); r.Err != nil { // it hears what was decided meanwhile
		t.Fatal(r.Err)
	}
	if r := c.ask(2, renewal(first.Fence)); r.Fence != 0 || r.Err != nil {
		t.Errorf("a host that is back says that its lock stands: %v, %v", r.Fence, r.Err)
	}
}

// Gossip has not noticed yet that a host is cut off. Its lock is not renewed, as no majority answers: the others may count its
// silence for longer than it does.
func TestRenewalNeedsAnswers(t *testing.T) {
	c := newLockstep(t, 3)
	c.run(time.Minute, c.agreed)
	taken := c.ask(2, wantLock("backup", 1))
	if taken.Err != nil {
		t.Fatal(taken.Err)
	}
	for range 3 {
		c.wait(5 * time.Second)
		began := c.now
		if r := c.ask(2, renewal(taken.Fence)); r.Fence != taken.Fence || r.Err != nil || c.now.Sub(began) > 10*time.Millisecond {
			t.Errorf("renewed with fence %d within %v: %v", r.Fence, c.now.Sub(began), r.Err)
		}
	}
	c.dead = map[int]bool{2: true}
	c.wait(time.Second)
	if r := c.ask(2, renewal(taken.Fence)); r.Fence != 0 || r.Err == nil {
		t.Errorf("a host that nobody answers renews its lock: %d, %v", r.Fence, r.Err)
	}
	c.dead = map[int]bool{1: true}
	if r := c.ask(2, renewal(taken.Fence)); r.Fence != taken.Fence || r.Err != nil {
		t.Errorf("one of three is silent: %d, %v", r.Fence, r.Err)
	}
}
