package datagram

import (
	"bytes"
	"time"
)

// Receive takes in bytes of any kind but a bare frame, as a network brings them, and reports whether it could read them.
// broadcast takes a bare frame that came in a bundle. Receive keeps no memory of b.
func (e *Endpoint) Receive(b []byte, broadcast func(frame []byte) bool) bool {
	if len(b) == 0 || b[0] != kindBundle {
		return e.receiveOne(b, broadcast)
	}
	all, ok := unbundle(b)
	for _, one := range all {
		ok = e.receiveOne(one, broadcast) && ok
	}
	return ok
}

func (e *Endpoint) receiveOne(b []byte, broadcast func([]byte) bool) bool {
	switch {
	case len(b) == 0:
	case IsFrame(b):
		return broadcast(b)
	case b[0] == kindAck:
		return e.receiveAck(b)
	case b[0] == kindMessage || b[0] == kindStream:
		return e.receiveMessage(bytes.Clone(b))
	case b[0] == kindFragment:
		return e.receiveFragment(b)
	}
	return false // a later release may have more kinds
}

func (e *Endpoint) receiveAck(b []byte) bool {
	from, ids, ok := readAck(b)
	for _, id := range ids {
		e.acked(from, id, time.Now())
	}
	return ok
}

// receiveMessage takes in a message. It acknowledges one that has come before, too, since the first ack was lost.
func (e *Endpoint) receiveMessage(b []byte) bool {
	id, frames, ok := e.unpack(b)
	if !ok {
		return false
	}
	e.deliver(id, frames)
	if b[0] == kindMessage { // only now: the ack has the next message sent, which must not overtake this one
		e.scheduleAck(e.cfg.Author(frames[0]), id, 1, time.Now())
	}
	return true
}

// deliver hands over the frames of a message, once.
func (e *Endpoint) deliver(id uint64, frames [][]byte) {
	if e.seen.add(id) {
		e.cfg.Deliver(frames...)
	} else {
		e.counts.duplicate.Add(uint64(len(frames)))
	}
}

// receiveFragment takes in a fragment. For one that comes after its message, which may also have come over a stream, it
// acknowledges the message.
func (e *Endpoint) receiveFragment(b []byte) bool {
	f, ok := readFragment(b)
	if !ok {
		return false
	}
	now := time.Now()
	if e.seen.has(f.message) {
		e.scheduleAck(f.from, f.message, f.of, now)
		return true
	}
	whole, ok := e.reassembly.add(f, now)
	if ok && whole == nil {
		e.scheduleAck(f.from, f.message+uint64(f.number), 0, now)
		return true
	}
	frames, ok := split(whole, e.cfg.MinFrame)
	if ok {
		e.deliver(f.message, frames)
		e.scheduleAck(f.from, f.message, f.of, now) // only now, as in receiveMessage
	}
	return ok
}
