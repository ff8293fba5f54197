package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/directory"
	"github.com/ringlet/ringlet/plugin/events"
)

// openAPIDocument is the document as far as the tests read it.
type openAPIDocument struct {
	answered map[string]bool // operations of which an answer was checked, by ID

	OpenAPI    string
	Paths      map[string]map[string]operation
	Components struct {
		Schemas   map[string]schema
		Responses map[string]response
	}
}

type operation struct {
	OperationID string
	Summary     string
	Description string
	Parameters  []parameter
	RequestBody *response
	Responses   map[string]response
	Security    []map[string][]string
}

type parameter struct {
	Name, In, Description string
	Required              bool
	Schema                schema
}

type response struct {
	Ref         string `json:"$ref"`
	Required    bool
	Description string
	Content     map[string]struct{ Schema schema }
}

// schema is what of JSON Schema the document may use: the tests check all of
// it.
type schema struct {
	Ref                  string `json:"$ref"`
	Description          string
	Type                 types
	Properties           map[string]schema
	Required             []string
	AdditionalProperties *others
	Items                *schema
	Enum                 []string
	Const                *string
	Format               string
	Pattern              string
	Minimum              *float64
	MinLength, MaxLength *int
}

// types are one type, or one and null.
type types []string

func (t *types) UnmarshalJSON(text []byte) error {
	if text[0] != '[' {
		*t = make(types, 1)
		return json.Unmarshal(text, &(*t)[0])
	}
	return json.Unmarshal(text, (*[]string)(t))
}

// are reports whether a value of type name may stand there.
func (t types) are(name string) bool { return slices.Contains(t, name) }

// others is what fields may be in an object beside those that are listed:
// false, or values of a schema.
type others struct{ of *schema }

func (o *others) UnmarshalJSON(text []byte) error {
	if string(text) == "false" {
		return nil
	}
	return strictly(text, &o.of)
}

