package ipamtest

import (
	"iter"
	"runtime/debug"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// script is what one actor does over time, written as if it could wait: an engine that starts a container asks for an address,
// waits for the answer, and goes on. It is a coroutine of the schedule, so nothing runs beside it.
type script struct {
	c      *cluster
	lives  func() bool // else it goes on no more
	yield  func(struct{}) bool
	resume func()
}

// over ends a script whose actor is no more.
type over struct{}

// script begins one. It runs until it waits for the first time.
func (c *cluster) script(lives func() bool, run func(t *script)) {
	t := &script{c: c, lives: lives}
	next, stop := iter.Pull(func(yield func(struct{}) bool) {
		defer c.caught()
		t.yield = yield
		run(t)
	})
	c.scripts[t] = stop
	t.resume = func() {
		if _, waits := next(); !waits {
			delete(c.scripts, t)
		}
	}
	t.resume()
}

// pause lets other things happen until the script is resumed.
func (t *script) pause() {
	if !t.yield(struct{}{}) || !t.lives() {
		panic(over{})
	}
}

// caught makes a breach of a panic. It is to be deferred.
func (c *cluster) caught() {
	v := recover()
	if _, ends := v.(over); v != nil && !ends {
		c.fail("panic", "%v\n%s", v, debug.Stack())
	}
}

// sleep waits for that long.
func (t *script) sleep(d time.Duration) {
	t.c.after(d, t.resume)
	t.pause()
}

// until waits until something is so.
func (t *script) until(so func() bool) {
	for !so() {
		t.sleep(10 * time.Millisecond)
	}
}

// ask has the plugin of a host serve a request, and waits for the answer.
func (t *script) ask(s *site, r ipam.Request) (ipam.Reply, bool) { return t.askChecked(s, r, nil) }

// askChecked is ask, with a check of the answer, if there is one, also where the script goes on no more.
func (t *script) askChecked(s *site, r ipam.Request, check func(ipam.Reply, bool)) (reply ipam.Reply, ok bool) {
	s.call(r, func(got ipam.Reply, answered bool) {
		if reply, ok = got, answered; check != nil {
			check(reply, ok)
		}
		t.resume()
	})
	t.pause()
	return reply, ok
}
