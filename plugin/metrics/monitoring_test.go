package metrics

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const monitoring = "../../docs/monitoring"

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// names returns the names of our series in a text, without what Prometheus
// appends to those of histograms.
func names(text string) []string {
	found := map[string]bool{}
	for _, name := range regexp.MustCompile(`\bringlet_[a-z0-9_]+`).FindAllString(text, -1) {
		found[regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// What the alerts and the dashboard ask for is there; and of what there is, the
// dashboard shows nearly all.
func TestRulesAndDashboardKnowTheSeries(t *testing.T) {
	series := names(read(t, "testdata/series.txt") + " ringlet_status_age_seconds")
	asked := map[string]bool{}
	for _, file := range []string{"alerts.yml", "alerts_test.yml", "dashboard.json"} {
		for _, name := range names(read(t, filepath.Join(monitoring, file))) {
			if !slices.Contains(series, name) {
				t.Errorf("%s asks for %s, which there is not", file, name)
			}
			asked[name] = true
		}
	}
	for _, name := range series {
		// How many peers there are by state, and how frames travel in detail, is
		// for who searches.
		if !asked[name] && name != "ringlet_peers" && !strings.HasPrefix(name, "ringlet_gossip_") {
			t.Errorf("neither an alert nor the dashboard knows %s", name)
		}
	}
}

// The guide tells of each series, with its labels, and of no other.
func TestSeriesAreExplained(t *testing.T) {
	_, table, _ := strings.Cut(read(t, filepath.Join(monitoring, "README.md")), "## Metrics")
	table, _, _ = strings.Cut(table, "## Alerts")
	series := read(t, "testdata/series.txt") + "ringlet_status_age_seconds 0\n"
	told := map[string]string{} // labels by name
	for _, m := range regexp.MustCompile("`(ringlet_[a-z0-9_]+)(?:\\{([a-z,]+)\\})?`").FindAllStringSubmatch(table, -1) {
		told[m[1]] = m[2]
	}
	for _, name := range names(series) {
		labels, ok := told[name]
		if !ok {
			t.Errorf("the guide does not tell of %s", name)
		}
		delete(told, name)
		line := regexp.MustCompile(`(?m)^` + name + `(?:_count)?(?:\{([^}]*)\})? `).FindStringSubmatch(series)
		if line == nil {
			t.Fatalf("no value of %s", name)
		}
		var want []string
		for _, m := range regexp.MustCompile(`([a-z]+)="`).FindAllStringSubmatch(line[1], -1) {
			want = append(want, m[1])
		}
		got := strings.FieldsFunc(labels, func(r rune) bool { return r == ',' })
		if slices.Sort(want); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
			t.Errorf("the guide has the labels %q of %s, want %q", got, name, want)
		}
	}
	for name := range told {
		t.Errorf("the guide tells of %s, which there is not", name)
	}
}

// Each alert has what it takes, and a paragraph on what to do.
func TestAlertsAreExplained(t *testing.T) {
	rules, guide := read(t, filepath.Join(monitoring, "alerts.yml")), read(t, filepath.Join(monitoring, "README.md"))
	alerts := regexp.MustCompile(`(?m)^ +- alert: (\w+)$`).FindAllStringSubmatch(rules, -1)
	if len(alerts) == 0 {
		t.Fatal("there are no alerts")
	}
	for _, a := range alerts {
		if !regexp.MustCompile(`(?m)^### .*\b` + a[1] + `\b`).MatchString(guide) {
			t.Errorf("the guide has nothing on %s", a[1])
		}
	}
	for _, part := range []string{"summary:", "description:", "severity:"} {
		if got := strings.Count(rules, part); got != len(alerts) {
			t.Errorf("%d of %d alerts have a %s", got, len(alerts), part)
		}
	}
}

// Prometheus takes the rules, and they fire when they should.
func TestPromtool(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed: the alert rules are not tested (Debian's package is prometheus)")
	}
	for _, args := range [][]string{{"check", "rules", "alerts.yml"}, {"test", "rules", "alerts_test.yml"}} {
		cmd := exec.Command(promtool, args...)
		cmd.Dir = monitoring
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// The dashboard is one that Grafana can import: panels have an ID, a place of
// their own and a description, and each query names the data source.
func TestDashboard(t *testing.T) {
	var board struct {
		UID, Title string
		Panels     []struct {
			ID                       int
			Type, Title, Description string
			GridPos                  struct{ H, W, X, Y int }
			Datasource               struct{ Type, UID string }
			Targets                  []struct{ Expr, RefID string }
		}
		Templating struct{ List []struct{ Name string } }
	}
	if err := json.Unmarshal([]byte(read(t, filepath.Join(monitoring, "dashboard.json"))), &board); err != nil {
		t.Fatal(err)
	}
	ids, cells := map[int]bool{}, map[[2]int]string{}
	for _, p := range board.Panels {
		if ids[p.ID] || p.Title == "" || p.Description == "" || p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 {
			t.Errorf("panel %+v", p)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := cells[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%s lies on %s at %d, %d", p.Title, other, x, y)
				}
				cells[[2]int{x, y}] = p.Title
			}
		}
		for _, target := range p.Targets {
			for _, v := range regexp.MustCompile(`\$([a-z]\w*)`).FindAllStringSubmatch(target.Expr, -1) {
				if !slices.ContainsFunc(board.Templating.List, func(l struct{ Name string }) bool { return l.Name == v[1] }) {
					t.Errorf("%s asks for $%s, which is not chosen anywhere", p.Title, v[1])
				}
			}
		}
	}
	if board.UID != "ringlet" || board.Title == "" || len(board.Panels) < 10 {
		t.Errorf("dashboard %q %q with %d panels", board.UID, board.Title, len(board.Panels))
	}
}

// Prometheus can read every query of the dashboard.
func TestDashboardQueries(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed: the dashboard's queries are not tested (Debian's package is prometheus)")
	}
	var rules strings.Builder
	rules.WriteString("groups:\n  - name: dashboard\n    rules:\n")
	n := 0
	for _, m := range regexp.MustCompile(`"expr": ("(?:[^"\\]|\\.)*")`).FindAllStringSubmatch(read(t, filepath.Join(monitoring, "dashboard.json")), -1) {
		var expr string
		if err := json.Unmarshal([]byte(m[1]), &expr); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*", "$pool", ".*").Replace(expr))
		if err != nil {
			t.Fatal(err)
		}
		n++
		rules.WriteString("      - {record: q, expr: " + string(text) + ", labels: {n: \"" + strings.Repeat("x", n) + "\"}}\n")
	}
	file := filepath.Join(t.TempDir(), "queries.yml")
	if err := os.WriteFile(file, []byte(rules.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(promtool, "check", "rules", file).CombinedOutput(); err != nil || n < 15 {
		t.Errorf("%d queries: %v\n%s", n, err, out)
	}
}