// strictly reads JSON in which no word may be unknown.
func strictly(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

// readDocument reads the document, in which no word may be unknown.
func readDocument(t *testing.T) *openAPIDocument {
	t.Helper()
	var all struct {
		openAPIDocument
		Info       map[string]string
		Components struct {
			Schemas         map[string]schema
			Responses       map[string]response
			SecuritySchemes map[string]map[string]string
		}
	}
	if err := strictly(document, &all); err != nil {
		t.Fatalf("openapi.json: %v", err)
	}
	doc := all.openAPIDocument
	doc.answered = map[string]bool{}
	doc.Components.Schemas, doc.Components.Responses = all.Components.Schemas, all.Components.Responses
	if doc.OpenAPI != "3.1.0" || all.Info["title"] == "" || all.Components.SecuritySchemes["token"]["scheme"] != "bearer" {
		t.Errorf("openapi %q, info %v, security %v", doc.OpenAPI, all.Info, all.Components.SecuritySchemes)
	}
	return &doc
}

// find returns the operation of a request, nil if there is none.
func (d *openAPIDocument) find(method, path string) *operation {
	for template, methods := range d.Paths {
		pattern := strings.NewReplacer(`\{pool\}`, `[^/]+`, `\{ip\}`, `[^/]+`, `\{peer\}`, `[^/]+`, `\{key\}`, `.*`, `\{name\}`, `[^/]+`).Replace(regexp.QuoteMeta(template))
		if op, ok := methods[strings.ToLower(method)]; ok && regexp.MustCompile("^"+pattern+"$").MatchString(path) {
			return &op
		}
	}
	return nil
}

// checkExchange fails the test unless the document foresees a request that was
// done, and the answer to it.
func (d *openAPIDocument) checkExchange(t *testing.T, method, path, body string, status int, header http.Header, text string) {
	t.Helper()
	contentType := header.Get("Content-Type")
	if status >= 400 {
		d.checkJSON(t, fmt.Sprintf("%s %s: %d", method, path, status), schema{Ref: "#/components/schemas/Problem"}, text)
		if contentType != "application/problem+json" {
			t.Errorf("%s %s: %d with %s", method, path, status, contentType)
		}
		return
	}
	path, query, _ := strings.Cut(path, "?")
	op := d.find(method, path)
	if op == nil {
		t.Errorf("%s %s is answered with %d, and not in openapi.json", method, path, status)
		return
	}
	d.answered[op.OperationID] = true
	d.checkQuery(t, method+" "+path, op, query)
	if body != "" {
		if op.RequestBody == nil {
			t.Errorf("%s %s takes a body, of which openapi.json knows nothing", method, path)
			return
		}
		d.checkJSON(t, method+" "+path+": body", op.RequestBody.Content["application/json"].Schema, body)
	}
	answer, ok := op.Responses[fmt.Sprint(status)]
	if !ok {
		t.Errorf("%s %s: openapi.json does not foresee status %d", method, path, status)
		return
	}
	if len(answer.Content) == 0 && text == "" {
		return
	}
	content, ok := answer.Content[contentType]
	switch {
	case !ok && op.OperationID == "metrics": // whose type has a version in it
	case !ok:
		t.Errorf("%s %s: openapi.json does not foresee %s, but %v", method, path, contentType, slices.Collect(maps.Keys(answer.Content)))
	case contentType == "application/json":
		d.checkJSON(t, fmt.Sprintf("%s %s: %d", method, path, status), content.Schema, text)
	}
}

// checkQuery fails the test unless the parameters of a request that was
// answered are those of the document.
func (d *openAPIDocument) checkQuery(t *testing.T, where string, op *operation, raw string) {
	t.Helper()
	query, err := url.ParseQuery(raw)
	if err != nil {
		t.Error(err)
	}
	for _, p := range op.Parameters {
		if p.In != "query" {
			continue
		}
		if query.Has(p.Name) {
			for _, wrong := range d.validate(p.Schema, query.Get(p.Name), p.Name) {
				t.Errorf("%s: %s", where, wrong)
			}
		} else if p.Required {
			t.Errorf("%s was answered without %s", where, p.Name)
		}
		query.Del(p.Name)
	}
	if len(query) > 0 {
		t.Errorf("%s: parameters that are not foreseen: %v", where, query)
	}
}

// checkComplete fails the test unless an answer of each operation was checked,
// except for some.
func (d *openAPIDocument) checkComplete(t *testing.T, except ...string) {
	t.Helper()
	for path, methods := range d.Paths {
		for method, op := range methods {
			if !d.answered[op.OperationID] && !slices.Contains(except, op.OperationID) {
				t.Errorf("%s %s was never answered here", strings.ToUpper(method), path)
			}
		}
	}
}

func (d *openAPIDocument) checkJSON(t *testing.T, where string, s schema, text string) {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Errorf("%s: %v", where, err)
		return
	}
	for _, wrong := range d.validate(s, v, "") {
		t.Errorf("%s: %s", where, wrong)
	}
}

// resolve follows a reference.
func (d *openAPIDocument) resolve(s schema) schema {
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		return d.Components.Schemas[name]
	}
	return s
}

