package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/internal/golden"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/plugin/directory"
	"github.com/ringlet/ringlet/plugin/directory/replica"
	"github.com/ringlet/ringlet/plugin/events"
)

// shelf is a directory with fixed keys, and changes of them as a test wants.
type shelf struct {
	items   []directory.Item // in order
	changes *events.Ring[replica.Event]
	// told and silent are what the journals of others answer.
	told   []directory.Testimony
	silent []string
}

func (s *shelf) Ask(context.Context, netip.Addr, time.Time) ([]directory.Testimony, []string) {
	return s.told, s.silent
}

const agreedPool = `{"pool":"10.50.0.0/29"}`

// newShelf has two addresses of host-b in it, one of host-a, and what is agreed.
func newShelf() *shelf {
	held := func(node, name string) json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`{"pool":"10.50.0.0/29","node":%q,"state":"held","kind":"container","container":"4f3a2b1c0d9e8f7a","name":%q,"mac":"02:00:00:00:00:07","since":"2026-11-21T09:00:00Z"}`, node, name))
	}
	return &shelf{changes: events.NewRing[replica.Event](3, 0, 4), items: []directory.Item{
		{Key: "ringlet/state/ip/v1/ringlet/10.50.0.2", Value: held("host-a", "web"), Owner: "aa01", ConfirmedAt: someTime},
		{Key: "ringlet/state/ip/v1/ringlet/10.50.0.4", Value: held("host-b", "db"), Owner: hostB, ConfirmedAt: someTime},
		{Key: "ringlet/state/ip/v1/ringlet/10.50.0.6", Value: held("host-b", "cache"), Owner: hostB, ConfirmedAt: someTime},
		{Key: "ringlet/state/pools/v1/ringlet/names/lab", Value: json.RawMessage(agreedPool), Owner: directory.Agreed},
	}}
}

func (s *shelf) Remove(_ context.Context, key string, below bool) (out directory.Removed) {
	for _, item := range s.items {
		if item.Key == key || below && strings.HasPrefix(item.Key, key) {
			out.Keys++
			if item.Owner == hostB && !slices.Contains(out.Silent, hostB) {
				out.Silent = append(out.Silent, hostB)
			}
		}
	}
	return out
}

func (s *shelf) Get(key string) []directory.Item {
	return slices.DeleteFunc(slices.Clone(s.items), func(i directory.Item) bool { return i.Key != key })
}

func (s *shelf) List(prefix, after string, limit, bytes int) ([]directory.Item, bool) {
	list := slices.DeleteFunc(slices.Clone(s.items), func(i directory.Item) bool { return !strings.HasPrefix(i.Key, prefix) || i.Key <= after })
	n := 0
	for ; n < min(len(list), limit) && bytes > 0; n++ {
		bytes -= len(list[n].Value)
	}
	return append([]directory.Item{}, list[:n]...), len(list) > n
}

func (s *shelf) Holdings(a netip.Addr) (out []directory.Holding) {
	for _, h := range s.all() {
		if h.IP == a {
			out = append(out, h)
		}
	}
	return out
}

func (s *shelf) Places(wanted func(owner string) bool) (out []directory.Place) {
	for _, h := range s.all() {
		if wanted(h.Owner) {
			out = append(out, directory.Place{IP: h.IP, Owner: h.Owner})
		}
	}
	slices.SortFunc(out, func(a, b directory.Place) int { return a.IP.Compare(b.IP) })
	return out
}

func (s *shelf) Said(places []directory.Place) (out []directory.Holding) {
	for _, p := range places {
		for _, h := range s.all() {
			if h.IP == p.IP && h.Owner == p.Owner {
				out = append(out, h)
			}
		}
	}
	return out
}

// all is what is said of addresses.
func (s *shelf) all() (out []directory.Holding) {
	for _, i := range s.items {
		if at, err := netip.ParseAddr(i.Key[strings.LastIndex(i.Key, "/")+1:]); err == nil {
			h := directory.Holding{IP: at, Owner: i.Owner, ConfirmedAt: i.ConfirmedAt}
			_ = json.Unmarshal(i.Value, &h.Address)
			out = append(out, h)
		}
	}
	return out
}

func (s *shelf) Labels(number uint64) (map[string]string, bool) {
	labels, there := map[uint64]map[string]string{256: {"com.docker.compose.project": "shop", "com.docker.compose.service": "db"}}[number]
	return labels, there
}

