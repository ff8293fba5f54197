package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/ringlet/ringlet/internal/logattr"
)

// Write is a request that was allowed to change something, for those who ask later
// who did.
type Write struct {
	Who    string // of the admin socket the user and process, else the client's address
	From   string // where it came in: the admin socket, or RINGLET_HTTP
	What   string // the call and what it was given, without secrets
	Result string // ok, or the code of the problem
}

// String says it in a sentence.
func (w Write) String() string {
	return fmt.Sprintf("%s: %s, asked by %s over %s", w.What, w.Result, w.Who, w.From)
}

// localListener names, as the address of the other end of a unix socket, the user and
// the process that connected.
type localListener struct{ net.Listener }

// Accept implements [net.Listener].
func (l localListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	u, ok := conn.(*net.UnixConn)
	if err != nil || !ok {
		return conn, err
	}
	who := caller("a process that cannot be told")
	if raw, err := u.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { // it fails once the connection is closed: nobody asks then
			if c, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
				who = caller(fmt.Sprintf("uid %d, pid %d", c.Uid, c.Pid))
			}
		})
	}
	return localConn{conn, who}, nil
}

// localConn is a connection of a unix socket.
type localConn struct {
	net.Conn
	who caller
}

// RemoteAddr implements [net.Conn].
func (c localConn) RemoteAddr() net.Addr { return c.who }

// caller is a process of this host, as an address.
type caller string

// Network implements [net.Addr].
func (caller) Network() string { return "unix" }

// String implements [net.Addr].
func (c caller) String() string { return string(c) }

// audit writes down a request that was allowed to change something.
func (s *Server) audit(rt route, r *http.Request, id string, body []byte, err error) {
	w := Write{Who: r.RemoteAddr, From: "RINGLET_HTTP", What: what(rt, r, body), Result: "ok"}
	if !s.cfg.Remote {
		w.From = "the admin socket"
	}
	if err != nil {
		p, _ := problemOf(err, s.cfg.Timeout)
		w.Result = p.Code
		if errors.Is(r.Context().Err(), context.Canceled) {
			w.Result = "gone"
		}
	}
	s.cfg.Logger.LogAttrs(r.Context(), slog.LevelInfo, "write answered", logattr.Request(id), logattr.Kind(rt.call),
		slog.String("who", w.Who), slog.String("from", w.From), slog.String("what", w.What), slog.String("result", w.Result))
	s.cfg.Written(w)
}

// Limits of what is written down of a request, in bytes.
const (
	maxArgument = 128
	maxWhat     = 512
)

// what tells what a request asks for: the call, and what is in its path, its
// parameters and its body, but for keys.
func what(rt route, r *http.Request, body []byte) string {
	out := []string{rt.call}
	for _, name := range []string{"pool", "ip", "peer"} {
		if v := r.PathValue(name); v != "" {
			out = append(out, name+"="+argument(v))
		}
	}
	query, _ := url.ParseQuery(r.URL.RawQuery) // what cannot be read was refused
	for _, name := range slices.Sorted(maps.Keys(query)) {
		out = append(out, argument(name)+"="+argument(query.Get(name)))
	}
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(body, &fields) // the same
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if strings.EqualFold(name, "key") {
			continue // of the cluster
		}
		var text string
		if json.Unmarshal(fields[name], &text) != nil {
			var compact bytes.Buffer
			_ = json.Compact(&compact, fields[name]) // it was read before
			text = compact.String()
		}
		out = append(out, argument(name)+"="+argument(text))
	}
	return cut(strings.Join(out, " "), maxWhat)
}

// argument is a value as one word.
func argument(v string) string {
	v = cut(v, maxArgument)
	if v == "" || strings.ContainsFunc(v, func(r rune) bool {
		return r == ' ' || r == '"' || r == '\\' || r == unicode.ReplacementChar || !unicode.IsPrint(r)
	}) {
		return strconv.Quote(v)
	}
	return v
}

// cut shortens a text.
func cut(text string, to int) string {
	if len(text) <= to {
		return text
	}
	return strings.ToValidUTF8(text[:to], "") + "…"
}
