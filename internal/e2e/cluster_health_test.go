package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// healthLimit is how long it may take until a health address that does not answer is a problem: a minute and a half, two rounds of
// questions, and a machine that has other things to do.
const healthLimit = 4 * time.Minute

// The network of the containers breaks on one of three hosts, while gossip works on: the others say so, and that host says that it
// reaches nobody. Addresses are handed out all the same. With the network the problems end, and so does the one of a host that
// lost its address and has it back.
func TestClusterHealth(t *testing.T) {
	t.Parallel()
	c := NewCluster(t, 3)
	at := func(i int) string { return fmt.Sprintf("10.66.0.%d", i+1) }
	for i, e := range c.Engines {
		e.Run("ip", "addr", "add", at(i)+"/24", "dev", "eth0")
		e.InstallPlugin(append(c.Settings(e), "RINGLET_HEALTH="+at(i), "RINGLET_ADVERTISE="+hostAt(i).String())...)
		e.ImportDemo()
	}
	c.AwaitReady(c.Engines...)
	c.Engines[0].lan("lan", lanSubnet, "--gateway", lanGateway)
	a, broken := c.Engines[0], c.Engines[2]
	health := func(e *Engine) (answers []string) {
		var peers []struct {
			Name   string
			Health struct{ Answers bool }
		}
		if err := e.askPlugin("/v1/peers", &peers); err != nil {
			return nil
		}
		for _, p := range peers {
			if p.Health.Answers {
				answers = append(answers, p.Name)
			}
		}
		slices.Sort(answers)
		return answers
	}
	problem := func(e *Engine, code string) (text, next string) {
		st, err := e.Status()
		if err != nil {
			return "", ""
		}
		if i := slices.IndexFunc(st.Problems, func(p Problem) bool { return p.Code == code }); i >= 0 {
			return st.Problems[i].Text, st.Problems[i].Next
		}
		return "", ""
	}
	for i, e := range c.Engines {
		var others []string
		for _, other := range c.Others(e) {
			others = append(others, other.Name)
		}
		Eventually(t, healthLimit, fmt.Sprint("host ", i, " has an answer of both others"), func() bool { return slices.Equal(health(e), others) })
	}
	table := a.Ringlet("peers")
	if !strings.Contains(table, "HEALTHY") || !strings.Contains(table, at(2)+":7952") {
		t.Errorf("ringlet peers shows\n%s", table)
	}

	undo := broken.drop("-d", at(2), "-p", "tcp")
	defer func() { undo() }()
	want := fmt.Sprintf("%s answers gossip, but its health address %s:7952 has not answered for ", broken.Name, at(2))
	Eventually(t, healthLimit, "that is a problem elsewhere", func() bool {
		text, next := problem(a, "health-silent")
		return strings.HasPrefix(text, want) && strings.HasSuffix(text, ": no answer within 3s") && strings.HasPrefix(next, "check the network of the containers")
	})
	Eventually(t, healthLimit, "and there, where nobody answers", func() bool {
		text, next := problem(broken, "health-silent")
		return strings.Count(text, "answers gossip, but") == 2 && strings.HasPrefix(next, "no other host answers, so check this host first")
	})
	for _, e := range []*Engine{a, broken} {
		begun := time.Now()
		e.Ringlet("alloc", "--pool", lanSubnet, "--for", "client-of-"+e.Name)
		if took := time.Since(begun); took > 3*time.Second {
			t.Errorf("an address of %s took %v", e.Name, took)
		}
	}
	undo()
	undo = func() {}
	for _, e := range c.Engines {
		Eventually(t, healthLimit, e.Name+" has no such problem any more", func() bool {
			text, _ := problem(e, "health-silent")
			return text == "" && len(health(e)) == 2
		})
	}

	broken.Run("ip", "addr", "del", at(2)+"/24", "dev", "eth0")
	Eventually(t, healthLimit, "a host without its address says so", func() bool {
		text, _ := problem(broken, "health-unavailable")
		return strings.HasSuffix(text, "cannot assign requested address") && len(health(broken)) == 0
	})
	broken.Run("ip", "addr", "add", at(2)+"/24", "dev", "eth0")
	Eventually(t, healthLimit, "with its address it asks again", func() bool {
		text, _ := problem(broken, "health-unavailable")
		return text == "" && len(health(broken)) == 2
	})
}
