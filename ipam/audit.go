package ipam

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/space"
)

// Audit is the report of a check: what a peer knows, held against its
// invariants, its database and the last list of its engine.
type Audit struct {
	Verdict Verdict   `json:"verdict"` // failed: an invariant or the database; degraded: there are findings
	At      time.Time `json:"at"`
	Peer    string    `json:"peer"` // its name
	PeerID  string    `json:"peer_id"`
	Slot    uint64    `json:"slot"`
	Broken  []string  `json:"broken"` // invariants, in words
	// Database says where the database differs from what the process knows.
	Database []string `json:"database"`
	// Looked is when the engine's last complete list was begun; null if there
	// was none since the plugin started, and then nothing is known to leak.
	Looked   *time.Time `json:"looked"`
	Listed   int        `json:"listed"` // addresses that containers have, by that list
	Held     int        `json:"held"`   // addresses that containers hold, as far as this peer knows
	Findings []Finding  `json:"findings"`
}

// Codes of findings.
const (
	FoundLeak     = "no-endpoint" // a container holds it, and the engine lists no such endpoint
	FoundConflict = "conflict"    // an endpoint has what it should not have
)

// Finding is an address on which this peer and its engine do not agree.
type Finding struct {
	Code      string       `json:"code"`
	Address   netip.Addr   `json:"address"`
	Pool      netip.Prefix `json:"pool"`
	Container string       `json:"container"`
	Name      string       `json:"name"`
	Since     time.Time    `json:"since"`   // it is held
	Missing   *time.Time   `json:"missing"` // begin of the first list that lacked it
	Text      string       `json:"text"`
	Next      string       `json:"next"`
}

// Audit checks the invariants, and what is held against the engine's last
// list. The database it leaves to [Machine.Differences].
func (m *Machine) Audit(now time.Time) Audit {
	m = m.at(now)
	a := Audit{
		At: now.UTC(), Peer: string(m.cfg.Name), PeerID: m.self.String(), Slot: m.state.Slot,
		Broken: []string{}, Database: []string{}, Findings: []Finding{},
	}
	for _, err := range m.Check(now) {
		a.Broken = append(a.Broken, err.Error())
	}
	if !m.inventory.isZero() {
		a.Looked = new(m.inventory.at.UTC())
	}
	for _, p := range m.sortedPools() {
		a.Listed += len(p.seen)
		for o, rec := range p.held() {
			if rec.Kind != space.Container && rec.Kind != space.Unmarked {
				continue
			}
			a.Held++
			if since, gone := p.missing[o]; gone {
				a.Findings = append(a.Findings, m.leak(p, o, rec, since))
			}
		}
	}
	for k, c := range m.conflicts {
		f := Finding{Code: FoundConflict, Text: c.text, Next: c.ending()}
		if p := m.pools[k.pool]; p != nil {
			f.Address, f.Pool = addr.Nth(p.CIDR, k.at), p.CIDR
			f.Next += fmt.Sprintf("; ringlet explain %v shows more", f.Address)
		}
		a.Findings = append(a.Findings, f)
	}
	slices.SortFunc(a.Findings, func(x, y Finding) int {
		return cmp.Or(x.Address.Compare(y.Address), cmp.Compare(x.Text, y.Text))
	})
	a.judge()
	return a
}

// judge sets the verdict.
func (a *Audit) judge() {
	switch {
	case len(a.Broken)+len(a.Database) > 0:
		a.Verdict = Failed
	case len(a.Findings) > 0:
		a.Verdict = Degraded
	default:
		a.Verdict = Fine
	}
}

// Against adds where the database differs, and judges anew.
func (a *Audit) Against(database []string) {
	a.Database = append(a.Database, database...)
	a.judge()
}

func (m *Machine) leak(p *pool, o addr.Offset, rec space.Record, since time.Time) Finding {
	a := addr.Nth(p.CIDR, o)
	return Finding{
		Code: FoundLeak, Address: a, Pool: p.CIDR, Container: rec.Ref, Name: rec.Name,
		Since: time.Unix(0, rec.Since).UTC(), Missing: new(since.UTC()),
		Text: fmt.Sprintf("%v in %s is held by %s, and the engine has no such endpoint", a, poolText(p.Pool), m.holderText(rec.Holder, rec.Since)),
		Next: "nothing: it is freed by itself when another list of the engine lacks it; ringlet gc asks for that list now",
	}
}

// maxDifferences is how many differences are told: one is too many.
const maxDifferences = 20

