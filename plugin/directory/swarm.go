package directory

import (
	"context"
	"encoding/json"
	"time"

	"github.com/ringlet/ringlet/internal/logattr"
)

// servicesAtOnce is from how many bytes of values on no further service is read before others may.
const servicesAtOnce = 1 << 20

// swarm asks the engine once a minute for the virtual addresses of the swarm's services, where there are services of a swarm at all.
func (p *publisher) swarm(ctx context.Context, now time.Time) {
	if p.cfg.SwarmServices == nil || now.Sub(p.managed) < lookEvery {
		return
	}
	there := p.ofSwarms()
	if len(there)+len(p.services.virtual) == 0 {
		return
	}
	p.managed = now
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	list, err := p.cfg.SwarmServices(ctx)
	if err != nil { // a swarm without a majority of its managers does not answer: what was told stays
		p.cfg.Logger.Debug("swarm services not listed", logattr.Err(err))
		return
	}
	p.services.manage(list, there)
}

// ofSwarms returns the keys of services of a swarm that have endpoints on some host.
func (p *publisher) ofSwarms() map[string]bool {
	out := map[string]bool{}
	after, more := "", true
	for more {
		var list []Item
		list, more = p.List(ServiceKeys(p.cfg.Cluster), after, writeAtOnce, servicesAtOnce)
		for _, item := range list {
			var s Service
			if json.Unmarshal(item.Value, &s) == nil && s.Swarm {
				out[item.Key] = true
			}
			after = item.Key
		}
	}
	return out
}
