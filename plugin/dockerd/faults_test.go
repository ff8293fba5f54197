package dockerd

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What is no socket is told as what it is: whoever reads that nobody listens there looks for a stopped engine.
func TestWhatIsNoSocket(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(dir, "left.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: left, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	_ = l.Close()
	for path, want := range map[string]string{
		dir: "is a directory, and no docker socket", file: "is a file, and no docker socket",
		left: "nothing listens on the docker socket", filepath.Join(dir, "none"): "there is no docker socket",
	} {
		_, err := net.Dial("unix", path)
		if got := explainDial(path, err); !strings.Contains(got.Error(), want) {
			t.Errorf("%s: %v, want %q", path, got, want)
		}
	}
}

func TestEngineRestarts(t *testing.T) {
	inBubble(t, Config{}, func(b *bench) {
		b.after(time.Hour)
		if s := b.w.State(); s.Connected || !strings.Contains(s.LastError, "there is no docker socket /run/docker/host/docker.sock") {
			t.Errorf("got state %+v", s)
		}
		if got := strings.Count(b.logged.String(), "not available"); got != 1 {
			t.Errorf("an hour of waiting was logged %d times, want once:\n%s", got, b.logged)
		}
		if got := b.blinds.Load(); got != 0 {
			t.Errorf("an engine that is away was given up %d times", got)
		}
		b.startPipes()
		b.want(b.after(6*time.Second), 1)
		for i := range 5 {
			b.stop()
			b.after(time.Second)
			if s := b.w.State(); s.Connected || s.LastError == "" || s.EngineVersion == "" {
				t.Errorf("got state %+v", s)
			}
			b.info.ServerVersion = fmt.Sprintf("29.%d", i)
			b.set("n1", oneContainer)
			b.startPipes()
			looks := b.after(6 * time.Second)
			b.want(looks, 1)
			if got, want := looks[0].EngineVersion, b.info.ServerVersion; got != want {
				t.Errorf("got engine version %s, want %s", got, want)
			}
		}
	})
}

// After a connection that held, the pause is the shortest again.
func TestPauseStartsAnew(t *testing.T) {
	inBubble(t, Config{}, func(b *bench) {
		b.after(time.Hour)
		b.startPipes()
		b.want(b.after(6*time.Second), 1)
		b.after(time.Minute)
		b.stop()
		b.startPipes()
		b.want(b.after(2*DefaultRetryMin), 1)
	})
}

// While the engine starts it accepts connections and answers nothing, for as
// long as its replay to us takes.
func TestEngineStarts(t *testing.T) {
	inBubble(t, Config{}, func(b *bench) {
		b.breakWith(func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true })
		b.startPipes()
		b.want(b.after(DefaultTimeout-time.Second), 0)
		if got := b.blinds.Load(); got != 0 {
			t.Errorf("given up %d times before a ping had its time", got)
		}
		b.want(b.after(3*time.Minute), 0)
		if b.blinds.Load() == 0 {
			t.Error("nobody was told that the engine is starting")
		}
		if got := b.w.State().LastError; !strings.Contains(got, "did not answer /_ping within 10s") {
			t.Errorf("got error %q", got)
		}
		if got := b.count("/_ping"); got < 10 || got > 60 {
			t.Errorf("an engine without answers was asked %d times in 3 min", got)
		}
		b.breakWith(nil)
		b.want(b.after(20*time.Second), 1)
		if got := strings.Count(b.logged.String(), "level=WARN"); got != 0 {
			t.Errorf("a normal start was logged as a warning:\n%s", b.logged)
		}
	})
}

func TestBlockedCall(t *testing.T) {
	for _, path := range []string{"/info", "/events", "/networks", "/networks/n1"} {
		t.Run(strings.ReplaceAll(path[1:], "/", "-"), func(t *testing.T) {
			inBubble(t, Config{}, func(b *bench) {
				b.set("n1", oneContainer)
				b.breakWith(hang(path))
				b.startPipes()
				for _, inv := range b.after(time.Minute) {
					if path != "/networks/n1" || !inv.Listed || inv.Complete || len(inv.Networks) != 1 || len(inv.Networks[0].Endpoints) > 0 {
						t.Errorf("delivered %+v", inv)
					}
				}
				if got := b.w.State().LastError; !strings.Contains(got, "did not answer "+path+" within 10s") {
					t.Errorf("got error %q", got)
				}
				if got := b.blinds.Load(); got != 0 {
					t.Errorf("an engine that answers pings was given up %d times", got)
				}
				b.breakWith(nil)
				looks := b.after(20 * time.Second)
				b.want(looks[len(looks)-1:], 1)
			})
		})
	}
}

// An engine that hangs is not asked for each network in turn.
func TestBlockedEngineIsLeftAlone(t *testing.T) {
	inBubble(t, Config{}, func(b *bench) {
		paths := []string{"/networks/n1", "/networks/n2", "/networks/n3"}
		for _, path := range paths {
			b.set(strings.TrimPrefix(path, "/networks/"), nil)
		}
		b.breakWith(hang(paths...))
		b.startPipes()
		b.after(10*time.Second + DefaultRetryMin/4) // the first call has timed out
		if got := b.count(paths[0]) + b.count(paths[1]) + b.count(paths[2]); got != 1 {
			t.Errorf("asked for %d networks, want one", got)
		}
	})
}

