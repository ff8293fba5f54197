package formation

import (
	"math/rand/v2"
	"time"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/cluster"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

// challengeTime is for how long an answer to a challenge counts.
const challengeTime = 5 * time.Second

// Admissions are the peers that ask to be admitted, each with the challenge that it was sent (R63). The challenge is a
// Hello with a new question, and its Welcome is the answer, as releases without the rule send it, too. A device may send
// a recorded Join again after the peer is gone, and a dead peer that has a vote can keep the others from deciding
// anything. A recorded Welcome cannot contain a question that is made now. Make one of them.
type Admissions map[peer.ID]*applicant

// applicant is a peer that asks to be admitted, and its challenge.
type applicant struct {
	join     wire.Join
	start    cluster.Start
	question uint64
	at       time.Time // the question was made
}

func (a *applicant) inTime(v cluster.View) bool { return v.Fresh(a.at, challengeTime) }

// Challenge returns the question that a peer is to be asked which asks to be admitted.
func (s Admissions) Challenge(v cluster.View, id peer.ID, q wire.Join, random *rand.Rand) (question uint64) {
	start := v.Of(id).Start
	a := s[id]
	if a == nil || a.start != start || !a.inTime(v) {
		a = &applicant{start: start, question: random.Uint64(), at: v.Now}
		s[id] = a
	}
	a.join = q
	return a.question
}

// Answer returns what a peer has asked for that has answered its challenge in time.
func (s Admissions) Answer(v cluster.View, id peer.ID, question uint64) (q wire.Join, passes bool) {
	a := s[id]
	if a == nil || a.question != question || a.start != v.Of(id).Start {
		return wire.Join{}, false
	}
	delete(s, id)
	return a.join, a.inTime(v)
}

// Admit returns the commands that admit a peer, none if it does not speak what the cluster uses. A former peer of the
// same machine is gone, and its vote with it: the two together must not cost the cluster its majority.
func Admit(v cluster.View, id peer.ID, q wire.Join) []chronicle.Action {
	c := v.Of(id)
	if c.Spoken == 0 || c.Spoken < v.State.Level {
		return nil
	}
	var actions []chronicle.Action
	for _, member := range v.State.Roster {
		if q.Machine != 0 && member.Machine == q.Machine && !v.Live(member.ID) {
			actions = append(actions, chronicle.Evict{Peer: member.ID})
		}
	}
	admit := chronicle.Admit{Founder: chronicle.Founder{ID: id, Name: q.Name, Boot: c.Start.Boot, Machine: q.Machine}, Speaks: c.Spoken}
	return append(actions, admit)
}
