package ipam

import ()

// noteUnasked notes that an earlier database was lost, where a call shows it before a list does: it is about an address of a network that this database
// was never asked for, and the engine asks for networks first. A list may have no more networks than were asked for since.
func (m *Machine) noteUnasked(c *Call) {
	var n Network
	switch r := c.Request.(type) {
	case *AddressRequest:
		n = r.Network
	case *AddressRelease:
		n = r.Network
	default:
		return
	}
	if !m.doubts.HasLoss() && m.engine.Network(n.ID()) == nil {
		m.doubts.TakeLoss()
	}
}
