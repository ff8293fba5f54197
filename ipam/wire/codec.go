package wire

import (
	"net/netip"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/codec"
	"github.com/ringlet/ringlet/ipam/paxos"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/ring"
)

// The types. Their numbers are never reused.
const (
	typeHello    Type = 1
	typeWelcome  Type = 2
	typeCopied   Type = 3
	typePrepare  Type = 4
	typePromise  Type = 5
	typeAccept   Type = 6
	typeAccepted Type = 7
	typeRefusal  Type = 8
	typePull     Type = 9
	typeDecided  Type = 10
	typeSnapshot Type = 11
	typeSubmit   Type = 12
	typeJoin     Type = 13
	typeBeat     Type = 14
	typeAsk      Type = 15
	typeAnswer   Type = 16
	typeAnnounce Type = 17
	typeInquire  Type = 18
	typeReport   Type = 19
	typeTwin     Type = 20
	// TypeDirectory is that of a [Directory]: who takes frames apart from those
	// of the allocator goes by it.
	TypeDirectory Type = 21
	typeInUse     Type = 22
	typeUsedUp    Type = 23
)

// MaxValue is the longest value of a slot, in bytes.
const MaxValue = 1 << 20

// MaxSlots is how many slots one [Decided] tells of.
const MaxSlots = 1024

// MaxDirectory is the longest message of a [Directory], in bytes.
const MaxDirectory = 256 << 10

const (
	small = 4096          // limit of a body without a value
	large = MaxValue + 64 // of one with a value
)

// kinds says of each type how long its body may be and how it is read.
var kinds = map[Type]struct {
	limit int
	read  func(*codec.Reader) Body
}{
	typeHello:    {small, readHello},
	typeWelcome:  {small, readWelcome},
	typeCopied:   {small, readCopied},
	typePrepare:  {small, readPrepare},
	typePromise:  {large, readPromise},
	typeAccept:   {large, readAccept},
	typeAccepted: {small, readAccepted},
	typeRefusal:  {small, readRefusal},
	typePull:     {small, readPull},
	typeDecided:  {4 * large, readDecided},
	typeSnapshot: {MaxFrame - maxHeader, readSnapshot},
	typeSubmit:   {large, readSubmit},
	typeJoin:     {small, readJoin},
	typeBeat:     {small, readBeat},
	typeAsk:      {small, readAsk},
	typeAnswer:   {small, readAnswer},
	typeAnnounce: {64 << 10, readAnnounce},
	typeInquire:  {small, readInquire},
	typeReport:   {small, readReport},
	typeTwin:     {small, readTwin},
	typeInUse:    {8192, readInUse},
	typeUsedUp:   {small, readUsedUp},

	TypeDirectory: {MaxDirectory, readDirectory},
}

func isPeer(id peer.ID) bool { return id != ring.Free && id != ring.Reserved }

func appendFormation(b []byte, f Formation) []byte {
	return codec.Uint(codec.Uint(b, uint64(f.Size)), f.List)
}

func readFormation(r *codec.Reader) Formation {
	return Formation{Size: r.Uint32("size of a formation"), List: r.Uint("list of a formation")}
}

func readLevel(r *codec.Reader) chronicle.Level {
	level := chronicle.Level(r.Uint32("level"))
	if level == 0 {
		r.Fail("level")
	}
	return level
}

func readName(r *codec.Reader) peer.Name { return peer.Name(r.Bytes("name", peer.MaxName)) }

func appendBallot(b []byte, v paxos.Ballot) []byte {
	b = codec.Uint(codec.Uint(b, v.Round), uint64(v.Boot))
	return append(b, v.Peer[:]...)
}

func readBallot(r *codec.Reader) paxos.Ballot {
	return paxos.Ballot{Round: r.Uint("round"), Boot: peer.Boot(r.Uint("boot of a ballot")), Peer: r.ID("peer of a ballot")}
}

func readValue(r *codec.Reader) []byte { return r.Bytes("value", MaxValue) }

// Type implements [Body].
func (Hello) Type() Type { return typeHello }

func (v Hello) append(b []byte) []byte { return appendHello(b, v, false) }