// validate returns what of v, at that place of a document, contradicts s.
func (d *openAPIDocument) validate(s schema, v any, at string) (wrong []string) {
	s = d.resolve(s)
	bad := func(format string, args ...any) { wrong = append(wrong, at+": "+fmt.Sprintf(format, args...)) }
	switch v := v.(type) {
	case map[string]any:
		if !s.Type.are("object") {
			bad("is an object, not %s", s.Type)
			return wrong
		}
		for _, name := range s.Required {
			if _, ok := v[name]; !ok {
				bad("%s is missing", name)
			}
		}
		for name, field := range v {
			if p, ok := s.Properties[name]; ok {
				wrong = append(wrong, d.validate(p, field, at+"."+name)...)
			} else if more := s.AdditionalProperties; more != nil && more.of == nil {
				bad("%s is not foreseen", name)
			} else if more != nil {
				wrong = append(wrong, d.validate(*more.of, field, at+"."+name)...)
			}
		}
	case []any:
		if !s.Type.are("array") || s.Items == nil {
			bad("is a list, not %s", s.Type)
			return wrong
		}
		for i, item := range v {
			wrong = append(wrong, d.validate(*s.Items, item, fmt.Sprintf("%s[%d]", at, i))...)
		}
	case string:
		if !s.Type.are("string") || len(s.Enum) > 0 && !slices.Contains(s.Enum, v) || s.Const != nil && *s.Const != v {
			bad("%q is not a %s of %v", v, s.Type, s.Enum)
		}
		if _, err := time.Parse(time.RFC3339, v); s.Format == "date-time" && err != nil {
			bad("%q is not a time", v)
		}
		if s.Pattern != "" && !regexp.MustCompile(s.Pattern).MatchString(v) {
			bad("%q does not match %s", v, s.Pattern)
		}
		if s.MinLength != nil && len(v) < *s.MinLength || s.MaxLength != nil && len(v) > *s.MaxLength {
			bad("%q has %d characters", v, len(v))
		}
	case float64:
		if !s.Type.are("integer") || s.Minimum != nil && v < *s.Minimum {
			bad("%v is not a %s", v, s.Type)
		}
	case bool:
		if !s.Type.are("boolean") {
			bad("%v is not a %s", v, s.Type)
		}
	default:
		if !s.Type.are("null") {
			bad("is null, not %s", s.Type)
		}
	}
	return wrong
}

// The validator sees what is wrong, or the tests that use it see nothing.
func TestValidatorIsStrict(t *testing.T) {
	d := readDocument(t)
	for _, c := range []struct{ name, text, want string }{
		{"Grant", `{"address":"10.50.0.1","pool":"10.50.0.0/24","for":"x"}`, ""},
		{"Grant", `{"address":"10.50.0.1","for":"x"}`, "pool is missing"},
		{"Grant", `{"address":"10.50.0.1","pool":"10.50.0.0/24","for":"x","y":1}`, "y is not foreseen"},
		{"Grant", `{"address":1,"pool":"","for":"x"}`, "1 is not a [string]"},
		{"Grant", `[]`, "is a list"},
		{"Departure", `{"state":"nowhere","owned":1,"resting":0,"held":0}`, `"nowhere" is not`},
		{"Departure", `{"state":"ready","owned":-1,"resting":0,"held":0}`, "-1 is not"},
		{"Recovery", `{"cluster":"","evicted":null,"kept_back":0}`, "evicted: is null"},
		{"EngineSight", `{"listed":true,"container":"","looked":null,"missing":"2026-11-21T09:00:00Z"}`, ""},
		{"EngineSight", `{"listed":true,"container":"","looked":null,"missing":"never"}`, "not a time"},
		{"EngineSight", `{"listed":true,"container":null,"looked":null,"missing":null}`, "container: is null"},
		{"Collection", `{"findings":[{}]}`, "findings[0]: address is missing"},
		{"About", `{"settings":{"name":"host-a"}}`, "version is missing"},
		{"About", `{"settings":{"name":1}}`, "settings.name: 1 is not"},
		{"AddressStatus", `{"address":"","pool":"","peer":"","state":"held","kind":"","container":"","name":"","mac":"","since":"yesterday"}`, "not a time"},
		{"NewAddress", `{"for":""}`, "0 characters"},
	} {
		var v any
		if err := json.Unmarshal([]byte(c.text), &v); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(d.validate(schema{Ref: "#/components/schemas/" + c.name}, v, c.name), "; "); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s %s: got %q, want %q", c.name, c.text, got, c.want)
		}
	}
}

