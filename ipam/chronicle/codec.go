package chronicle

import (
	"fmt"
	"slices"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/codec"
	"github.com/ringlet/ringlet/ipam/identity"
	"github.com/ringlet/ringlet/ipam/lock"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/ring"
	"github.com/ringlet/ringlet/ipam/table"
)

// EncodeBatch returns the value of a slot: the number of commands, and for
// each its author (16 bytes), number, opcode (1 byte), and the length and
// bytes of its action, so that a release that does not know an action still
// knows where the next command begins.
func EncodeBatch(batch []Command) []byte {
	b := codec.Uint(nil, uint64(len(batch)))
	for _, c := range batch {
		b = append(b, c.Author[:]...)
		b = codec.Uint(b, c.Number)
		b = append(b, c.Action.opcode())
		b = codec.Bytes(b, appendAction(nil, c.Action))
	}
	return b
}

// DecodeBatch reads the value of a slot.
func DecodeBatch(b []byte) ([]Command, error) {
	r := codec.NewReader(b)
	batch := make([]Command, r.Count("number of commands", 19))
	for i := range batch {
		c := &batch[i]
		c.Author = r.ID("author")
		c.Number = r.Uint("command number")
		op := r.Byte("opcode")
		body := codec.NewReader(r.Bytes("action", r.Rest()))
		c.Action = readAction(op, body)
		if err := body.Done(); err != nil && r.Err() == nil {
			return nil, fmt.Errorf("command %d: %w", i, err)
		}
	}
	if err := r.Done(); err != nil {
		return nil, err
	}
	return batch, nil
}

func appendKey(b []byte, k PoolKey) []byte {
	return codec.Uint(codec.Uint(b, k.Slot), uint64(k.Place))
}

func readKey(r *codec.Reader) PoolKey {
	return PoolKey{Slot: r.Uint("pool's slot"), Place: r.Uint32("pool's place")}
}

func appendRange(b []byte, r addr.Range) []byte {
	return codec.Uint(codec.Uint(b, uint64(r.Start)), uint64(r.Size()))
}

func readRange(r *codec.Reader) addr.Range {
	start, size := r.Uint("start of a range"), r.Uint("size of a range")
	if start+size < start {
		r.Fail("size of a range")
		return addr.Range{}
	}
	return addr.Range{Start: addr.Offset(start), End: addr.Offset(start + size)}
}

func appendReservation(b []byte, v Reservation) []byte {
	return codec.Bytes(append(appendRange(b, v.Range), byte(v.Kind)), v.Note)
}

func readReservation(r *codec.Reader) Reservation {
	return Reservation{readRange(r), Kind(r.Byte("kind of a reservation")), string(r.Bytes("note", MaxNote))}
}

func appendFounder(b []byte, f Founder) []byte {
	b = append(b, f.ID[:]...)
	b = codec.Bytes(b, f.Name)
	return codec.Uint(codec.Uint(b, uint64(f.Boot)), f.Machine)
}

func readFounder(r *codec.Reader) Founder {
	return Founder{
		ID: r.ID("peer"), Name: peer.Name(r.Bytes("name of a peer", peer.MaxName)),
		Boot: peer.Boot(r.Uint("boot")), Machine: r.Uint("machine"),
	}
}

func readLevel(r *codec.Reader) Level { return Level(r.Uint32("level")) }

func appendFound(b []byte, a Found) []byte {
	b = append(b, a.Cluster[:]...)
	b = codec.Uint(b, uint64(len(a.Peers)))
	for _, f := range a.Peers {
		b = appendFounder(b, f)
	}
	return b
}

func readFound(r *codec.Reader) Found {
	a := Found{Cluster: r.ID("cluster ID")}
	a.Peers = make([]Founder, r.Count("number of peers", 19))
	for i := range a.Peers {
		a.Peers[i] = readFounder(r)
	}
	return a
}

