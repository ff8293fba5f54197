package paxos_test

import (
	"fmt"

	"github.com/ringlet/ringlet/ipam/paxos"
	"github.com/ringlet/ringlet/ipam/peer"
)

// A decision of three voters, of which one is cut off and another has accepted
// a value before.
func ExampleProposer() {
	a, b, c := peer.ID{0xa}, peer.ID{0xb}, peer.ID{0xc}
	electorate, err := paxos.NewElectorate([]peer.ID{a, b, c})
	if err != nil {
		fmt.Println(err)
		return
	}

	// What the voters a and b read from their disks. Somebody had b accept a
	// value and was not heard of again.
	acceptors := map[peer.ID]*paxos.Acceptor{a: {}, b: {}}
	earlier := paxos.Ballot{Round: 1, Boot: 1, Peer: c}
	acceptors[b].Accept(earlier, []byte("open 10.32.0.0/24 for c"))

	proposer, err := paxos.NewProposer(a, 1, electorate)
	if err != nil {
		fmt.Println(err)
		return
	}
	prepare, err := proposer.Start([]byte("open 10.32.0.0/24 for a"), 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	// ask is one round to the voters that can be reached. Where an answer
	// changed the acceptor, it would be written to disk before it is returned.
	ask := func(question func(*paxos.Acceptor) (paxos.Answer, bool)) {
		for _, voter := range []peer.ID{a, b} {
			answer, changed := question(acceptors[voter])
			fmt.Printf("%s: %T, write first: %t\n", voter.Short(), answer, changed)
			switch answer := answer.(type) {
			case paxos.Promise:
				proposer.OnPromise(voter, answer)
			case paxos.Accepted:
				proposer.OnAccepted(voter, answer)
			case paxos.Refusal:
				proposer.OnRefusal(voter, answer)
			}
		}
		fmt.Println(proposer.Phase(), proposer.Ballot())
	}

	// Round 1 of c is above round 1 of a, so b refuses.
	ask(func(v *paxos.Acceptor) (paxos.Answer, bool) { return v.Prepare(prepare.Ballot) })
	if prepare, err = proposer.Start([]byte("open 10.32.0.0/24 for a"), 0); err != nil {
		fmt.Println(err)
		return
	}
	ask(func(v *paxos.Acceptor) (paxos.Answer, bool) { return v.Prepare(prepare.Ballot) })
	ask(func(v *paxos.Acceptor) (paxos.Answer, bool) { return v.Accept(proposer.Ballot(), proposer.Value()) })
	fmt.Printf("%s, own: %t\n", proposer.Value(), proposer.Own())

	// Output:
	// 0a000000: paxos.Promise, write first: true
	// 0b000000: paxos.Refusal, write first: false
	// lost 1.1.0a000000
	// 0a000000: paxos.Promise, write first: true
	// 0b000000: paxos.Promise, write first: true
	// accepting 2.1.0a000000
	// 0a000000: paxos.Accepted, write first: true
	// 0b000000: paxos.Accepted, write first: true
	// decided 2.1.0a000000
	// open 10.32.0.0/24 for c, own: false
}
