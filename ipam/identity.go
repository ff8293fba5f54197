package ipam

import (
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/identity"
)

// identify has label sets get numbers, and numbers be collected.
func (m serving) identify(q *IdentityRequest) error {
	if err := m.members.Ready(); err != nil {
		return err
	}
	if err := m.members.AwaitLevel(chronicle.WithLocks); err != nil {
		return err
	}
	var actions []chronicle.Action
	refused := ""
	for _, text := range m.state.Identities.Missing(q.Labels) {
		if why := m.state.Identities.Refuses(text); why != "" {
			refused = why
			continue
		}
		actions = append(actions, chronicle.Identify{Labels: text})
	}
	if live := m.state.Identities.Live(q.Collect); len(live) > 0 {
		actions = append(actions, chronicle.Collect{Numbers: live})
	}
	if len(actions) > 0 {
		if _, err := m.propose(actions...); err != nil {
			return err
		}
	}
	if refused != "" {
		return failf(ErrBadRequest, "a container has no identity, because %s", refused)
	}
	return nil
}

// Identities returns the label sets that have numbers, as far as this peer knows. It is a view: see [identity.Registry.View].
func (m *Machine) Identities() identity.Registry { return m.state.Identities.View() }
