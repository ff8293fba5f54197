package report

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/sentence"
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

// Audit holds what containers hold against the engine's last list. broken are the invariants that do not hold. The
// database is left to [Picture.Differences].
func (p *Picture) Audit(broken []error) Audit {
	a := Audit{
		At: p.Now.UTC(), Peer: string(p.Name), PeerID: p.Self.String(), Slot: p.State.Slot,
		Broken: []string{}, Database: []string{}, Findings: []Finding{},
	}
	for _, err := range broken {
		a.Broken = append(a.Broken, err.Error())
	}
	if !p.Looked.IsZero() {
		a.Looked = new(p.Looked.UTC())
	}
	for i := range p.Pools {
		pool := &p.Pools[i]
		a.Listed += len(pool.Seen)
		for o, rec := range pool.Space.HeldIn(addr.Whole(pool.CIDR)) {
			if !rec.Kind.OfEndpoint() {
				continue
			}
			a.Held++
			if since, gone := pool.Missing[o]; gone {
				a.Findings = append(a.Findings, p.leak(pool, o, rec, since))
			}
		}
	}
	for _, c := range p.Conflicts {
		f := Finding{Code: FoundConflict, Address: c.Address, Pool: c.Pool, Text: c.Text, Next: c.Next}
		if c.Address.IsValid() {
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

// Against adds where the database differs, and judges again.
func (a *Audit) Against(database []string) {
	a.Database = append(a.Database, database...)
	a.judge()
}

func (p *Picture) leak(pool *Pool, o addr.Offset, rec space.Record, since time.Time) Finding {
	a := addr.Nth(pool.CIDR, o)
	return Finding{
		Code: FoundLeak, Address: a, Pool: pool.CIDR, Container: rec.Ref, Name: rec.Name,
		Since: time.Unix(0, rec.Since).UTC(), Missing: new(since.UTC()),
		Text: fmt.Sprintf("%v in %s is held by %s, and the engine has no such endpoint", a, sentence.Pool(pool.Pool), sentence.Holder(p.Name, rec.Holder, rec.Since)),
		Next: "nothing: it is freed by itself when another list of the engine lacks it; ringlet gc asks for that list now",
	}
}

// maxDifferences is how many differences are told: one is too many.
const maxDifferences = 20

// Differences returns where the picture of a database that was read back differs from this one, in words. The database must be as
// the peer's last step left it.
func (p *Picture) Differences(disk *Picture) []string {
	out := []string{}
	bad := func(format string, args ...any) {
		if len(out) < maxDifferences {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	if p.Self != disk.Self {
		bad("the database is of peer %v, and this is %v", disk.Self, p.Self)
	}
	if p.State.Slot != disk.State.Slot || p.State.Digest() != disk.State.Digest() {
		bad("the database stands at slot %d with state %016x, and this peer at slot %d with state %016x", disk.State.Slot, disk.State.Digest(), p.State.Slot, p.State.Digest())
		return out
	}
	for _, n := range p.Networks {
		if !slices.ContainsFunc(disk.Networks, func(o NetStatus) bool { return o.ID == n.ID }) {
			bad("the database lacks the network %s", n.ID)
		}
	}
	for i := range p.Pools { // the same ones as on disk, since the states are equal
		pool, other := &p.Pools[i], &disk.Pools[i]
		all := addr.Whole(pool.CIDR)
		for o, rec := range pool.Space.Records(all) {
			if on := other.Space.Lookup(o); on != rec {
				bad("the database has %s for %v, and this peer %s", recordText(on), addr.Nth(pool.CIDR, o), recordText(rec))
			}
		}
		for o := range other.Space.Records(all) {
			if pool.Space.Lookup(o).State == space.Unused {
				bad("the database has a record of %v, and this peer none", addr.Nth(pool.CIDR, o))
			}
		}
	}
	return out
}

func recordText(r space.Record) string {
	if r.State == space.Unused {
		return "no record"
	}
	return fmt.Sprintf("%v by %s since %s", r.State, sentence.Who(r.Holder), sentence.Date(r.Since))
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