func appendCreatePool(b []byte, a CreatePool) []byte {
	b = append(codec.Prefix(b, a.CIDR), byte(a.Origin), byte(a.Deal))
	b = codec.Uint(b, uint64(len(a.Reserved)))
	for _, v := range a.Reserved {
		b = appendReservation(b, v)
	}
	if len(a.Away) > 0 { // a peer of the first level knows nothing behind the reservations
		b = codec.Uint(b, uint64(len(a.Away)))
		for _, id := range a.Away {
			b = append(b, id[:]...)
		}
	}
	return b
}

func readCreatePool(r *codec.Reader) CreatePool {
	a := CreatePool{CIDR: r.Prefix("subnet"), Origin: Origin(r.Byte("origin")), Deal: Deal(r.Byte("deal"))}
	a.Reserved = make([]Reservation, r.Count("number of reservations", 4))
	for i := range a.Reserved {
		a.Reserved[i] = readReservation(r)
	}
	if r.Rest() > 0 {
		a.Away = make([]peer.ID, r.Count("number of peers", 16))
		for i := range a.Away {
			a.Away[i] = r.ID("peer")
		}
	}
	return a
}

func appendDeletePool(b []byte, a DeletePool) []byte {
	b = appendKey(b, a.Pool)
	if a.Kept != 0 {
		b = codec.Uint(b, a.Kept)
	}
	return b
}

func readDeletePool(r *codec.Reader) DeletePool {
	a := DeletePool{Pool: readKey(r)}
	if r.Rest() == 0 {
		return a
	}
	if a.Kept = r.Uint("hash of what is kept back"); a.Kept == 0 {
		r.Fail("hash of what is kept back")
	}
	return a
}

func appendSetState(b []byte, a SetState) []byte {
	b = append(append(b, a.Peer[:]...), byte(a.Phase))
	if a.Also { // a peer of the first level knows nothing behind the phase
		b = codec.Bool(b, a.Also)
	}
	return b
}

func readSetState(r *codec.Reader) SetState {
	a := SetState{Peer: r.ID("peer"), Phase: Phase(r.Byte("phase"))}
	if r.Rest() == 0 {
		return a
	}
	if a.Also = r.Bool("drains beside another"); !a.Also {
		r.Fail("drains beside another")
	}
	return a
}

// appendAction appends what follows an opcode.
func appendAction(b []byte, action Action) []byte {
	switch a := action.(type) {
	case Found:
		b = appendFound(b, a)
	case CreatePool:
		b = appendCreatePool(b, a)
	case DeletePool:
		b = appendDeletePool(b, a)
	case Open:
		b = codec.Uint(appendRange(appendKey(b, a.Pool), a.Range), uint64(a.Size))
	case Close:
		b = appendRange(appendKey(b, a.Pool), a.Range)
	case Give:
		b = append(appendRange(appendKey(b, a.Pool), a.Range), a.To[:]...)
	case Reserve:
		b = appendReservation(appendKey(b, a.Pool), a.Reservation)
	case Unreserve:
		b = append(appendRange(appendKey(b, a.Pool), a.Range), byte(a.Kind))
	case Admit:
		b = codec.Uint(appendFounder(b, a.Founder), uint64(a.Speaks))
	case SetState:
		b = appendSetState(b, a)
	case Evict:
		b = append(b, a.Peer[:]...)
	case Retire:
		b = append(b, a.Peer[:]...)
	case Forget:
		b = codec.Uint(append(b, a.Peer[:]...), a.Evicted)
	case Inherit:
		b = append(b, a.Former[:]...)
	case NamePool:
		b = codec.Bytes(appendKey(b, a.Pool), a.Name)
	case Use:
		b = appendKey(b, a.Pool)
	case Unuse:
		b = appendKey(b, a.Pool)
	case Borrow:
		b = codec.Uint(appendKey(b, a.Pool), uint64(a.At))
	case Raise:
		b = codec.Uint(b, uint64(a.Level))
	case Identify:
		b = codec.Bytes(b, a.Labels)
	case Collect:
		b = codec.Uint(b, uint64(len(a.Numbers)))
		for _, n := range a.Numbers {
			b = codec.Uint(b, n)
		}
	case Lock:
		b = lock.AppendWant(b, a.Want)
	case Unlock:
		b = codec.Uint(codec.Bytes(b, a.Name), a.Fence)
	case Expire:
		b = codec.Uint(codec.Bytes(b, a.Name), a.Fence)
	case SetZone:
		b = codec.Bytes(b, a.Zone)
	case Unknown:
		b = append(b, a.Body...)
	}
	return b
}