// everyRoute returns the routes of a server that has all that it can have.
func everyRoute(t *testing.T) []route {
	t.Helper()
	s, _ := logged(t, Config{Backend: newMemory(), Process: &around{}, Events: events.New(1, 0, 0), Directory: newShelf()})
	return slices.Concat(s.routes(), s.processRoutes(), []route{s.eventsRoute(), s.journalRoute(), s.kvRoute(), s.kvRemoveRoute()}, s.lockRoutes())
}

// The document has the paths that are answered, with their methods, their
// parameters and who may do so, and no others.
func TestDocumentHasTheRoutes(t *testing.T) {
	d := readDocument(t)
	routes := everyRoute(t)
	for _, path := range []string{"/livez", "/metrics", "/openapi.json"} {
		routes = append(routes, route{method: http.MethodGet, path: path})
	}
	n, ids := 0, map[string]bool{}
	for _, methods := range d.Paths {
		for _, op := range methods {
			if n++; ids[op.OperationID] || op.OperationID == "" || op.Summary == "" {
				t.Errorf("operation %q, %q", op.OperationID, op.Summary)
			}
			ids[op.OperationID] = true
		}
	}
	if n != len(routes) {
		t.Errorf("openapi.json has %d operations, there are %d", n, len(routes))
	}
	for _, r := range routes {
		op, ok := d.Paths[r.path][strings.ToLower(r.method)]
		if !ok {
			t.Errorf("%s %s is not in openapi.json", r.method, r.path)
			continue
		}
		var query, path []string
		for _, p := range op.Parameters {
			switch p.In {
			case "query":
				query = append(query, p.Name)
			case "path":
				path = append(path, p.Name)
				if !p.Required {
					t.Errorf("%s %s: %s is not required", r.method, r.path, p.Name)
				}
			}
		}
		if diff := cmp.Diff(r.query, query); diff != "" {
			t.Errorf("%s %s: parameters (-route +openapi.json):\n%s", r.method, r.path, diff)
		}
		var inPath []string
		for _, m := range regexp.MustCompile(`\{([a-z]+)\}`).FindAllStringSubmatch(r.path, -1) {
			inPath = append(inPath, m[1])
		}
		if diff := cmp.Diff(inPath, path); diff != "" {
			t.Errorf("%s %s: path (-route +openapi.json):\n%s", r.method, r.path, diff)
		}
		if (len(op.Security) > 0) != r.write {
			t.Errorf("%s %s: write is %v, security %v", r.method, r.path, r.write, op.Security)
		}
		if _, ok := op.Responses["default"]; ok != (r.handle != nil) {
			t.Errorf("%s %s: errors are foreseen: %v", r.method, r.path, ok)
		}
	}
}

// A request that has to have parameters is refused without each of them, and
// one that needs none is not.
func TestDocumentHasWhatIsRequired(t *testing.T) {
	d := readDocument(t)
	fill := strings.NewReplacer("{pool}", "lab", "{ip}", "10.50.0.1", "{peer}", hostB, "{key}", "ringlet", "{name}", "backup")
	values := url.Values{"addresses": {"10.50.0.3"}, "kind": {"kept"}, "for": {"camera"}, "fence": {"7"}}
	for _, r := range everyRoute(t) {
		if len(r.query) == 0 || r.call == "events" { // which has no end
			continue
		}
		required := url.Values{}
		for _, p := range d.Paths[r.path][strings.ToLower(r.method)].Parameters {
			if p.In == "query" && p.Required {
				required[p.Name] = values[p.Name]
			}
		}
		status := func(query url.Values) int {
			m := newMemory()
			m.hostB = stateEvicted // else it is not forgotten
			s, _ := logged(t, Config{Backend: m, Locks: &cabinet{}})
			w, _ := ask(t.Context(), s.Handler(), r.method, "http://ringlet:7951"+fill.Replace(r.path)+"?"+query.Encode(), nil)
			return w.Code
		}
		if got := status(required); got == http.StatusBadRequest {
			t.Errorf("%s %s: refused with %v alone", r.method, r.path, required)
		}
		for name := range required {
			less := maps.Clone(required)
			less.Del(name)
			if got := status(less); got != http.StatusBadRequest {
				t.Errorf("%s %s: %d without %s", r.method, r.path, got, name)
			}
		}
	}
}

