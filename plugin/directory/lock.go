package directory

import (
	"context"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/peer"
)

// Lock is a lock that is held.
type Lock struct {
	Holder string    `json:"holder"` // who has it, for people
	Host   string    `json:"host"`   // the name of the peer whose host has it, or its ID
	Fence  uint64    `json:"fence"`  // rises with every holder of the lock
	Since  time.Time `json:"since"`  // by the clock of that host
}

// locks shows the locks that are held, which are agreed.
func (p *publisher) locks(ctx context.Context, st *ipam.Status) {
	if p.cfg.Locks == nil {
		return
	}
	list, err := p.cfg.Locks(ctx)
	if err != nil {
		p.complain(err)
		return
	}
	names := map[string]string{st.Self.ID: st.Self.Name}
	for _, q := range st.Peers {
		names[q.ID] = q.Name
	}
	host := func(id peer.ID) string {
		if name := names[id.String()]; name != "" {
			return name
		}
		return id.String()
	}
	prefix := LockKeys(p.cfg.Cluster)
	there := map[string]bool{}
	p.locked.Store(int64(len(list)))
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range list {
		key := prefix + l.Name
		there[key] = true
		p.replica.SetAgreed(key, encode(Lock{l.Holder, host(l.Owner), l.Fence, time.Unix(l.Since, 0).UTC()}))
	}
	for _, key := range p.replica.Agreed(prefix) {
		if !there[key] {
			p.replica.RemoveAgreed(key)
		}
	}
	p.settle()
}