func readHello(r *codec.Reader) Body {
	v, undecided := parseHello(r)
	if undecided {
		r.Fail("standing")
	}
	return v
}

// Type implements [Body].
func (Welcome) Type() Type { return typeWelcome }

func (v Welcome) append(b []byte) []byte {
	b = appendHello(b, v.Hello, v.Undecided)
	return codec.Uint(codec.Uint(b, uint64(v.Boot)), v.Nonce)
}

func readWelcome(r *codec.Reader) Body {
	var v Welcome
	v.Hello, v.Undecided = parseHello(r)
	v.Boot, v.Nonce = peer.Boot(r.Uint("known boot")), r.Uint("known nonce")
	return v
}

// A byte of a Hello and a Welcome has how the sender stands: its listing times 2, and these.
const (
	isObserver  = 1 << 0
	isUndecided = 1 << 3 // see Welcome.Undecided
)

func appendHello(b []byte, v Hello, undecided bool) []byte {
	b = appendFormation(codec.Uint(codec.Bytes(b, v.Name), v.Machine), v.Formation)
	standing := byte(v.Listing) << 1
	if v.Observer {
		standing |= isObserver
	}
	if undecided {
		standing |= isUndecided
	}
	return codec.Uint(codec.Uint(append(b, standing), uint64(v.Spoken)), v.Question)
}

func parseHello(r *codec.Reader) (v Hello, undecided bool) {
	v = Hello{Name: readName(r), Machine: r.Uint("machine"), Formation: readFormation(r)}
	standing := r.Byte("standing")
	v.Observer, undecided = standing&isObserver != 0, standing&isUndecided != 0
	if v.Listing = Listing(standing &^ (isObserver | isUndecided) >> 1); v.Listing > Untaken {
		r.Fail("standing")
	}
	v.Spoken, v.Question = readLevel(r), r.Uint("question")
	return v, undecided
}

// Type implements [Body].
func (Copied) Type() Type { return typeCopied }

func (v Copied) append(b []byte) []byte {
	b = codec.Uint(codec.Uint(b, uint64(v.Boot)), v.Nonce)
	return codec.Uint(codec.Uint(b, uint64(v.KnownBoot)), v.KnownNonce)
}

func readCopied(r *codec.Reader) Body {
	return Copied{
		Boot: peer.Boot(r.Uint("refused boot")), Nonce: r.Uint("refused nonce"),
		KnownBoot: peer.Boot(r.Uint("known boot")), KnownNonce: r.Uint("known nonce"),
	}
}

// Type implements [Body].
func (Twin) Type() Type { return typeTwin }

func (v Twin) append(b []byte) []byte {
	b = codec.Uint(codec.Uint(b, uint64(v.Boot)), v.Nonce)
	return codec.Uint(codec.Uint(b, uint64(v.OtherBoot)), v.OtherNonce)
}

func readTwin(r *codec.Reader) Body {
	return Twin{
		Boot: peer.Boot(r.Uint("refused boot")), Nonce: r.Uint("refused nonce"),
		OtherBoot: peer.Boot(r.Uint("other boot")), OtherNonce: r.Uint("other nonce"),
	}
}

// Type implements [Body].
func (Prepare) Type() Type { return typePrepare }

func (v Prepare) append(b []byte) []byte {
	return appendBallot(appendFormation(codec.Uint(b, v.Slot), v.Formation), v.Ballot)
}

func readPrepare(r *codec.Reader) Body {
	return Prepare{Slot: r.Uint("slot"), Formation: readFormation(r), Ballot: readBallot(r)}
}

// Type implements [Body].
func (Promise) Type() Type { return typePromise }

func (v Promise) append(b []byte) []byte {
	b = appendBallot(appendBallot(codec.Uint(b, v.Slot), v.Promise.Ballot), v.Promise.Accepted)
	return codec.Bytes(b, v.Promise.Value)
}

func readPromise(r *codec.Reader) Body {
	return Promise{Slot: r.Uint("slot"), Promise: paxos.Promise{Ballot: readBallot(r), Accepted: readBallot(r), Value: readValue(r)}}
}

// Type implements [Body].
func (Accept) Type() Type { return typeAccept }

