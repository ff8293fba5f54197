package serving

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
)

// What serves on a listener changes again and again while clients connect: each is answered, by whichever it is.
func TestStageLosesNobody(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	s := NewStage()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	say := func(n int) Func {
		return func(ctx context.Context, l net.Listener) error {
			srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, n) })}
			stop := context.AfterFunc(ctx, func() { _ = srv.Shutdown(context.Background()) })
			defer stop()
			_ = srv.Serve(l)
			return nil
		}
	}
	var clients sync.WaitGroup
	done := make(chan struct{})
	answered := make([]int, 4)
	for i := range answered {
		clients.Go(func() {
			c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			for {
				resp, err := c.Get(url)
				if err != nil {
					t.Errorf("a client got %v", err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				answered[i]++
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for n := range 200 {
		s.Set(say(n))
		if resp, err := http.Get(url); err != nil {
			t.Error(err)
		} else {
			_ = resp.Body.Close()
		}
	}
	close(done)
	clients.Wait()
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if slices.Min(answered) == 0 {
		t.Errorf("clients were answered %v times", answered)
	}
	if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
		_ = c.Close()
		t.Error("the listener is open still")
	}
}
