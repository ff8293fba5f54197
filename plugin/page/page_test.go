package page_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/page"
)

// Every file is there with its type and the policy, and none below or beside.
func TestFiles(t *testing.T) {
	address := serve(t, sceneOf(1))
	inline := regexp.MustCompile(`(?i)<style|style=|<script[^>]*>[^<]|\son[a-z]+=|javascript:|https?://`)
	for _, path := range page.Paths() {
		code, header, text := get(t, address+path)
		if code != http.StatusOK || len(text) == 0 {
			t.Fatalf("%s: %d, %d bytes", path, code, len(text))
		}
		if header.Get("Content-Security-Policy") != page.Policy || header.Get("Content-Type") == "" || header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: header %v", path, header)
		}
		if path == "/" {
			if found := inline.FindString(text); found != "" {
				t.Errorf("%s has %q, which the policy refuses", path, found)
			}
		}
	}
	for _, path := range []string{"/page", "/page/", "/page/index.html", "/page/../page.go", "/page/none.js", "/index.html", "/files/main.js"} {
		if code, _, _ := get(t, address+path); code != http.StatusNotFound {
			t.Errorf("%s: %d", path, code)
		}
	}
	for _, must := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"} {
		if !strings.Contains(page.Policy, must) {
			t.Errorf("the policy lacks %s", must)
		}
	}
	if strings.Contains(page.Policy, "unsafe") {
		t.Errorf("the policy is %s", page.Policy)
	}
}

// shown is one range as the page draws it.
type shown struct{ Start, Label, Class string }

func ringOf(b *browser) []shown {
	return value[[]shown](b, `[...document.querySelectorAll("#ring .arc")].map(g => ({Start: g.dataset.start, Label: g.getAttribute("aria-label"), Class: g.getAttribute("class")}))`)
}

// What the status says is what the page shows: verdict, problems with what to
// do, each range with its owner, each peer and pool.
func TestEverythingIsShown(t *testing.T) {
	b := open(t)
	s := sceneOf(20)
	b.visit(b.serve(s), 1280, "light")
	if got := b.text("#verdict"); !strings.Contains(got, "degraded: 2 problems, ready") {
		t.Errorf("verdict: %q", got)
	}
	for _, p := range s.status.Problems {
		if got := b.text("#problems"); !strings.Contains(got, p.Text) || !strings.Contains(got, p.Next) {
			t.Errorf("problems: %q lacks %q", got, p.Text)
		}
	}
	lab := s.status.Pools[0]
	arcs := ringOf(b)
	if len(arcs) != len(lab.Holders) {
		t.Fatalf("%d ranges are drawn, there are %d", len(arcs), len(lab.Holders))
	}
	for _, r := range lab.Holders {
		i := slices.IndexFunc(arcs, func(a shown) bool { return a.Start == r.Start.String() })
		if i < 0 {
			t.Errorf("%v is not drawn", r.Start)
			continue
		}
		name := r.Owner
		if j := slices.IndexFunc(s.status.Peers, func(p ipam.PeerStatus) bool { return p.ID == r.Owner }); j >= 0 {
			name = s.status.Peers[j].Name
			if evicted := s.status.Peers[j].State == "evicted"; evicted != strings.Contains(arcs[i].Class, "quarantined") || evicted != strings.Contains(arcs[i].Label, "evicted: quarantined") {
				t.Errorf("%v of %s is drawn as %+v", r.Start, name, arcs[i])
			}
		}
		if !strings.Contains(arcs[i].Label, ", "+name) || !strings.Contains(arcs[i].Label, r.End.String()) {
			t.Errorf("%v-%v of %s reads %q", r.Start, r.End, name, arcs[i].Label)
		}
	}
	peers := b.text("#peers")
	for _, p := range s.status.Peers {
		if !strings.Contains(peers, p.Name) {
			t.Errorf("peers lack %s", p.Name)
		}
	}
	if strings.Count(peers, "✕ unreachable") != 2 {
		t.Errorf("peers: %s", peers)
	}
	pools := b.text("#pools")
	for _, p := range s.status.Pools {
		if !strings.Contains(pools, p.Pool.String()) {
			t.Errorf("pools lack %v", p.Pool)
		}
		for _, network := range p.NetworkNames {
			if !strings.Contains(pools, network) {
				t.Errorf("pools lack the network %s of %v", network, p.Pool)
			}
		}
	}
	if got := value[[]string](b, `[...document.querySelectorAll("#ring .conflict")].map(g => g.getAttribute("aria-label"))`); len(got) != 1 || got[0] != "conflict at 10.50.0.7" {
		t.Errorf("conflicts: %q", got)
	}
}