// Differences returns where the machine that a database restores differs from
// this one, in words. The database must be as the last step left it.
func (m *Machine) Differences(disk *Machine) []string {
	out := []string{}
	bad := func(format string, args ...any) {
		if len(out) < maxDifferences {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	if m.self != disk.self {
		bad("the database is of peer %v, and this is %v", disk.self, m.self)
	}
	if m.state.Slot != disk.state.Slot || m.state.Digest() != disk.state.Digest() {
		bad("the database stands at slot %d with state %016x, and this peer at slot %d with state %016x", disk.state.Slot, disk.state.Digest(), m.state.Slot, m.state.Digest())
		return out
	}
	for _, id := range m.sortedNetworks() {
		if n := disk.networks[id]; n == nil || n.count != m.networks[id].count || n.useSaid != m.networks[id].useSaid {
			bad("the database lacks the network %s, or counts it otherwise", id)
		}
	}
	for _, p := range m.sortedPools() {
		other := disk.pools[p.Key]
		for o, rec := range p.records() {
			if on := other.space.Lookup(o); on != rec {
				bad("the database has %s for %v, and this peer %s", recordText(on), addr.Nth(p.CIDR, o), recordText(rec))
			}
		}
		for o := range other.records() {
			if p.space.Lookup(o).State == space.Unused {
				bad("the database has a record of %v, and this peer none", addr.Nth(p.CIDR, o))
			}
		}
	}
	return out
}

func recordText(r space.Record) string {
	if r.State == space.Unused {
		return "no record"
	}
	return fmt.Sprintf("%v by %s since %s", r.State, whoText(r.Holder), dateText(r.Since))
}

// CollectRequest frees what a report found to leak, as far as that is still so.
// It is answered with a Collected for each.
type CollectRequest struct {
	Findings []Finding
	DryRun   bool // only tell
}

// Collected says what became of one finding.
type Collected struct {
	Address netip.Addr   `json:"address"`
	Pool    netip.Prefix `json:"pool"`
	Outcome string       `json:"outcome"` // freed (in a dry run: would be), free (it was), kept
	Why     string       `json:"why"`
}

// Outcomes of a finding.
const (
	CollectedFreed = "freed"
	CollectedFree  = "free"
	CollectedKept  = "kept"
)

func (*CollectRequest) request() {}

// collect frees what leaks. It trusts the report for nothing but where to look:
// the same holder must have the address still, and two lists, the grace apart,
// must lack it.
func (m *Machine) collect(q *CollectRequest) ([]Collected, error) {
	if err := m.usable(); err != nil {
		return nil, err
	}
	out := make([]Collected, 0, len(q.Findings))
	for _, f := range q.Findings {
		c := Collected{Address: f.Address, Pool: f.Pool, Outcome: CollectedKept}
		p := m.poolOf(f.Pool)
		var o addr.Offset
		ok := p != nil
		if ok {
			o, ok = addr.OffsetOf(p.CIDR, f.Address)
		}
		switch {
		case f.Code != FoundLeak:
			c.Why = "only addresses without an endpoint are freed, not " + f.Code
		case !ok:
			c.Outcome, c.Why = CollectedFree, "there is no such pool any more"
		default:
			c.Outcome, c.Why = m.mayCollect(p, o, f)
		}
		if c.Outcome == CollectedFreed && !q.DryRun {
			rec := p.space.Lookup(o)
			m.freeHolding(p, o)
			m.note(Note{Kind: NoteLeakMended, Pool: p.CIDR, Address: f.Address, Holder: m.holderText(rec.Holder, rec.Since)})
			m.settleEmptied(p)
		}
		out = append(out, c)
	}
	return out, nil
}

// mayCollect says whether a leak that was found may be freed.
func (m *Machine) mayCollect(p *pool, o addr.Offset, f Finding) (outcome, why string) {
	rec := p.space.Lookup(o)
	first, missing := p.missing[o]
	_, seen := p.seen[o]
	since := time.Unix(0, rec.Since)
	switch {
	case rec.State != space.Held:
		return CollectedFree, "it is no longer in use"
	case rec.Kind != space.Container && rec.Kind != space.Unmarked:
		return CollectedKept, "it is held by " + m.holderText(rec.Holder, rec.Since)
	case !since.Equal(f.Since) || rec.Ref != f.Container || rec.Name != f.Name:
		return CollectedKept, "another holder has it since that report: " + m.holderText(rec.Holder, rec.Since)
	case seen || !missing:
		return CollectedKept, "the engine's last list has it"
	case m.now.Sub(m.heldSince(&rec)) < m.cfg.Grace:
		return CollectedKept, fmt.Sprintf("it is younger than %v: its container may be starting", m.cfg.Grace)
	case m.inventory.at.Sub(first) < m.cfg.Grace:
		return CollectedKept, fmt.Sprintf("the engine's lists have lacked it for less than %v: try again after that", m.cfg.Grace)
	}
	return CollectedFreed, strings.TrimSpace("the engine's lists have lacked it since " + dateText(first.UnixNano()))
}
