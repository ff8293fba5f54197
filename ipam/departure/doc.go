// Package departure is how a peer leaves the cluster without having wished to: it is evicted, its space is given up, a
// successor on the same machine inherits from it, or a survivor recovers the cluster without it.
//
// An eviction takes no range, so a peer may be evicted on suspicion (R49). Giving up its space is another matter: no
// reachable peer may hear from it or have containers in its space, and a majority must say so (R29). [Departures] asks
// them. A quarantine belongs to one eviction (R28), and a successor inherits only from a peer that was silent since
// before the successor existed (R27).
//
// The package refuses to know what becomes of addresses. It knows no pool of this host and no container, and decides
// nothing: it returns the command to be decided, or the sentence that says why not.
package departure