// What happens shows without a click: a peer joins, a range changes hands, a
// problem ends.
func TestLive(t *testing.T) {
	b := open(t)
	s := sceneOf(3)
	b.visit(b.serve(s), 1280, "light")
	b.until(`document.getElementById("live").innerText === "live"`)
	before := ringOf(b)
	last := before[len(before)-1].Start
	s.change(func(st *ipam.Status) {
		p := &st.Pools[0]
		p.Holders = slices.Clone(p.Holders)
		i := slices.IndexFunc(p.Holders, func(r ipam.RangeStatus) bool { return r.Owner == "free" })
		p.Holders[i].Owner = st.Peers[1].ID
		last = p.Holders[i].Start.String()
		st.Problems, st.Verdict = nil, ipam.Fine
	}, ipam.Note{Kind: ipam.NoteMoved, Pool: s.status.Pools[0].Pool, Address: netip.MustParseAddr("10.50.0.23"), Last: netip.MustParseAddr("10.50.0.27"), From: "free", To: "host-b"})
	b.until(fmt.Sprintf(`document.querySelector('[data-start="%s"]').getAttribute("aria-label").includes("host-b")`, last))
	b.until(`document.getElementById("events").innerText.includes("10.50.0.23-10.50.0.27: free -> host-b")`)
	b.until(`document.getElementById("problems").hidden && document.getElementById("verdict").innerText.includes("fine")`)
}

// A peer that does not answer is said not to, with what was known, and is shown
// again when it does.
func TestOutage(t *testing.T) {
	b := open(t)
	s := sceneOf(1)
	b.visit(b.serve(s), 1280, "dark")
	s.breakDown(&ipam.Error{Kind: ipam.ErrStopped, Text: "ringlet on host-a cannot write its database (no space left on device): see to the disk, it starts again by itself"})
	b.until(`!document.getElementById("banner").hidden`)
	if got := b.text("#banner"); !strings.Contains(got, "no space left on device") {
		t.Errorf("the banner says %q", got)
	}
	if n := len(ringOf(b)); n == 0 {
		t.Error("what was known is not shown any more")
	}
	s.breakDown(nil)
	b.until(`document.getElementById("banner").hidden && !document.body.classList.contains("old")`)
	b.excuse() // it has complained about the refusals
}

