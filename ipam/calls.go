package ipam

import (
	"errors"
	"slices"

	"github.com/ringlet/ringlet/ipam/sentence"
)

// serving is the machine with the call that it serves. What may make a call wait, or depends on what the call has come to so far, is
// a method of it: a call that waits is served again from the beginning.
type serving struct {
	*Machine
	call *Call // nil: nobody waits, see [Machine.unasked]
}

// unasked is the machine where it does for itself what calls ask for, too.
func (m *Machine) unasked() serving { return serving{Machine: m} }

// retry tries again all calls that wait.
func (m *Machine) retry() {
	m.calls.waiting = slices.DeleteFunc(m.calls.waiting, m.try)
}

// try serves a call if that can be done now, and reports whether it was
// answered.
func (m *Machine) try(c *Call) bool {
	at := len(m.fx.Reply)
	m.fx.Reply = slices.Grow(m.fx.Reply, 1)[:at+1] // filled in place, as it is large
	r := &m.fx.Reply[at]
	*r = Reply{}
	r.Call = c.ID
	if len(c.proposed) > 0 { // never when it has just come
		c.hear()
	}
	serving{m, c}.answer(r)
	if r.Err == nil {
		return true
	}
	if wait, ok := errors.AsType[*waitError](r.Err); ok {
		if m.now.Before(c.Deadline) {
			m.fx.Reply = m.fx.Reply[:at]
			return false
		}
		r.Err = wait.Late()
	}
	m.noteRefusal(c.Request, r.Err)
	return true
}

// answer answers what Docker and its engine ask for or tell, and clients of the address API.
func (m serving) answer(r *Reply) {
	switch q := m.call.Request.(type) {
	case *AddressRequest:
		r.Err = m.requestAddress(q, &r.Address)
		if r.Err == nil {
			m.members.Granted()
		}
	case *AddressRelease:
		m.releaseAddress(q)
	case *PoolRequest:
		r.Pool = new(PoolGrant)
		*r.Pool, r.Err = m.requestPool(q)
		if r.Err == nil {
			m.members.Granted()
		}
	case *PoolRelease:
		m.releasePool(q)
	case *Withdrawal:
		m.withdraw(q)
	case *Stranger:
		m.takeStranger(q)
	case *Greeting:
		m.greet()
	case *Inventory:
		r.Again = m.takeInventory(q)
		m.calls.changed = true
	case *Blindness:
		m.engine.FallSilent()
		m.calls.changed = true
	case *HostAddresses:
		m.takeHost(q)
	case *ClientRequest:
		r.Err = m.client(q, &r.Address)
	case *FreeRequest:
		r.Addresses, r.Err = m.free(q)
	default:
		m.operate(r)
	}
}

// operate answers what operators ask for, and the parts of this process.
func (m serving) operate(r *Reply) {
	switch q := m.call.Request.(type) {
	case *PoolCreation:
		r.Status = new(PoolStatus)
		*r.Status, r.Created, r.Err = m.createPool(q)
		r.Err = m.staysWanted(r.Err, "ringlet pool ls")
	case *PoolRemoval:
		r.Err = m.staysWanted(m.removePool(q), "ringlet pool ls")
	case *ReserveRequest:
		r.Reserving = new(Reserving)
		*r.Reserving, r.Err = m.reserve(q)
		r.Err = m.staysWanted(r.Err, "ringlet explain "+q.First.String())
	case *UnreserveRequest:
		r.Reserving = new(Reserving)
		*r.Reserving, r.Err = m.unreserve(q)
		r.Err = m.staysWanted(r.Err, "ringlet explain "+q.First.String())
	case *CollectRequest:
		r.Collected, r.Err = m.collect(q)
	case *DrainRequest:
		r.Err = m.drainSelf(q)
	case *LeaveRequest:
		r.Err = m.leave(q)
	case *EvictRequest:
		r.Err = m.evict(q)
	case *ForgetRequest:
		r.Forgetting = new(Forgetting)
		*r.Forgetting, r.Err = m.forget(q)
	case *TrustRequest:
		r.Err = m.trust()
	case *IdentityRequest:
		r.Err = m.identify(q)
	case *LockRequest:
		r.Fence, r.Err = m.lock(q)
	case *UnlockRequest:
		r.Err = m.unlock(q)
	case *RenewalRequest:
		r.Fence, r.Err = m.renewLock(q)
	case *RecoverRequest:
		r.Err = m.recover()
	}
}

// waitError makes a call wait for a later step.
type waitError = sentence.WaitError

// finalError returns an error that makes a call wait as one that does not.
func finalError(err error) error {
	if e, ok := errors.AsType[*waitError](err); ok {
		return e.Late()
	}
	return err
}

// noteRefusal remembers that a request for one certain address was refused.
func (m *Machine) noteRefusal(r Request, err error) {
	q, ok := r.(*AddressRequest)
	if c, of := r.(*ClientRequest); of {
		q, ok = &AddressRequest{Purpose: ForClient, ID: c.ID, Address: c.Address}, true
	}
	if ok && q.Address.IsValid() {
		m.calls.refusals = m.calls.refusals.With(m.now, q.Address, q.Asker(), err)
	}
}