// Unknown is an action of a later level, which this release does not speak. It
// is kept so that it can be passed on; who finds one in a slot cannot apply it,
// see [Known].
type Unknown struct {
	Op   byte
	Body []byte
}

func (a Unknown) opcode() byte   { return a.Op }
func (a Unknown) String() string { return fmt.Sprintf("unknown command %d", a.Op) }

// readAction reads the action that follows an opcode.
func readAction(op byte, r *codec.Reader) Action {
	switch op {
	case Found{}.opcode():
		return readFound(r)
	case CreatePool{}.opcode():
		return readCreatePool(r)
	case DeletePool{}.opcode():
		return readDeletePool(r)
	case Open{}.opcode():
		return Open{readKey(r), readRange(r), addr.Count(r.Uint("size"))}
	case Close{}.opcode():
		return Close{readKey(r), readRange(r)}
	case Give{}.opcode():
		return Give{readKey(r), readRange(r), r.ID("receiver")}
	case Reserve{}.opcode():
		return Reserve{readKey(r), readReservation(r)}
	case Unreserve{}.opcode():
		return Unreserve{readKey(r), readRange(r), Kind(r.Byte("kind of a reservation"))}
	case Admit{}.opcode():
		return Admit{readFounder(r), readLevel(r)}
	case SetState{}.opcode():
		return readSetState(r)
	case Evict{}.opcode():
		return Evict{r.ID("peer")}
	case Retire{}.opcode():
		return Retire{r.ID("peer")}
	case Forget{}.opcode():
		return Forget{r.ID("peer"), r.Uint("slot of an eviction")}
	case Inherit{}.opcode():
		return Inherit{r.ID("peer")}
	case NamePool{}.opcode():
		key := readKey(r)
		return NamePool{Pool: key, Name: string(r.Bytes("name of a pool", MaxNote))}
	case Use{}.opcode():
		return Use{readKey(r)}
	case Unuse{}.opcode():
		return Unuse{readKey(r)}
	case Borrow{}.opcode():
		return Borrow{readKey(r), addr.Offset(r.Uint("address"))}
	case Raise{}.opcode():
		return Raise{readLevel(r)}
	case Identify{}.opcode():
		return Identify{string(r.Bytes("label set", identity.MaxText))}
	case Collect{}.opcode():
		a := Collect{make([]uint64, r.Count("number of identities", 1))}
		for i := range a.Numbers {
			a.Numbers[i] = r.Uint("number of an identity")
		}
		return a
	case Lock{}.opcode():
		return Lock{lock.ReadWant(r)}
	case Unlock{}.opcode():
		return Unlock{string(r.Bytes("name of a lock", lock.MaxName)), r.Uint("fence")}
	case Expire{}.opcode():
		return Expire{string(r.Bytes("name of a lock", lock.MaxName)), r.Uint("fence")}
	case SetZone{}.opcode():
		return SetZone{peer.Zone(r.Bytes("zone", peer.MaxZone))}
	}
	return Unknown{op, slices.Clone(r.Fixed("body", r.Rest()))}
}

// stateFormat is the first byte of an encoded state.
const stateFormat = 3