// An address typed in is looked up, in whatever pool it lies; what is none, or
// in no pool, is said to be so.
func TestLookUp(t *testing.T) {
	b := open(t)
	s := sceneOf(3)
	b.visit(b.serve(s), 1280, "light")
	ask := func(address, want string) {
		t.Helper()
		b.do("asking for "+address, run(`document.getElementById("address").value = ""`), chromedp.Focus("#address"), chromedp.KeyEvent(address+kb.Enter))
		b.until(fmt.Sprintf(`document.getElementById("detail").innerText.includes(%q)`, want))
	}
	held := s.held[0]
	ask(held.Address.String(), "web-1")
	for _, want := range []string{held.Address.String(), "is held by container web-1 on host-a", "02:42:0a:32:00:07", "stop that container", "container other: it is held (3 times)", "256: com.docker.compose.project=<b>shop</b>, com.docker.compose.service=web", "4f3a2b1c0d9e"} {
		if got := b.text("#detail"); !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
	if n := value[int](b, `document.querySelectorAll("#ring .pin").length`); n != 1 {
		t.Errorf("%d pins", n)
	}
	ask("fd5c:77a1:9e0b:4:ffff::1", "owned by no host")
	if got := value[string](b, `document.getElementById("pool").value`); got != s.status.Pools[2].Pool.String() {
		t.Errorf("the ring shown is that of %s", got)
	}
	ask("10.99.0.1", "is in no pool")
	ask("nonsense", "it is not an address either")
	b.excuse() // it has complained about the two refusals
}

// The addresses of the pool are a table, which a filter narrows. A name in the box leads to its address. The commands of a next
// step can be copied, and a problem leads to its peer.
func TestAddresses(t *testing.T) {
	b := open(t)
	s := sceneOf(3)
	b.visit(b.serve(s), 1280, "light")
	rows := func() int { return value[int](b, `document.querySelectorAll("#addresses tbody tr").length`) }
	inPool := 0
	for _, a := range s.held {
		if a.Pool == s.status.Pools[0].Pool {
			inPool++
		}
	}
	b.until(fmt.Sprintf(`document.querySelectorAll("#addresses tbody tr").length === %d`, min(inPool, 200)))
	for _, want := range []string{s.held[0].Address.String(), "web-1", "held", "lab, front", "host-a"} {
		if got := b.text("#addresses"); !strings.Contains(got, want) {
			t.Errorf("the table lacks %q", want)
		}
	}
	filter := func(text string) {
		t.Helper()
		b.do("filtering", run(fmt.Sprintf(`const f = document.getElementById("filter"); f.value = %q; f.dispatchEvent(new Event("input"))`, text)))
	}
	filter("web-1 held")
	if n, got := rows(), b.text("#addresses"); n == 0 || n >= inPool || !strings.Contains(got, "web-1") {
		t.Errorf("%d rows with a filter: %s", n, got)
	}
	filter("nobody")
	if n, hint := rows(), b.text("#addresses-hint"); n != 0 || !strings.Contains(hint, "0 addresses of") {
		t.Errorf("%d rows, and %q", n, hint)
	}
	filter("")

	b.do("asking for a name", run(`document.getElementById("address").value = ""`), chromedp.Focus("#address"), chromedp.KeyEvent("web-2"+kb.Enter))
	b.until(`document.getElementById("detail").innerText.includes("is held by container web-2")`)
	b.do("asking for another name", run(`document.getElementById("address").value = ""`), chromedp.Focus("#address"), chromedp.KeyEvent("none"+kb.Enter))
	b.until(`document.getElementById("detail").innerText.includes("Nothing called none has an address")`)

	if got := value[[]string](b, `[...document.querySelectorAll("#problems .command")].map((c) => c.innerText)`); !slices.Equal(got, []string{"ringlet evict host-c", "ringlet forget host-c"}) {
		t.Errorf("commands: %q", got)
	}
	if got := value[string](b, `document.querySelector("#problems .copy").dataset.copy`); got != "ringlet evict host-c" {
		t.Errorf("what is copied is %q", got)
	}
	b.do("going to the peer", run(`document.querySelector("#problems [data-peer]").click()`))
	if got := value[string](b, `document.activeElement.innerText`); !strings.Contains(got, "host-c") {
		t.Errorf("the focus is at %q", got)
	}
}

// A peer that cannot be reached is hatched. The bar of a pool is filled with what is held, and no more. Before the first answer
// the page does not say that it is live.
func TestNothingLooksBetterThanItIs(t *testing.T) {
	b := open(t)
	s := sceneOf(3)
	address := b.serve(s)
	b.visit(address, 1280, "light")
	for _, arc := range ringOf(b) {
		away := strings.Contains(arc.Label, "host-c")
		if strings.Contains(arc.Class, "away") != away || strings.Contains(arc.Label, "(unreachable)") != away {
			t.Errorf("%s is drawn as %s", arc.Label, arc.Class)
		}
	}
	if n := value[int](b, `document.querySelectorAll("#ring .away .hatched").length`); n == 0 {
		t.Error("nothing is hatched")
	}
	p := s.status.Pools[0]
	want := 200 * float64(p.Held) / float64(p.Size)
	if got := value[float64](b, `Number(document.querySelector("#pools .bar-held").getAttribute("width"))`); got < want-0.01 || got > want+0.51 {
		t.Errorf("the bar is filled to %v of 200, and %v are held", got, want)
	}
	if got := value[string](b, `getComputedStyle(document.querySelector("#pools .bar-ready")).fill`); got != "none" {
		t.Errorf("what is ready is filled with %s", got)
	}
	s.breakDown(&ipam.Error{Kind: ipam.ErrNotReady, Text: "not yet"})
	b.do("reading the page anew", chromedp.Navigate(address))
	b.until(`!document.getElementById("banner").hidden`)
	if live := value[string](b, `getComputedStyle(document.getElementById("live")).display + getComputedStyle(document.getElementById("known")).display`); live != "nonenone" {
		t.Errorf("before the first answer it shows %q", live)
	}
	s.breakDown(nil)
	b.until(`getComputedStyle(document.getElementById("live")).display !== "none"`)
	b.excuse()
}

// Zones are shown where hosts have named some: in the legend, with the peers, of a range and of an address. The table of a pool is
// read once it is opened, and again when a zone changes. Without zones there is nothing of them.
func TestZones(t *testing.T) {
	b := open(t)
	s := sceneOf(3)
	b.visit(b.serve(s), 1280, "light")
	if got := b.text("#peers") + b.text("#legend"); strings.Contains(strings.ToLower(got), "zone") {
		t.Errorf("without zones the page has %q", got)
	}
	rows := func() int { return value[int](b, `document.querySelectorAll("#table tbody tr").length`) }
	if n := rows(); n > 0 {
		t.Errorf("the table is closed, and has %d rows", n)
	}
	b.do("opening the table", chromedp.Click("#table-box summary"))
	b.until(`document.querySelectorAll("#table tbody tr").length === 32`)
	if got := b.text("#table"); strings.Contains(got, "Zone") || !strings.Contains(got, "10.50.0.8 – 10.50.0.15") {
		t.Errorf("the table is %q", got)
	}
	s.change(func(st *ipam.Status) {
		st.Peers = slices.Clone(st.Peers)
		st.Peers[0].Zone, st.Peers[1].Zone = "rack-1", "<b>rack-2"
	}, ipam.Note{Kind: ipam.NotePeerJoined, Holder: "host-z"})
	b.until(`document.getElementById("table").innerText.includes("<b>rack-2")`)
	for box, want := range map[string][]string{"#legend": {"zone rack-1: A", "zone <b>rack-2: B", "no zone: C"}, "#peers": {"Zone", "rack-1", "<b>rack-2"}, "#table": {"Zone", "rack-1"}} {
		for _, text := range want {
			if got := b.text(box); !strings.Contains(got, text) {
				t.Errorf("%s has no %q: %q", box, text, got)
			}
		}
	}
	for _, arc := range ringOf(b) {
		if strings.Contains(arc.Label, "host-a") != strings.Contains(arc.Label, ", zone rack-1") {
			t.Errorf("a range reads %q", arc.Label)
		}
	}
	choose := func(pool int) {
		t.Helper()
		b.do("choosing a pool", chromedp.Click(fmt.Sprintf(`#pools [data-pool="%v"]`, s.status.Pools[pool].Pool)))
	}
	choose(1)
	b.until(`document.getElementById("table-hint").innerText.includes("more rows than this page lists")`)
	choose(0)
	b.until(`document.querySelectorAll("#table tbody tr").length === 32`)
}

// Everything that a mouse can do a keyboard can, and where it is can be seen.
func TestKeyboard(t *testing.T) {
	b := open(t)
	s := sceneOf(3)
	b.visit(b.serve(s), 1280, "light")
	label := func() string { return value[string](b, `document.activeElement.getAttribute("aria-label") ?? ""`) }
	press := func(keys string) { t.Helper(); b.do("pressing a key", chromedp.KeyEvent(keys)) }
	press(kb.Tab)
	if got := value[string](b, `document.activeElement.className`); got != "skip" {
		t.Errorf("the first stop is %q", got)
	}
	for n := 0; value[bool](b, `!document.activeElement.closest("#ring")`); n++ {
		if n > 10 {
			t.Fatal("the ring cannot be reached with the tab key")
		}
		press(kb.Tab)
	}
	seen := []string{label()}
	for range 3 {
		press(kb.ArrowRight)
		seen = append(seen, label())
	}
	holders := s.status.Pools[0].Holders
	for i, got := range seen {
		if !strings.HasPrefix(got, holders[i].Start.String()) {
			t.Errorf("stop %d reads %q, want %v", i, got, holders[i].Start)
		}
	}
	if width := value[string](b, `getComputedStyle(document.activeElement.querySelector(".band")).strokeWidth`); width != "5px" {
		t.Errorf("the range in focus has an edge of %s", width)
	}
	press(kb.ArrowLeft)
	press(kb.Enter)
	b.until(`document.getElementById("detail").innerText.includes("` + holders[2].Start.String() + `")`)
	if got := label(); !strings.HasPrefix(got, holders[2].Start.String()) {
		t.Errorf("after Enter the focus is at %q", got)
	}
	press(kb.End)
	press(kb.ArrowRight) // once around
	if got := label(); !strings.HasPrefix(got, holders[0].Start.String()) {
		t.Errorf("after the last comes %q", got)
	}
	press(kb.Tab) // one stop for the whole ring
	if value[bool](b, `Boolean(document.activeElement.closest("#ring"))`) {
		t.Error("the ring has more than one stop")
	}
	// A new reading takes the focus from nobody.
	b.do("going back to the ring", run(`document.querySelector('#ring [tabindex="0"]').focus()`))
	s.change(func(st *ipam.Status) {
		st.Pools[0].Held++
	}, ipam.Note{Kind: ipam.NotePeerJoined, Holder: "host-z"})
	b.until(`document.getElementById("ring").innerText.includes("` + fmt.Sprint(s.status.Pools[0].Held) + ` of 256")`)
	if got := label(); !strings.HasPrefix(got, holders[0].Start.String()) {
		t.Errorf("after a reading the focus is at %q", got)
	}
}

// What screen readers go by: names for all that can be used, a language, a
// title, headings, table headers; and nothing said with colour alone.
func TestAccessibility(t *testing.T) {
	b := open(t)
	b.visit(b.serve(sceneOf(5)), 1280, "light")
	for what, expression := range map[string]string{
		"language":                    `document.documentElement.lang === "en"`,
		"title":                       `document.title === "(degraded) ringlet on host-a"`,
		"one first heading":           `document.querySelectorAll("h1").length === 1`,
		"sections have headings":      `[...document.querySelectorAll("section")].every(s => s.querySelector("h2"))`,
		"images have texts":           `[...document.querySelectorAll("img")].every(i => i.hasAttribute("alt"))`,
		"fields have labels":          `[...document.querySelectorAll("input, select")].every(f => f.labels.length === 1)`,
		"buttons have names":          `[...document.querySelectorAll("button, [role=button]")].every(f => (f.getAttribute("aria-label") ?? f.innerText).trim())`,
		"headers have scopes":         `[...document.querySelectorAll("th")].every(h => h.scope)`,
		"pictures have names":         `[...document.querySelectorAll("svg")].every(s => s.getAttribute("aria-hidden") === "true" || s.getAttribute("aria-label"))`,
		"wide owners have letters":    `[...document.querySelectorAll("#ring .arc.peer")].filter(a => a.querySelector(".band").getBBox().width > 24).every(a => a.querySelector(".letter"))`,
		"peers are told apart":        `new Set([...document.querySelectorAll("#peers .letter")].map(l => l.textContent)).size === 5`,
		"the verdict is a word":       `document.getElementById("verdict").innerText.includes("degraded")`,
		"references are there":        `[...document.querySelectorAll("[aria-labelledby], [aria-describedby]")].every(e => document.getElementById(e.getAttribute("aria-labelledby") ?? e.getAttribute("aria-describedby")))`,
		"identifiers are unique":      `new Set([...document.querySelectorAll("[id]")].map(e => e.id)).size === document.querySelectorAll("[id]").length`,
		"patterns, not colours alone": `getComputedStyle(document.querySelector("#ring .quarantined .band")).fill.includes("#hatch") && getComputedStyle(document.querySelector("#ring .reserved .band")).fill.includes("#cross")`,
	} {
		if !value[bool](b, "Boolean("+expression+")") {
			t.Errorf("%s: %s is not so", what, expression)
		}
	}
}

// Texts stand out from what is behind them as WCAG 2.2 wants it at level AA,
// light and dark.
func TestContrast(t *testing.T) {
	b := open(t)
	address := b.serve(sceneOf(20))
	for _, scheme := range []string{"light", "dark"} {
		b.visit(address, 1280, scheme)
		type pair struct {
			What  string
			Ratio float64
		}
		for _, p := range value[[]pair](b, contrast) {
			if p.Ratio < 4.5 {
				t.Errorf("%s: %s has a contrast of %.2f", scheme, p.What, p.Ratio)
			}
		}
	}
}

// contrast computes the ratio of each text colour with its ground.
const contrast = `(() => {
  const css = getComputedStyle(document.documentElement), context = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const light = (name) => {
    context.fillStyle = css.getPropertyValue(name).trim();
    context.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...context.getImageData(0, 0, 1, 1).data].map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => { const [l, m] = [light(a), light(b)]; return (Math.max(l, m) + 0.05) / (Math.min(l, m) + 0.05); };
  const pairs = [["--ink", "--ground"], ["--ink", "--card"], ["--faint", "--card"], ["--faint", "--ground"], ["--accent", "--card"], ["--failed", "--card"],
    ["--fine", "--fine-ground"], ["--degraded", "--degraded-ground"], ["--failed", "--failed-ground"], ["--faint", "--degraded-ground"], ["--faint", "--failed-ground"], ["--ink", "--free"]];
  for (let i = 0; i < 12; i++) pairs.push(["--letter", "--p" + i]);
  return pairs.map(([a, b]) => ({What: a + " on " + b, Ratio: ratio(a, b)}));
})()`

// The page fits a narrow window: only tables scroll sideways.
func TestNarrow(t *testing.T) {
	b := open(t)
	address := b.serve(sceneOf(20))
	for _, width := range []int64{320, 380, 760, 1280, 2000} {
		b.visit(address, width, "light")
		if wide := value[int64](b, `document.documentElement.scrollWidth`); wide > width {
			t.Errorf("in a window of %d the page has %d", width, wide)
		}
	}
}

// Whatever containers and peers are called, it is text.
func TestHostileNames(t *testing.T) {
	b := open(t)
	s := sceneOf(3)
	evil := `<img src=x onerror="document.title='taken'"><script>document.title='taken'</script>`
	s.status.Peers[1].Name = evil
	s.status.Pools[0].Name = evil
	s.status.Problems[0].Text = evil
	s.held[0].Name = evil
	s.log.Note(time.Now(), ipam.Note{Kind: ipam.NotePeerJoined, Holder: evil})
	b.visit(b.serve(s), 1280, "light")
	b.do("looking at the evil one", run(`document.getElementById("address").value = "`+s.held[0].Address.String()+`"; document.querySelector("#look button").click()`))
	b.until(`document.getElementById("detail").innerText.includes("<script>")`)
	if title := value[string](b, `document.title`); strings.Contains(title, "taken") {
		t.Error("a name was run")
	}
	if n := value[int](b, `document.querySelectorAll("main img, main script").length`); n != 0 {
		t.Errorf("a name made %d elements", n)
	}
}

// A new peer without pools has a page, too.
func TestNoPools(t *testing.T) {
	b := open(t)
	s := sceneOf(1)
	s.status.Pools = []ipam.PoolStatus{}
	b.do("opening the page", look(1280, 900, "light"), chromedp.Navigate(b.serve(s)+"/"))
	b.until(`document.getElementById("ring").innerText.includes("No pools yet")`)
	s.change(func(st *ipam.Status) { st.Pools = sceneOf(1).status.Pools }, ipam.Note{Kind: ipam.NotePoolCreated, Pool: netip.MustParsePrefix("10.50.0.0/24")})
	b.until(drawn)
}

// The arithmetic of addresses, in the page's own words.
func TestModel(t *testing.T) {
	b := open(t)
	b.visit(b.serve(sceneOf(1)), 1280, "light")
	type result struct {
		Counts    []string
		Fractions []float64
		Refused   []string
		Inside    []string
	}
	b.do("computing", run(`import("/page/model.js").then(m => { window.result = JSON.stringify({
	  Counts: [0, 1, 254, 9999999, 2**32, 2**64, 2**64-1, 1e10].map(m.count),
	  Fractions: [["10.50.0.0/24", "10.50.0.0"], ["10.50.0.0/24", "10.50.0.128"], ["10.50.0.0/24", "10.50.0.255", true], ["fd00:50::/64", "fd00:50::8000:0:0:0"], ["fd00:50::/64", "fd00:50:0:0:4000::"], ["::/0", "ffff::"]].map(a => m.fraction(...a)),
	  Refused: ["10.50.1.0", "10.50.0", "256.1.1.1", "fd00::1", "::1::", "1:2:3:4:5:6:7:8:9", "1:2:3", "g::", "", ":", ":::", "10.50.0.1/24"].filter(a => m.fraction("10.50.0.0/24", a) !== null),
	  Inside: ["fd00:50::", "fd00:50::1", "fd00:50::2", "fd00:50::ff", "fd00:50::100", "fd00:50:0:0:8000::", "10.50.0.1", ""].filter(a => m.liesIn({ start: "fd00:50::1", end: "fd00:50::ff" }, a))}) })`))
	b.until(`window.result`)
	var got result
	if err := json.Unmarshal([]byte(value[string](b, `window.result`)), &got); err != nil {
		t.Fatal(err)
	}
	if want := []string{"0", "1", "254", "9,999,999", "2³²", "2⁶⁴", "2⁶⁴", "≈ 2³³"}; !slices.Equal(got.Counts, want) {
		t.Errorf("counts %q, want %q", got.Counts, want)
	}
	if want := []float64{0, 0.5, 1, 0.5, 0.25, 0.99998474}; !slices.EqualFunc(got.Fractions, want, func(a, b float64) bool { return a-b < 1e-6 && b-a < 1e-6 }) {
		t.Errorf("fractions %v, want %v", got.Fractions, want)
	}
	if len(got.Refused) > 0 {
		t.Errorf("taken for addresses of the pool: %q", got.Refused)
	}
	if want := []string{"fd00:50::1", "fd00:50::2", "fd00:50::ff"}; !slices.Equal(got.Inside, want) {
		t.Errorf("in the range are %q, want %q", got.Inside, want)
	}
}
