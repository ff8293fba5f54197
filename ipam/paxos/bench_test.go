package paxos

import "testing"

// BenchmarkDecide asks what a slot costs its proposer and voters apart from
// disk and network. A decision waits for two or three writes of some
// milliseconds; less than a hundredth of one, 20 µs, is nothing.
func BenchmarkDecide(b *testing.B) {
	voters := ids(MaxVoters)
	electorate := electorateOf(b, MaxVoters)
	value := []byte("value")
	b.ReportAllocs()
	for b.Loop() {
		var acceptors [MaxVoters]Acceptor
		p, err := NewProposer(voters[0], 1, electorate)
		if err != nil {
			b.Fatal(err)
		}
		prepare, err := p.Start(value, 0)
		if err != nil {
			b.Fatal(err)
		}
		var accept Accept
		for i, v := range voters {
			answer, _ := acceptors[i].Prepare(prepare.Ballot)
			if m, ok := p.OnPromise(v, answer.(Promise)); ok {
				accept = m
			}
		}
		for i, v := range voters {
			answer, _ := acceptors[i].Accept(accept.Ballot, accept.Value)
			p.OnAccepted(v, answer.(Accepted))
		}
		if p.Phase() != Decided {
			b.Fatalf("phase %v, want decided", p.Phase())
		}
	}
}