// A network that fails must not hide that others were seen, nor make the look
// pass for complete.
func TestPartialLook(t *testing.T) {
	inBubble(t, Config{}, func(b *bench) {
		b.set("n1", oneContainer)
		b.set("n2", nil)
		b.breakWith(say("/networks/n2", http.StatusInternalServerError, `{"message":"datastore is broken"}`))
		b.startPipes()
		looks := b.after(time.Second)
		if len(looks) == 0 {
			t.Fatal("nothing was delivered")
		}
		for _, inv := range looks {
			if inv.Complete || !inv.Listed || len(inv.Networks) != 2 || len(inv.Networks[0].Endpoints) != 1 || len(inv.Networks[1].Endpoints) > 0 {
				t.Errorf("got %+v", inv)
			}
		}
		first := b.started.Add(time.Second)
		b.after(10 * time.Minute)
		if got := b.w.State(); !got.Connected || !strings.Contains(got.LastError, "datastore is broken") || got.Failing.IsZero() || got.Failing.After(first) {
			t.Errorf("got state %+v", got)
		}
		b.stop()
		b.after(time.Second)
		if got := b.w.State(); got.Connected || !got.Failing.IsZero() {
			t.Errorf("without a connection: got state %+v", got)
		}
		b.startPipes()
		b.after(10 * time.Second)
		b.breakWith(nil)
		b.after(time.Minute)
		if got := b.w.State(); !got.Failing.IsZero() || got.LastError != "" {
			t.Errorf("mended: got state %+v", got)
		}
	})
}

func TestUnbelievableAnswers(t *testing.T) {
	tests := []struct{ name, path, body string }{
		{"no networks", "/networks", `[]`},
		{"null networks", "/networks", `null`},
		{"not json", "/networks", `<html>`},
		{"half a list", "/networks", `[{"Id":"n1"`},
		{"nothing", "/networks", ``},
		{"list of other things", "/networks", `[1]`},
		{"object", "/networks", `{}`},
		{"empty network", "/networks/n1", `{}`},
		{"half a network", "/networks/n1", `{"Id":"n1","Containers":{"c1":{`},
		{"another network", "/networks/n1", `{"Id":"n2"}`},
		{"garbage address", "/networks/n1", `{"Id":"n1","Containers":{"c1":{"IPv4Address":"ten"}}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, Config{}, func(b *bench) {
				b.set("n1", oneContainer)
				b.breakWith(say(tt.path, http.StatusOK, tt.body))
				b.startPipes()
				for _, inv := range b.after(30 * time.Second) {
					if inv.Complete {
						t.Errorf("believed it: %+v", inv)
					}
				}
				if got := b.w.State().LastError; got == "" {
					t.Error("the state says all is well")
				}
				b.breakWith(nil)
				b.want(b.after(6*time.Second), 1)
			})
		})
	}
}

func TestNetworkRemovedDuringTheLook(t *testing.T) {
	inBubble(t, Config{}, func(b *bench) {
		b.set("n1", oneContainer)
		b.breakWith(func(_ http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/networks/n1" {
				b.remove("n1")
			}
			return false
		})
		b.set("n2", nil)
		b.startPipes()
		looks := b.after(time.Second)
		b.want(looks, 1)
		if got := looks[0].Networks; len(got) != 1 || got[0].ID != "n2" {
			t.Errorf("got networks %+v, want n2 alone", got)
		}
	})
}

func TestNetworkCreatedDuringTheLook(t *testing.T) {
	inBubble(t, Config{}, func(b *bench) {
		b.set("n1", nil)
		b.breakWith(func(_ http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/networks/n1" {
				b.set("n0", oneContainer)
			}
			return false
		})
		b.startPipes()
		looks := b.after(time.Second)
		b.want(looks, 1)
		if got := looks[0].Networks; len(got) != 2 || got[0].ID != "n0" || len(got[0].Endpoints) != 1 {
			t.Errorf("got %+v", got)
		}
	})
}

func TestNetworksCreatedWithoutEnd(t *testing.T) {
	inBubble(t, Config{}, func(b *bench) {
		b.set("n", nil)
		b.breakWith(func(_ http.ResponseWriter, r *http.Request) bool {
			if id, ok := strings.CutPrefix(r.URL.Path, "/networks/"); ok {
				b.set(id+"n", nil)
			}
			return false
		})
		b.startPipes()
		looks := b.after(0)
		looks = append(looks, b.after(300*time.Millisecond)...)
		if len(looks) == 0 || looks[0].Complete || len(looks[0].Networks) != maxRounds {
			t.Errorf("got %+v", looks)
		}
	})
}

func TestEventStreamBreaks(t *testing.T) {
	inBubble(t, Config{}, func(b *bench) {
		b.startPipes()
		b.want(b.after(time.Second), 1)
		b.emit("}garbage")
		b.want(b.after(6*time.Second), 1) // reconnected, and looked
		if !b.w.State().Connected {
			t.Errorf("got state %+v", b.w.State())
		}
		if got := b.count("/events"); got != 2 {
			t.Errorf("subscribed %d times, want twice", got)
		}
	})
}

// An engine that refuses the event stream is looked at all the same.
func TestWithoutEvents(t *testing.T) {
	inBubble(t, Config{}, func(b *bench) {
		refuse := say("/events", http.StatusForbidden, `{"message":"not allowed"}`)
		b.breakWith(func(w http.ResponseWriter, r *http.Request) bool {
			if refuse(w, r) {
				return true
			}
			time.Sleep(time.Millisecond) // a look takes longer than the refusal, which the client learns of only after the call
			return false
		})
		b.startPipes()
		looks := b.after(time.Minute)
		if len(looks) == 0 {
			t.Error("nothing was delivered")
		}
		b.want(looks, len(looks))
		if got := b.w.State(); got.Connected || !strings.Contains(got.LastError, "not allowed") {
			t.Errorf("got state %+v", got)
		}
		if got := strings.Count(b.logged.String(), "event stream broke"); got != 1 {
			t.Errorf("logged %d times, want once:\n%s", got, b.logged)
		}
		if got := b.count("/events"); got < 10 || got > 60 {
			t.Errorf("subscribed %d times in a minute", got)
		}
	})
}