// Encode returns the state in its canonical form: equal states have equal
// bytes. Of all formats format, slot, cluster and level come first, see
// [Preamble].
func (s *State) Encode() []byte {
	b := []byte{stateFormat}
	b = codec.Uint(b, s.Slot)
	b = append(b, s.Cluster[:]...)
	b = codec.Uint(b, uint64(s.Level))
	b = s.appendPeers(b)
	authors := make([]peer.ID, 0, len(s.numbers))
	for id := range s.numbers {
		authors = append(authors, id)
	}
	slices.SortFunc(authors, peer.ID.Compare)
	b = codec.Uint(b, uint64(len(authors)))
	for _, id := range authors {
		b = codec.Uint(append(b, id[:]...), s.numbers[id])
	}
	b = codec.Uint(b, uint64(len(s.Pools)))
	for _, p := range s.Pools {
		b = p.append(b)
	}
	b = s.Identities.Append(b)
	zones := s.countZones() > 0
	if s.Identities.Last == 0 && (zones || !s.Locks.IsZero()) {
		b = codec.Uint(b, 0) // no number was ever given, and what follows is something else
	}
	if b = s.Locks.Append(b); zones && s.Locks.IsZero() {
		b = codec.Uint(codec.Uint(b, 0), 0) // likewise, no lock
	}
	return s.appendZones(b)
}

// appendPeers appends the roster, and who was evicted from it.
func (s *State) appendPeers(b []byte) []byte {
	b = codec.Uint(b, uint64(len(s.Roster)))
	for _, m := range s.Roster {
		b = append(appendFounder(b, m.Founder), byte(m.Phase))
	}
	b = codec.Uint(b, uint64(len(s.Former)))
	for _, g := range s.Former {
		b = append(appendFounder(b, g.Founder), byte(g.Phase))
		b = codec.Bool(codec.Uint(b, g.Evicted), g.Forgotten)
	}
	return b
}

// appendHead appends the pool but for its ring: key, subnet, name, origin, its
// reservations, and its users.
func (p *Pool) appendHead(b []byte) []byte {
	b = codec.Prefix(appendKey(b, p.Key), p.CIDR)
	b = append(codec.Bytes(b, p.Name), byte(p.Origin))
	b = codec.Uint(b, uint64(len(p.Reserved)))
	for _, v := range p.Reserved {
		b = appendReservation(b, v)
	}
	b = codec.Uint(b, uint64(len(p.Users)))
	for _, id := range p.Users {
		b = append(b, id[:]...)
	}
	return b
}

// append appends the pool: its head, its owners, and its tokens as distance from
// the token before, number of the owner in the list, and version.
func (p *Pool) append(b []byte) []byte {
	b = p.appendHead(b)
	owners := make([]peer.ID, 0, 8)
	index := map[peer.ID]uint64{}
	for t := range p.Ring.Tokens() {
		if _, ok := index[t.Owner]; !ok {
			index[t.Owner] = uint64(len(owners))
			owners = append(owners, t.Owner)
		}
	}
	b = codec.Uint(b, uint64(len(owners)))
	for _, id := range owners {
		b = append(b, id[:]...)
	}
	b = codec.Uint(b, uint64(p.Ring.Len()))
	var at addr.Offset
	for t := range p.Ring.Tokens() {
		b = codec.Uint(b, uint64(t.Start-at))
		b = codec.Uint(b, index[t.Owner])
		b = codec.Uint(b, uint64(t.Version))
		at = t.Start
	}
	return b
}

// Preamble reads what every encoded state begins with, whatever its format: its
// slot, its cluster, and its level, which tells whether the rest can be read.
func Preamble(b []byte) (slot uint64, cluster [16]byte, level Level, err error) {
	r := codec.NewReader(b)
	r.Byte("format")
	slot, cluster, level = r.Uint("slot"), r.ID("cluster ID"), readLevel(r)
	return slot, cluster, level, r.Err()
}