func (v Accept) append(b []byte) []byte {
	b = appendBallot(appendFormation(codec.Uint(b, v.Slot), v.Formation), v.Accept.Ballot)
	return codec.Bytes(b, v.Accept.Value)
}

func readAccept(r *codec.Reader) Body {
	return Accept{
		Slot: r.Uint("slot"), Formation: readFormation(r),
		Accept: paxos.Accept{Ballot: readBallot(r), Value: readValue(r)},
	}
}

// Type implements [Body].
func (Accepted) Type() Type { return typeAccepted }

func (v Accepted) append(b []byte) []byte {
	return appendBallot(codec.Uint(b, v.Slot), v.Accepted.Ballot)
}

func readAccepted(r *codec.Reader) Body {
	return Accepted{Slot: r.Uint("slot"), Accepted: paxos.Accepted{Ballot: readBallot(r)}}
}

// Type implements [Body].
func (Refusal) Type() Type { return typeRefusal }

func (v Refusal) append(b []byte) []byte {
	return appendBallot(appendBallot(codec.Uint(b, v.Slot), v.Refusal.Ballot), v.Refusal.Promised)
}

func readRefusal(r *codec.Reader) Body {
	return Refusal{Slot: r.Uint("slot"), Refusal: paxos.Refusal{Ballot: readBallot(r), Promised: readBallot(r)}}
}

// Type implements [Body].
func (Pull) Type() Type { return typePull }

func (v Pull) append(b []byte) []byte { return codec.Uint(b, v.After) }

func readPull(r *codec.Reader) Body { return Pull{r.Uint("last slot")} }

// Type implements [Body].
func (Decided) Type() Type { return typeDecided }

func (v Decided) append(b []byte) []byte {
	b = codec.Uint(codec.Uint(b, v.First), uint64(len(v.Values)))
	for _, value := range v.Values {
		b = codec.Bytes(b, value)
	}
	return b
}

func readDecided(r *codec.Reader) Body {
	v := Decided{First: r.Uint("first slot")}
	n := r.Count("number of slots", 1)
	if n > MaxSlots {
		r.Fail("number of slots")
		return v
	}
	v.Values = make([][]byte, n)
	for i := range v.Values {
		v.Values[i] = readValue(r)
	}
	return v
}

// Type implements [Body].
func (Snapshot) Type() Type { return typeSnapshot }

func (v Snapshot) append(b []byte) []byte { return codec.Bytes(b, v.State) }

func readSnapshot(r *codec.Reader) Body { return Snapshot{r.Bytes("state", MaxFrame)} }

// Type implements [Body].
func (Submit) Type() Type { return typeSubmit }

func (v Submit) append(b []byte) []byte { return codec.Bytes(b, v.Batch) }

func readSubmit(r *codec.Reader) Body { return Submit{readValue(r)} }

// Type implements [Body].
func (Join) Type() Type { return typeJoin }

func (v Join) append(b []byte) []byte { return codec.Uint(codec.Bytes(b, v.Name), v.Machine) }

func readJoin(r *codec.Reader) Body { return Join{Name: readName(r), Machine: r.Uint("machine")} }

// Type implements [Body].
func (Beat) Type() Type { return typeBeat }

func (Beat) append(b []byte) []byte { return b }

func readBeat(*codec.Reader) Body { return Beat{} }

func appendPool(b []byte, k chronicle.PoolKey) []byte {
	return codec.Uint(codec.Uint(b, k.Slot), uint64(k.Place))
}

func readPool(r *codec.Reader) chronicle.PoolKey {
	return chronicle.PoolKey{Slot: r.Uint("pool's slot"), Place: r.Uint32("pool's place")}
}

func appendRange(b []byte, v addr.Range) []byte {
	return codec.Uint(codec.Uint(b, uint64(v.Start)), uint64(v.Size()))
}

func readRange(r *codec.Reader) addr.Range {
	start, size := r.Uint("start of a range"), r.Uint("size of a range")
	if start+size < start {
		r.Fail("size of a range")
		return addr.Range{}
	}
	return addr.Range{Start: addr.Offset(start), End: addr.Offset(start + size)}
}