// Each schema has the fields of the type that is sent or read, with their
// types; what may be left out is not required.
func TestDocumentHasTheTypes(t *testing.T) {
	d := readDocument(t)
	all := map[string]any{
		"Status": ipam.Status{}, "PeerStatus": ipam.PeerStatus{}, "HealthStatus": ipam.HealthStatus{}, "PoolStatus": ipam.PoolStatus{}, "RangeStatus": ipam.RangeStatus{}, "TableRow": ipam.TableRow{}, "TablePeer": ipam.TablePeer{}, "ShareStatus": ipam.ShareStatus{},
		"NetStatus": ipam.NetStatus{}, "AddressStatus": ipam.AddressStatus{}, "StatusProblem": ipam.Problem{}, "Forgetting": ipam.Forgetting{}, "Problem": Problem{},
		"MadePool": MadePool{}, "NewAddress": NewAddress{}, "Grant": Grant{}, "NewPool": NewPool{}, "Drain": Drain{}, "Leave": Leave{}, "Departure": Departure{},
		"Eviction": Eviction{}, "Recover": Recover{}, "Recovery": Recovery{}, "Rejoin": Rejoin{}, "Rejoining": Rejoining{}, "Claim": Claim{}, "Trust": Trust{}, "Trusted": Trusted{}, "Event": events.Event{}, "Holder": events.Holder{}, "Gap": Gap{},
		"Explanation": Story{}, "Identity": Identity{}, "ReservedFor": ipam.ReservedFor{}, "EngineSight": ipam.EngineSight{}, "Refusal": ipam.Refusal{},
		"NewReservation": NewReservation{}, "Reserving": ipam.Reserving{}, "Collision": ipam.Collision{}, "ReservationStatus": ipam.ReservationStatus{},
		"Audit": ipam.Audit{}, "Finding": ipam.Finding{}, "Collection": Collection{}, "Collected": ipam.Collected{},
		"Join": Join{}, "Joined": Joined{}, "Met": Met{}, "Keys": Keys{}, "Key": Key{}, "KeyChange": KeyChange{},
		"About": About{}, "AboutEngine": AboutEngine{}, "AboutNetwork": AboutNetwork{}, "AboutDatabase": AboutDatabase{}, "Target": Target{}, "Past": Past{}, "PastOf": PastOf{},
		"NewLock": NewLock{}, "HeldLock": HeldLock{}, "Renewal": Renewal{}, "Usage": Usage{}, "Item": directory.Item{}, "Change": directory.Change{}, "RemovedKeys": RemovedKeys{},
	}
	for name := range d.Components.Schemas {
		if _, ok := all[name]; !ok {
			t.Errorf("openapi.json has %s, which is no type", name)
		}
	}
	names := map[reflect.Type]string{}
	for name, v := range all {
		names[reflect.TypeOf(v)] = name
	}
	for name, v := range all {
		s, ok := d.Components.Schemas[name]
		if !ok || s.Description == "" || s.AdditionalProperties == nil || s.AdditionalProperties.of != nil {
			t.Errorf("%s: %+v", name, s)
			continue
		}
		fields, required := fieldsOf(reflect.TypeOf(v), names)
		got := map[string]string{}
		for field, p := range s.Properties {
			got[field] = p.typeText()
		}
		if diff := cmp.Diff(fields, got); diff != "" {
			t.Errorf("%s (-type +openapi.json):\n%s", name, diff)
		}
		slices.Sort(required)
		if diff := cmp.Diff(required, slices.Sorted(slices.Values(s.Required))); diff != "" {
			t.Errorf("%s, required (-type +openapi.json):\n%s", name, diff)
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(events.Kinds())), slices.Sorted(slices.Values(d.Components.Schemas["Event"].Properties["kind"].Enum))); diff != "" {
		t.Errorf("kinds of events (-type +openapi.json):\n%s", diff)
	}
}

