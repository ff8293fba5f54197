package admin

import (
	"context"
	"net/http"
	"time"
)

// About says what process answers: its version, its settings without secrets,
// and how it stands with its engine, its network and its database.
type About struct {
	Version  string            `json:"version"`
	Go       string            `json:"go"`
	Platform string            `json:"platform"`
	Started  time.Time         `json:"started"`
	Settings map[string]string `json:"settings"` // by name in lower case and without RINGLET_; secrets are counted
	Engine   AboutEngine       `json:"engine"`
	Network  AboutNetwork      `json:"network"`
	Database AboutDatabase     `json:"database"`
}

// AboutEngine is the docker engine, as this process sees it.
type AboutEngine struct {
	Socket    string     `json:"socket"` // where it is asked; empty: there is none that could be asked
	Connected bool       `json:"connected"`
	Version   string     `json:"version"` // like 29.0.1; empty if it was never asked
	API       string     `json:"api"`
	Names     []string   `json:"names"`     // of this IPAM driver in it
	LastLook  *time.Time `json:"last_look"` // at what it has; null before the first
	LastError string     `json:"last_error"`
}

// AboutNetwork is the network between peers, as this process sees it.
type AboutNetwork struct {
	Open      bool     `json:"open"`      // false: this peer has no key, and talks to none
	Advertise string   `json:"advertise"` // where others are told to reach this peer
	Alive     int      `json:"alive"`     // other peers that answer
	Known     int      `json:"known"`
	Keys      int      `json:"keys"` // in use; 0: nothing is encrypted
	Problems  []string `json:"problems"`
}

// AboutDatabase is the file that everything is kept in.
type AboutDatabase struct {
	Path  string `json:"path"` // in the plugin
	Bytes int64  `json:"bytes"`
}

// Key is one key of the cluster, by what tells it from others without showing
// it.
type Key struct {
	Fingerprint string `json:"fingerprint"` // the beginning of its SHA-256, in hexadecimal digits
	Encrypts    bool   `json:"encrypts"`    // the first one; all decrypt
}

// Keys are the keys of the cluster that a peer has.
type Keys struct {
	// Source is file where they can be changed while the plugin runs, settings
	// where RINGLET_KEY has them, none where there are none.
	Source string `json:"source"`
	File   string `json:"file"` // in the plugin; empty if there is none
	Keys   []Key  `json:"keys"`
}

// Steps of a change of keys.
const (
	KeyAdd  = "add"  // the new key decrypts
	KeyUse  = "use"  // it encrypts from now on
	KeyDrop = "drop" // the others go
)

// KeyChange is the body of a request to change the key file.
type KeyChange struct {
	Step string `json:"step"` // add, use or drop
	Key  string `json:"key"`  // in base64: what to add, to use, or to keep alone
}

// Process is what the API asks of the process around the peer. Its methods are
// as those of [Backend].
type Process interface {
	// About says what process this is. It must not show secrets.
	About(ctx context.Context) (About, error)
	// Log returns the last lines of the log.
	Log() []byte
	// Crash returns how a process on this data crashed last, as text; empty if none
	// is known to have.
	Crash() []byte
	// Keys lists the keys of the cluster.
	Keys(ctx context.Context) (Keys, error)
	// ChangeKeys does one step of a change of keys, which repeats safely.
	ChangeKeys(ctx context.Context, c KeyChange) (Keys, error)
}

// processRoutes are the routes about the process, if it is told about at all.
func (s *Server) processRoutes() []route {
	if s.cfg.Process == nil {
		return nil
	}
	const get, post = http.MethodGet, http.MethodPost
	return []route{
		{method: get, path: "/v1/about", call: "about", handle: s.about},
		{method: get, path: "/v1/log", call: "log", local: secret("the log"), handle: s.log},
		{method: get, path: "/v1/crash", call: "crash", local: secret("the stack of a crash"), handle: s.crash},
		{method: get, path: "/v1/keys", call: "keys", handle: s.keys},
		{method: post, path: "/v1/keys", call: "keys-change", write: true, local: secret("a key"), handle: s.changeKeys},
	}
}

func (s *Server) about(ctx context.Context, _ *request) (answer, error) {
	about, err := s.cfg.Process.About(ctx)
	return answer{body: about}, err
}

func (s *Server) log(context.Context, *request) (answer, error) {
	return answer{body: string(s.cfg.Process.Log())}, nil
}

func (s *Server) crash(context.Context, *request) (answer, error) {
	return answer{body: string(s.cfg.Process.Crash())}, nil
}

func (s *Server) keys(ctx context.Context, _ *request) (answer, error) {
	keys, err := s.cfg.Process.Keys(ctx)
	return answer{body: keys}, err
}

func (s *Server) changeKeys(ctx context.Context, r *request) (answer, error) {
	var body KeyChange
	if err := decode(r.body, &body); err != nil {
		return answer{}, err
	}
	keys, err := s.cfg.Process.ChangeKeys(ctx, body)
	return answer{body: keys}, err
}
