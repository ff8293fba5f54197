package paxos

import (
	"fmt"
	"strings"
	"testing"
)

// tape is a source that reads its choices from bytes; at their end it chooses
// the first of all.
type tape []byte

func (t *tape) IntN(n int) int {
	v := 0
	for width := n - 1; width > 0 && len(*t) > 0; width >>= 8 {
		v = v<<8 | int((*t)[0])
		*t = (*t)[1:]
	}
	return v % n
}

// FuzzSchedule has the fuzzer make the choices of the schedule. Whatever it
// chooses, one value is decided.
func FuzzSchedule(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{2, 0, 1, 2, 0, 2, 1, 1, 1, 2, 0, 1, 2, 2, 2, 1, 0, 40, 1, 60, 7, 99, 3, 80, 2, 90, 5})
	for voters := range byte(MaxVoters) {
		noise := seeded(uint64(voters))
		data := []byte{voters, voters % 3}
		for range 400 {
			data = append(data, byte(noise.IntN(256)))
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		src := tape(data[:min(len(data), 2_000)])
		voters, others := 1+src.IntN(MaxVoters), src.IntN(3)
		steps := len(src) / 2
		run := func(trace func(string, ...any)) error {
			c := newCluster(voters, others, rules{})
			c.trace = trace
			again := src
			return schedule(c, &again, steps)
		}
		if err := run(nil); err != nil {
			var b strings.Builder
			_ = run(func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) })
			t.Fatalf("%v\n%s", err, b.String())
		}
	})
}