// typeText says in words what a schema allows.
func (s schema) typeText() string {
	text := strings.Join(s.Type, " or ")
	switch {
	case s.Ref != "":
		text = strings.TrimPrefix(s.Ref, "#/components/schemas/")
	case s.Items != nil:
		text += " of " + s.Items.typeText()
	case s.AdditionalProperties != nil && s.AdditionalProperties.of != nil:
		text += " of " + s.AdditionalProperties.of.typeText()
	}
	return text
}

// fieldsOf returns what a schema must say of a struct's fields, by name, and
// the names of those that are always there. Structs have names.
func fieldsOf(t reflect.Type, names map[reflect.Type]string) (fields map[string]string, required []string) {
	fields = map[string]string{}
	for f := range t.Fields() {
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous {
			inner, always := fieldsOf(f.Type, names)
			maps.Copy(fields, inner)
			required = append(required, always...)
			continue
		}
		fields[tag] = typeOf(f.Type, names)
		if options == "" {
			required = append(required, tag)
			if f.Type.Kind() == reflect.Pointer {
				fields[tag] += " or null"
			}
		}
	}
	return fields, required
}

func typeOf(t reflect.Type, names map[reflect.Type]string) string {
	for _, text := range []any{time.Time{}, netip.Addr{}, netip.Prefix{}, events.ID{}} {
		if t == reflect.TypeOf(text) {
			return "string"
		}
	}
	if t == reflect.TypeFor[json.RawMessage]() {
		return "object"
	}
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Uint64, reflect.Int, reflect.Int64:
		return "integer"
	case reflect.Slice:
		return "array of " + typeOf(t.Elem(), names)
	case reflect.Map:
		return "object of " + typeOf(t.Elem(), names)
	case reflect.Pointer:
		return typeOf(t.Elem(), names)
	default:
		return names[t]
	}
}

// Each code that an answer may have is in the document, and no other.
func TestDocumentHasTheCodes(t *testing.T) {
	want := []string{
		CodeNotFound, CodeMethod, CodeTooLarge, CodeReadOnly, CodeUnauthorized, CodeBusy, CodeTimeout, CodeInternal, CodeNoKey, CodeMisdirected, CodeCrossSite, CodeTooManyGuesses, CodeLockLost,
	}
	for _, e := range everyError {
		want = append(want, e.err.Error())
	}
	slices.Sort(want)
	got := slices.Sorted(slices.Values(readDocument(t).Components.Schemas["Problem"].Properties["code"].Enum))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("codes (-API +openapi.json):\n%s", diff)
	}
}

// The document is served, and the stream of events is what it says.
func TestDocumentIsServed(t *testing.T) {
	s, _ := logged(t, Config{Backend: newMemory(), Events: eventful()})
	d := readDocument(t)
	w, _ := ask(t.Context(), s.Handler(), "GET", "/openapi.json", nil)
	d.checkExchange(t, "GET", "/openapi.json", "", w.Code, w.Header(), "{}")
	if w.Body.String() != string(document) {
		t.Error("what is served is another document")
	}
	stream := kept(t, s, "&since=1-1")
	d.checkExchange(t, "GET", "/v1/events", "", 200, http.Header{"Content-Type": {"text/event-stream"}}, stream)
	name := "Event"
	for line := range strings.Lines(stream) {
		line = strings.TrimSpace(line)
		if line == "event: gap" {
			name = "Gap"
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			d.checkJSON(t, line, schema{Ref: "#/components/schemas/" + name}, data)
			name = "Event"
		}
	}
}