// Type implements [Body].
func (Ask) Type() Type { return typeAsk }

func (v Ask) append(b []byte) []byte {
	b = append(codec.Uint(b, v.ID), byte(v.Want), byte(v.Kind))
	return appendRange(appendPool(b, v.Pool), v.Range)
}

func readAsk(r *codec.Reader) Body {
	return Ask{
		ID: r.Uint("ID of a question"), Want: Want(r.Byte("want")), Kind: chronicle.Kind(r.Byte("kind of a reservation")),
		Pool: readPool(r), Range: readRange(r),
	}
}

// Type implements [Body].
func (Answer) Type() Type { return typeAnswer }

func (v Answer) append(b []byte) []byte {
	b = append(codec.Uint(b, v.ID), byte(v.Verdict))
	return codec.Bytes(codec.Uint(appendRange(b, v.Range), uint64(v.Free)), v.Text)
}

func readAnswer(r *codec.Reader) Body {
	return Answer{
		ID: r.Uint("ID of a question"), Verdict: Verdict(r.Byte("verdict")), Range: readRange(r),
		Free: addr.Count(r.Uint("free addresses")), Text: string(r.Bytes("text", MaxText)),
	}
}

// Type implements [Body].
func (Announce) Type() Type { return typeAnnounce }

func (v Announce) append(b []byte) []byte {
	b = codec.Uint(b, uint64(len(v.Pools)))
	for _, s := range v.Pools {
		b = codec.Uint(codec.Uint(appendPool(b, s.Pool), uint64(s.Free)), uint64(s.Resting))
	}
	return b
}

func readAnnounce(r *codec.Reader) Body {
	v := Announce{Pools: make([]Spare, r.Count("number of pools", 4))}
	if len(v.Pools) > MaxSpare {
		r.Fail("number of pools")
	}
	for i := range v.Pools {
		v.Pools[i] = Spare{Pool: readPool(r), Free: addr.Count(r.Uint("free addresses")), Resting: addr.Count(r.Uint("resting addresses"))}
	}
	return v
}

// Type implements [Body].
func (Inquire) Type() Type { return typeInquire }

func (v Inquire) append(b []byte) []byte { return append(codec.Uint(b, v.ID), v.Peer[:]...) }

func readInquire(r *codec.Reader) Body {
	return Inquire{ID: r.Uint("ID of a question"), Peer: r.ID("peer")}
}

// Type implements [Body].
func (Report) Type() Type { return typeReport }

func (v Report) append(b []byte) []byte {
	return codec.Bool(append(codec.Uint(b, v.ID), v.Peer[:]...), v.Heard)
}

func readReport(r *codec.Reader) Body {
	return Report{ID: r.Uint("ID of a question"), Peer: r.ID("peer"), Heard: r.Bool("heard")}
}

// Type implements [Body].
func (UsedUp) Type() Type { return typeUsedUp }

func (UsedUp) append(b []byte) []byte { return b }

func readUsedUp(*codec.Reader) Body { return UsedUp{} }

// Type implements [Body].
func (InUse) Type() Type { return typeInUse }

func (v InUse) append(b []byte) []byte {
	b = codec.Uint(b, uint64(len(v.Addresses)))
	for _, a := range v.Addresses {
		b = codec.Bytes(b, a.AsSlice())
	}
	return codec.Bool(b, v.All)
}

func readInUse(r *codec.Reader) Body {
	n := r.Count("number of addresses", 5)
	if n > MaxInUse {
		r.Fail("number of addresses")
	}
	v := InUse{Addresses: make([]netip.Addr, 0, min(n, MaxInUse))}
	for range cap(v.Addresses) {
		a, ok := netip.AddrFromSlice(r.Bytes("address", 16))
		if !ok {
			r.Fail("address")
		}
		v.Addresses = append(v.Addresses, a)
	}
	v.All = r.Bool("whether these are all")
	return v
}

// Type implements [Body].
func (Directory) Type() Type { return TypeDirectory }

func (v Directory) append(b []byte) []byte { return append(b, v.Message...) }

func readDirectory(r *codec.Reader) Body { return Directory{Message: r.Fixed("message", r.Rest())} }