// DecodeState reads what [State.Encode] wrote, and checks it.
func DecodeState(b []byte) (*State, error) {
	r := codec.NewReader(b)
	if f := r.Byte("format"); f != stateFormat && r.Err() == nil {
		return nil, fmt.Errorf("state of format %d, this release knows %d", f, stateFormat)
	}
	s := &State{Slot: r.Uint("slot"), Cluster: r.ID("cluster ID"), Level: readLevel(r)}
	s.Roster = make([]Member, r.Count("number of peers", 20))
	for i := range s.Roster {
		s.Roster[i] = Member{Founder: readFounder(r), Phase: Phase(r.Byte("phase"))}
	}
	s.Former = make([]Gone, r.Count("number of evicted peers", 22))
	for i := range s.Former {
		m := Member{Founder: readFounder(r), Phase: Phase(r.Byte("phase"))}
		s.Former[i] = Gone{m, r.Uint("slot of an eviction"), r.Bool("forgotten")}
	}
	s.numbers = map[peer.ID]uint64{}
	var last peer.ID
	for i := range r.Count("number of authors", 17) {
		id := peer.ID(r.ID("author"))
		if i > 0 && last.Compare(id) >= 0 {
			r.Fail("authors out of order")
		}
		s.numbers[id] = r.Uint("command number")
		last = id
	}
	s.Pools = make([]*Pool, r.Count("number of pools", 10))
	divided := make([]division, len(s.Pools))
	for i := range s.Pools {
		s.Pools[i], divided[i] = readPool(r, s.Cluster)
		if r.Err() != nil {
			return nil, r.Err()
		}
	}
	s.Identities = identity.Read(r)
	s.Locks = lock.Read(r)
	s.readZones(r)
	s.byAddress = slices.SortedFunc(slices.Values(s.Pools), SortedBy)
	if err := r.Done(); err != nil {
		return nil, err
	}
	if err := s.check(divided); err != nil {
		return nil, fmt.Errorf("%w: %w", codec.ErrCorrupt, err)
	}
	return s, nil
}

// readPool reads a pool, and returns how its ring is divided, too, so that this need not be asked of each token.
func readPool(r *codec.Reader, cluster [16]byte) (*Pool, division) {
	p := &Pool{Key: readKey(r), CIDR: r.Prefix("subnet")}
	p.Name, p.Origin = string(r.Bytes("name of a pool", MaxNote)), Origin(r.Byte("origin"))
	p.Reserved = make([]Reservation, r.Count("number of reservations", 4))
	for i := range p.Reserved {
		p.Reserved[i] = readReservation(r)
	}
	if n := r.Count("number of users", 16); n > 0 {
		p.Users = make([]peer.ID, n)
	}
	for i := range p.Users {
		p.Users[i] = r.ID("user")
	}
	d := division{owners: make([]peer.ID, r.Count("number of owners", 16))}
	for i := range d.owners {
		d.owners[i] = r.ID("owner")
	}
	tokens := make([]ring.Token, r.Count("number of tokens", 3))
	reserved := slices.Index(d.owners, ring.Reserved)
	used, last := 0, -1 // owners so far, and the number of the last one
	var at uint64
	for i := range tokens {
		t := &tokens[i]
		step, n, version := r.Uints("token")
		if at+step < at || n > uint64(used) || n >= uint64(len(d.owners)) {
			r.Fail("token")
			return p, d
		}
		if i > 0 && last == reserved {
			d.reserved += addr.Count(step)
		}
		last = int(n)
		used = max(used, last+1) // owners stand in the order of their first token
		at += step
		t.Start, t.Owner, t.Version = addr.Offset(at), d.owners[n], ring.Version(version)
	}
	cidr, err := addr.Checked(p.CIDR)
	if err != nil || cidr != p.CIDR || used != len(d.owners) {
		r.Fail("pool")
		return p, d
	}
	size := addr.Size(cidr)
	if p.Ring, err = ring.FromTokens(size, tokens); err != nil {
		r.Fail(err.Error())
		return p, d
	}
	if last == reserved {
		d.reserved += size - addr.Count(at)
	}
	p.Table = table.New(cluster, p.Key.Slot, p.Key.Place, size)
	return p, d
}

// SortedBy is the order in which pools are shown to people: by address.
func SortedBy(a, b *Pool) int { return a.CIDR.Compare(b.CIDR) }