func (s *shelf) Watch(after events.ID) *directory.Changes { return s.changes.Read(after) }
func (s *shelf) Last() events.ID                          { return s.changes.Last() }

// change sets a key, or removes it.
func (s *shelf) change(key, value string) {
	e := replica.Event{Key: key, Origin: peer.ID{0xbb}}
	if value != "" {
		e.Value = []byte(value)
	}
	s.changes.Put(e)
}

// follow begins a stream, and returns what reads the next so many of its
// messages.
func follow(t *testing.T, s *Server, path string, header ...string) func(n int) []string {
	t.Helper()
	srv := httptest.NewServer(s.Handler())
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := srv.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		resp.Body.Close()
		srv.Close()
	})
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%s: %s", path, resp.Status)
	}
	in := bufio.NewReader(resp.Body)
	return func(n int) (out []string) {
		t.Helper()
		for text := ""; len(out) < n; {
			line, err := in.ReadString('\n')
			if err != nil {
				t.Fatalf("after %q: %v", out, err)
			}
			if line = strings.TrimSpace(line); line != "" {
				text += line + "; "
				continue
			}
			if !strings.HasPrefix(text, "retry: ") {
				out = append(out, text)
			}
			text = ""
		}
		return out
	}
}

// Who watches gets what there is, then what becomes of it; who comes again goes
// on, and begins anew where that cannot be.
func TestWatchKeys(t *testing.T) {
	dir := newShelf()
	s, _ := logged(t, Config{Backend: newMemory(), Directory: dir})
	dir.change("ringlet/state/ip/v1/ringlet/10.50.0.1", "1")
	next := follow(t, s, "/v1/kv/ringlet/state/pools/?watch=true")
	put := `event: put; data: {"key":"ringlet/state/pools/v1/ringlet/names/lab","value":{"pool":"10.50.0.0/29"},"owner":"agreed"}; `
	synced := func(id string) string { return "id: " + id + "; event: synced; data: {}; " }
	if diff := cmp.Diff([]string{"event: reset; data: {}; ", put, synced("3-1")}, next(3)); diff != "" {
		t.Fatalf("(-want +got)\n%s", diff)
	}
	dir.change("ringlet/state/ip/v1/ringlet/10.50.0.1", "")
	dir.change("ringlet/state/pools/v1/ringlet/names/new", `{"pool":"10.51.0.0/24"}`)
	dir.change("ringlet/state/pools/v1/ringlet/names/lab", "")
	owner := peer.ID{0xbb}.String()
	last := []string{
		`id: 3-3; event: put; data: {"key":"ringlet/state/pools/v1/ringlet/names/new","value":{"pool":"10.51.0.0/24"},"owner":"` + owner + `"}; `,
		`id: 3-4; event: delete; data: {"key":"ringlet/state/pools/v1/ringlet/names/lab","owner":"` + owner + `"}; `,
	}
	if diff := cmp.Diff(last, next(2)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(last, follow(t, s, "/v1/kv/ringlet/state/pools/?watch=true", "Last-Event-ID", "3-2")(2)); diff != "" {
		t.Errorf("who comes again (-want +got)\n%s", diff)
	}
	for _, tooOld := range []string{"2-7", "3-9"} {
		got := follow(t, s, "/v1/kv/ringlet/state/pools/?watch=true&since="+tooOld)(3)
		if diff := cmp.Diff([]string{"event: reset; data: {}; ", put, synced("3-4")}, got); diff != "" {
			t.Errorf("who was at %s (-want +got)\n%s", tooOld, diff)
		}
	}
}

// A list comes in pages, which are the list.
func TestKeysInPages(t *testing.T) {
	s, _ := logged(t, Config{Backend: newMemory(), Directory: newShelf()})
	var got []string
	for after := ""; ; {
		query := "?recursive=true&limit=3"
		if after != "" {
			query += "&after=" + after
		}
		w, _ := ask(t.Context(), s.Handler(), "GET", "/v1/kv/ringlet/"+query, nil)
		var list []directory.Item
		if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%d %v", w.Code, err)
		}
		if len(list) == 0 {
			break
		}
		for _, item := range list {
			got = append(got, item.Key)
		}
		after = got[len(got)-1]
	}
	var want []string
	for _, item := range newShelf().items {
		want = append(want, item.Key)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// Containers of all peers are targets for Prometheus, at a port that is theirs.
func TestContainersAsTargets(t *testing.T) {
	s, err := New(Config{Backend: newMemory(), Directory: newShelf(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	w, _ := ask(t.Context(), s.Handler(), "GET", "/sd/prometheus?containers=true&port=9100", nil)
	var got []Target
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || len(got) != 3 {
		t.Fatalf("%d %v: %s", w.Code, err, w.Body)
	}
	want := Target{[]string{"10.50.0.4:9100"}, map[string]string{
		"__meta_ringlet_container_id": "4f3a2b1c0d9e8f7a", "__meta_ringlet_container_name": "db", "__meta_ringlet_container_mac": "02:00:00:00:00:07",
		"__meta_ringlet_pool": "10.50.0.0/29", "__meta_ringlet_name": "host-b", "__meta_ringlet_id": hostB,
	}}
	if diff := cmp.Diff(want, got[1]); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if w, _ := ask(t.Context(), s.Handler(), "GET", "/sd/prometheus?containers=true", nil); w.Code != http.StatusBadRequest {
		t.Errorf("without a port: %d", w.Code)
	}
	golden.Check(t, "targets.json", w.Body.Bytes())
}

// abroad has an address in another peer's range.
type abroad struct{ Backend }

func (abroad) Who(_ context.Context, a netip.Addr) (ipam.AddressStatus, error) {
	return ipam.AddressStatus{Address: a, Pool: netip.MustParsePrefix("10.50.0.0/29"), Peer: "host-b", State: "elsewhere"}, nil
}

// Snapshot has host-d, which is there, and host-c, which was evicted.
func (b abroad) Snapshot(ctx context.Context) (ipam.Status, error) {
	st, err := b.Backend.Snapshot(ctx)
	st.Peers = append(st.Peers, ipam.PeerStatus{ID: "aa00", Name: "host-c", State: "evicted"}, ipam.PeerStatus{ID: "aa04", Name: "host-d", Reachable: true})
	return st, err
}

func (b abroad) Explain(ctx context.Context, a netip.Addr) (ipam.Explanation, error) {
	st, err := b.Who(ctx, a)
	return ipam.Explanation{AddressStatus: st, Verdict: "is in the space of host-b", Origin: "operator", Networks: []ipam.PoolID{}, Refusals: []ipam.Refusal{}}, err
}

// withFormer is newShelf with what others said of addresses that lie in the space of host-b
// by now: host-c, which was evicted, host-b before it was rebuilt, and host-d, on which a
// container has one of them all the same.
func withFormer() *shelf {
	s := newShelf()
	add := func(ip, owner, node string, confirmed time.Time) {
		value := fmt.Sprintf(`{"pool":"10.50.0.0/29","node":%q,"state":"held","kind":"container","name":"former","since":"2026-11-20T09:00:00Z"}`, node)
		s.items = slices.Insert(s.items, 0, directory.Item{Key: "ringlet/state/ip/v1/ringlet/" + ip, Value: json.RawMessage(value), Owner: owner, ConfirmedAt: confirmed})
	}
	add("10.50.0.6", "aa02", "host-b", someTime.Add(-time.Minute))
	add("10.50.0.5", "aa00", "host-c", someTime)
	add("10.50.0.6", "aa00", "host-c", someTime)
	add("10.50.0.6", "aa04", "host-d", someTime)
	add("10.50.0.3", "aa04", "host-d", someTime)
	return s
}

// The story of an address of another peer has what that one says of it.
func TestExplainElsewhere(t *testing.T) {
	d := readDocument(t)
	s, _ := logged(t, Config{Backend: abroad{newMemory()}, Directory: withFormer()})
	for ip, want := range map[string]string{
		"10.50.0.6": `"verdict":"is in the space of host-b; it reported at 2026-11-21 09:00 UTC that the address is held by container \"cache\""`,
		"10.50.0.5": `"verdict":"is in the space of host-b"`,
		"10.50.0.3": `"verdict":"is in the space of host-b; host-d reported at 2026-11-21 09:00 UTC that the address is held by container \"former\""`,
	} {
		w, _ := ask(t.Context(), s.Handler(), "GET", "/v1/addresses/"+ip+"/explain", nil)
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: got %s, want %s in it", ip, w.Body, want)
		}
		d.checkExchange(t, "GET", "/v1/addresses/"+ip+"/explain", "", w.Code, w.Header(), w.Body.String())
	}
}

// Who has an address of another peer is what that one says, with when it did, or
// what another one says that is there; of one of which nobody speaks nothing is invented.
func TestWhoElsewhere(t *testing.T) {
	d := readDocument(t)
	s, _ := logged(t, Config{Backend: abroad{newMemory()}, Directory: withFormer()})
	for ip, want := range map[string]string{
		"10.50.0.6": `"name":"cache","mac":"02:00:00:00:00:07","since":"2026-11-21T09:00:00Z","confirmed":"2026-11-21T09:00:00Z"`,
		"10.50.0.5": `"peer":"host-b","state":"elsewhere","kind":"","container":"","name":"","mac":""}`,
		"10.50.0.3": `"peer":"host-d","state":"held","kind":"container","container":"","name":"former"`,
	} {
		w, _ := ask(t.Context(), s.Handler(), "GET", "/v1/addresses/"+ip, nil)
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: got %s, want %s in it", ip, w.Body, want)
		}
		d.checkExchange(t, "GET", "/v1/addresses/"+ip, "", w.Code, w.Header(), w.Body.String())
	}
}

// homely has an address of a container of this peer.
type homely struct{ abroad }

func (homely) Who(_ context.Context, a netip.Addr) (ipam.AddressStatus, error) {
	return ipam.AddressStatus{Address: a, Pool: netip.MustParsePrefix("10.50.0.0/29"), Peer: "host-a", State: "held", Kind: "container", Container: "4f3a2b1c0d9e8f7a", Name: "web"}, nil
}

func (b homely) Explain(ctx context.Context, a netip.Addr) (ipam.Explanation, error) {
	story, err := b.abroad.Explain(ctx, a)
	story.AddressStatus, _ = b.Who(ctx, a)
	return story, err
}

// Who has an address has its identity, on this host and on others: its number, and its labels as soon as they are known here. That
// of another container, or of a host that had the address before, is not shown.
func TestIdentity(t *testing.T) {
	shelved := withFormer()
	for i := range shelved.items {
		item := &shelved.items[i]
		number := map[string]int{"10.50.0.2": 256, "10.50.0.4": 256, "10.50.0.6": 300, "10.50.0.5": 256}[item.Key[strings.LastIndex(item.Key, "/")+1:]]
		item.Value = json.RawMessage(strings.Replace(string(item.Value), `,"since"`, fmt.Sprintf(`,"identity":%d,"since"`, number), 1))
	}
	const known = `,"identity":{"number":256,"labels":{"com.docker.compose.project":"shop","com.docker.compose.service":"db"}}`
	d := readDocument(t)
	for _, c := range []struct {
		backend  Backend
		ip, want string
	}{
		{abroad{newMemory()}, "10.50.0.4", known},
		{abroad{newMemory()}, "10.50.0.6", `,"identity":{"number":300}`},
		{abroad{newMemory()}, "10.50.0.5", ""},
		{homely{abroad{newMemory()}}, "10.50.0.2", known},
		{homely{abroad{newMemory()}}, "10.50.0.4", ""},
	} {
		s, _ := logged(t, Config{Backend: c.backend, Directory: shelved})
		for _, path := range []string{"/v1/addresses/" + c.ip, "/v1/addresses/" + c.ip + "/explain"} {
			w, _ := ask(t.Context(), s.Handler(), "GET", path, nil)
			if got := w.Body.String(); !strings.Contains(got, c.want) || strings.Contains(got, "identity") != (c.want != "") {
				t.Errorf("%s: got %s, want %q in it", path, got, c.want)
			}
			d.checkExchange(t, "GET", path, "", w.Code, w.Header(), w.Body.String())
		}
	}
	s, _ := logged(t, Config{Backend: homely{abroad{newMemory()}}})
	if w, _ := ask(t.Context(), s.Handler(), "GET", "/v1/addresses/10.50.0.2", nil); w.Code != http.StatusOK || strings.Contains(w.Body.String(), "identity") {
		t.Errorf("without a directory: %d %s", w.Code, w.Body)
	}
}

// unheld has addresses that nobody has, or that this peer may hand out, as far as it knows.
type unheld struct {
	abroad
	state string
}

func (b unheld) Who(_ context.Context, a netip.Addr) (ipam.AddressStatus, error) {
	return ipam.AddressStatus{Address: a, Pool: netip.MustParsePrefix("10.50.0.0/29"), State: b.state}, nil
}

// An address in nobody's space, or in this peer's, is told to be held by another peer that is there and has it all the same: a
// host that was forgotten and is back, before it has asked for it. What one said that is not there, or this peer, is no word of that.
func TestWhoHasWhatIsFree(t *testing.T) {
	shelf := withFormer()
	shelf.items = append(shelf.items, directory.Item{Key: "ringlet/state/ip/v1/ringlet/10.50.0.1", Value: shelf.items[0].Value, Owner: "aa01", ConfirmedAt: someTime})
	for _, state := range []string{"free", "ready"} {
		s, _ := logged(t, Config{Backend: unheld{abroad{newMemory()}, state}, Directory: shelf})
		for ip, want := range map[string]string{
			"10.50.0.3": `"peer":"host-d","state":"held","kind":"container","container":"","name":"former"`,
			"10.50.0.5": `"peer":"","state":"` + state + `"`,
			"10.50.0.1": `"peer":"","state":"` + state + `"`,
		} {
			w, _ := ask(t.Context(), s.Handler(), "GET", "/v1/addresses/"+ip, nil)
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("%s, %s: got %s, want %s in it", ip, state, w.Body, want)
			}
		}
	}
}

// What a host said that was forgotten, or replaced by another of its machine, is not listed
// among what is held: its addresses are others' by now.
func TestHeldByHostsOfTheCluster(t *testing.T) {
	s, _ := logged(t, Config{Backend: newMemory(), Directory: withFormer()})
	for _, path := range []string{"/v1/addresses?all=true", "/v1/addresses?all=true&for=former", "/sd/prometheus?containers=true&port=9100"} {
		w, _ := ask(t.Context(), s.Handler(), "GET", path, nil)
		if w.Code != http.StatusOK || strings.Contains(w.Body.String(), "former") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
		if cache := strings.Contains(w.Body.String(), "cache"); cache == strings.Contains(path, "for=") {
			t.Errorf("%s: what host-b holds now is listed: %v", path, cache)
		}
	}
}

// keeping has an address kept for a name, which another peer has for it.
type keeping struct{ Backend }

func (keeping) Who(_ context.Context, a netip.Addr) (ipam.AddressStatus, error) {
	return ipam.AddressStatus{Address: a, Pool: netip.MustParsePrefix("10.50.0.0/29"), Peer: "host-b", State: "reserved", Kind: "kept for a name", Name: "cache"}, nil
}

func (b keeping) List(ctx context.Context, _ ipam.Listing) (ipam.Portion, error) {
	var out []ipam.AddressStatus
	for _, a := range []string{"10.50.0.5", "10.50.0.6"} {
		st, _ := b.Who(ctx, netip.MustParseAddr(a))
		out = append(out, st)
	}
	return ipam.Portion{Addresses: out}, nil
}

// Of an address that is kept for a name, and that another peer has for it, is told what
// that one says, once; what it does not speak of is kept.
func TestKeptElsewhere(t *testing.T) {
	s, _ := logged(t, Config{Backend: keeping{newMemory()}, Directory: newShelf()})
	for path, want := range map[string][]string{
		"/v1/addresses/10.50.0.5": {"10.50.0.5 reserved"},
		"/v1/addresses/10.50.0.6": {"10.50.0.6 held"},
		"/v1/addresses?all=true":  {"10.50.0.4 held", "10.50.0.5 reserved", "10.50.0.6 held"},
	} {
		w, _ := ask(t.Context(), s.Handler(), "GET", path, nil)
		var list []Usage
		body := strings.TrimSpace(w.Body.String())
		if !strings.HasPrefix(body, "[") {
			body = "[" + body + "]"
		}
		if err := json.Unmarshal([]byte(body), &list); err != nil {
			t.Fatal(path, err)
		}
		var got []string
		for _, u := range list {
			got = append(got, u.Address.String()+" "+u.State)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", path, diff)
		}
	}
}
