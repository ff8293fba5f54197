package ipam_test

import (
	"cmp"
	"compress/gzip"
	"encoding/gob"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ringlet/ringlet/ipam/ipamtest"
)

var answersFlag = flag.String("answers", "", "file into which TestSimAnswers writes what was answered, or, where it exists, compares with")

// explained are the answers that turn from granted to refused and are meant to: "REQUEST: granted -> CLASS", as the test prints
// it, and why, for whom.
var explained = map[string]string{}

// recording is what was answered in many schedules, by the schedule's kind and seed.
type recording struct {
	Texts []string // of requests and classes
	Runs  map[string][]recorded
}

// recorded is an [ipamtest.Response] whose texts are in the table.
type recorded struct {
	Step, Host     int
	Call           uint64
	Asked, Value   uint32
	Request, Class int
}

// TestSimAnswers is the refusal oracle: it compares what two releases of the core answer on the same schedules.
//
//	go test ./ipam -run 'TestSimAnswers$' -answers FILE -seeds 1000 -timeout 1h -v    # with the one release, then with the other
//
// It compares each schedule up to the first answer that differs. Behind that chance deals other cards, so there only totals say
// anything. An answer that turned from granted to refused fails the test: mend it, or list it under explained, with the reason.
func TestSimAnswers(t *testing.T) {
	if *answersFlag == "" {
		t.Skip("runs with -answers alone, a file")
	}
	is := recording{Runs: map[string][]recorded{}}
	texts := map[string]int{}
	text := func(s string) int {
		if _, ok := texts[s]; !ok {
			texts[s] = len(is.Texts)
			is.Texts = append(is.Texts, s)
		}
		return texts[s]
	}
	each(t, true, func(r *ran) {
		if r.err != nil {
			t.Errorf("%s, seed %d: %v", r.kind, r.Seed, r.err)
		}
		run := make([]recorded, len(r.answers))
		for i, a := range r.answers {
			run[i] = recorded{a.Step, a.Host, a.Call, uint32(a.Asked), uint32(a.Value), text(a.Request), text(a.Class)} // Half of a hash does.
		}
		is.Runs[fmt.Sprintf("%s %d", r.kind, r.Seed)] = run
	})
	file, err := os.Open(*answersFlag)
	if errors.Is(err, fs.ErrNotExist) {
		is.write(t)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var was recording
	unzip, err := gzip.NewReader(file)
	if err == nil {
		err = gob.NewDecoder(unzip).Decode(&was)
	}
	if err != nil {
		t.Fatal(err)
	}
	compareAnswers(t, &was, &is)
}

func (c *recording) write(t *testing.T) {
	t.Helper()
	file, err := os.Create(*answersFlag)
	if err != nil {
		t.Fatal(err)
	}
	zip := gzip.NewWriter(file)
	if err := errors.Join(gob.NewEncoder(zip).Encode(c), zip.Close(), file.Close()); err != nil {
		t.Fatal(err)
	}
	t.Logf("wrote %s", *answersFlag)
}

// run returns the answers of one schedule.
func (c *recording) run(name string) []ipamtest.Response {
	out := make([]ipamtest.Response, len(c.Runs[name]))
	for i, a := range c.Runs[name] {
		out[i] = ipamtest.Response{
			Step: a.Step, Host: a.Host, Call: a.Call, Asked: uint64(a.Asked), Value: uint64(a.Value),
			Request: c.Texts[a.Request], Class: c.Texts[a.Class],
		}
	}
	return out
}

// difference is how the first answer of a schedule that is another one differs.
type difference struct{ request, was, is string }

func (d difference) String() string { return fmt.Sprintf("%s: %s -> %s", d.request, d.was, d.is) }

// What a difference may be beside that of two classes.
const (
	otherwise = "granted otherwise"
	otherTime = "the same at another time"
	parted    = "another schedule" // in which the next answer is to something that the other never asked, or was never told
)

// firstDifference compares two schedules up to the first answer that differs, and returns the step of it in the second. What is
// behind it cannot be compared: from there on chance deals other cards.
func firstDifference(was, is []ipamtest.Response) (d difference, step int, differs bool) {
	for i := range max(len(was), len(is)) {
		switch {
		case i >= len(was):
			return difference{is[i].Request, "", parted}, is[i].Step, true
		case i >= len(is):
			return difference{was[i].Request, was[i].Class, parted}, was[i].Step, true
		}
		a, b := was[i], is[i]
		moved := !sameCall(a, b)
		if moved {
			if k := slices.IndexFunc(is[i:], func(r ipamtest.Response) bool { return sameCall(a, r) }); k >= 0 {
				b = is[i+k]
			} else if k := slices.IndexFunc(was[i:], func(r ipamtest.Response) bool { return sameCall(b, r) }); k >= 0 {
				a = was[i+k]
			} else {
				return difference{a.Request, a.Class, parted}, b.Step, true
			}
		}
		switch {
		case a.Class != b.Class:
			return difference{a.Request, a.Class, b.Class}, b.Step, true
		case moved:
			return difference{a.Request, a.Class, otherTime}, b.Step, true
		case a.Value != b.Value:
			return difference{a.Request, a.Class, otherwise}, b.Step, true
		}
	}
	return difference{}, 0, false
}

func sameCall(a, b ipamtest.Response) bool {
	return a.Host == b.Host && a.Call == b.Call && a.Request == b.Request && a.Asked == b.Asked
}

// compareAnswers prints how schedules differ, and fails the test where what was granted is refused.
func compareAnswers(t *testing.T, was, is *recording) {
	t.Helper()
	type seen struct {
		times   int
		example string
	}
	first := map[difference]seen{}
	totals := map[difference][2]int{} // by request and class
	compared, equal := 0, 0
	for _, name := range slices.Sorted(maps.Keys(is.Runs)) {
		if _, ok := was.Runs[name]; !ok {
			continue
		}
		compared++
		a, b := was.run(name), is.run(name)
		for side, run := range [][]ipamtest.Response{a, b} {
			for _, r := range run {
				n := totals[difference{request: r.Request, was: r.Class}]
				n[side]++
				totals[difference{request: r.Request, was: r.Class}] = n
			}
		}
		d, step, differs := firstDifference(a, b)
		if !differs {
			equal++
			continue
		}
		s := first[d]
		if s.times++; s.times == 1 {
			s.example = fmt.Sprintf("%s, step %d", name, step)
		}
		first[d] = s
	}
	if compared == 0 {
		t.Fatal("the file has none of these schedules")
	}
	t.Logf("%d schedules compared: %d answer the same", compared, equal)
	for _, d := range slices.SortedFunc(maps.Keys(first), func(a, b difference) int {
		return cmp.Or(cmp.Compare(first[b].times, first[a].times), strings.Compare(a.String(), b.String()))
	}) {
		line := fmt.Sprintf("%6d %v (%s)", first[d].times, d, first[d].example)
		switch why, known := explained[d.String()]; {
		case d.was != ipamtest.Granted || d.is == otherwise || d.is == otherTime || d.is == parted:
			t.Log(line)
		case known:
			t.Logf("%s: %s", line, why)
		default:
			t.Errorf("%s: refused, and was granted", line)
		}
	}
	// Behind the first difference only how often something happens says anything.
	for _, k := range slices.SortedFunc(maps.Keys(totals), func(a, b difference) int { return strings.Compare(a.String(), b.String()) }) {
		if n := totals[k]; math.Abs(float64(n[0]-n[1])) > 4*math.Sqrt(float64(n[0]+n[1])) {
			t.Logf("in all %d, and were %d: %s: %s", n[1], n[0], k.request, k.was)
		}
	}
}

// What was granted and is refused is found: at once, later, and where another call is answered in between.
func TestAnswersThatDiffer(t *testing.T) {
	answer := func(call uint64, class string, value uint64) ipamtest.Response {
		return ipamtest.Response{Step: int(call), Call: call, Asked: call, Request: "PoolRequest", Class: class, Value: value} // It is small.
	}
	a, b := answer(1, ipamtest.Granted, 7), answer(2, ipamtest.Granted, 8)
	refused := answer(1, "not-ready", 0)
	for _, tc := range []struct {
		was, is []ipamtest.Response
		want    string
	}{
		{[]ipamtest.Response{a, b}, []ipamtest.Response{a, b}, ""},
		{[]ipamtest.Response{a, b}, []ipamtest.Response{refused, b}, "PoolRequest: granted -> not-ready"},
		{[]ipamtest.Response{a, b}, []ipamtest.Response{b, refused}, "PoolRequest: granted -> not-ready"},
		{[]ipamtest.Response{refused, b}, []ipamtest.Response{b, a}, "PoolRequest: not-ready -> granted"},
		{[]ipamtest.Response{a, b}, []ipamtest.Response{b, a}, "PoolRequest: granted -> " + otherTime},
		{[]ipamtest.Response{a}, []ipamtest.Response{answer(1, ipamtest.Granted, 8)}, "PoolRequest: granted -> " + otherwise},
		{[]ipamtest.Response{a}, []ipamtest.Response{a, b}, "PoolRequest:  -> " + parted},
		{[]ipamtest.Response{a}, []ipamtest.Response{b}, "PoolRequest: granted -> " + parted},
	} {
		d, _, differs := firstDifference(tc.was, tc.is)
		if differs != (tc.want != "") || differs && d.String() != tc.want {
			t.Errorf("%v and %v: %v, want %q", tc.was, tc.is, d, tc.want)
		}
	}
}
