package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"

	"github.com/ringlet/ringlet/internal/e2e"
)

// The networks of P7. Their names sort behind that of the container's first one, bridge: connecting to one that sorts
// before it moves the default gateway, which takes as long as a third of the rest.
const (
	builtinNet = "net-builtin"
	ringletNet = "net-ringlet"
	connected  = "connected" // the container that is connected to them
)

// parallel is how many docker run there are at once.
const parallel = 8

// measureRun measures what users wait for, on an engine of its own, once with its built-in IPAM and once with ringlet as
// the plugin that it would be anywhere: P7. It needs root and the engine's programs.
func measureRun(b *bench) error {
	if b.short {
		b.leaveOut("P7, docker run, since an engine takes its time")
		return nil
	}
	if err := os.Setenv("RINGLET_E2E", "1"); err != nil { // this is asked for
		return err
	}
	err := onStage(b.ctx, func(s *stage) error {
		e := e2e.Start(s, e2e.Config{Name: "host-a"})
		e.InstallPlugin()
		e.ImportDemo()
		e.Docker("network", "create", "--subnet", "10.78.0.0/16", builtinNet)
		e.Docker("network", "create", "--ipam-driver", e2e.Plugin, "--subnet", "10.79.0.0/16", ringletNet)
		e.Docker("run", "--detach", "--name", connected, e2e.Demo)
		return b.measureEngine(e)
	})
	if none, ok := errors.AsType[*noEngineError](err); ok {
		b.leaveOut("P7, docker run: %s", strings.TrimPrefix(none.why, "skipped: "))
		return nil
	}
	return err
}

func (b *bench) measureEngine(e *e2e.Engine) error {
	run := func(network string) func() error {
		return func() error {
			_, err := e.TryDocker("run", "--rm", "--network", network, e2e.Demo, "addrs")
			return err
		}
	}
	api := dialer(func(ctx context.Context) (net.Conn, error) { return e.Dial(ctx, "/run/docker.sock") }).client()
	connect := func(network string) func() error {
		return func() error {
			for _, what := range []string{"connect", "disconnect"} {
				if err := post(b.ctx, api, "/networks/"+network+"/"+what); err != nil {
					return err
				}
			}
			return nil
		}
	}
	got, err := interleave(4*b.rounds, 0, []contender{
		once("run built-in", run(builtinNet)), once("run", run(ringletNet)),
		once("connect built-in", connect(builtinNet)), once("connect", connect(ringletNet)),
	})
	if err != nil {
		return err
	}
	for _, what := range []struct{ key, text string }{{"run", "docker run --rm"}, {"connect", "network connect and disconnect"}} {
		ratio := got.times(what.key, what.key+" built-in")
		b.add(row{
			goal: "P7", what: what.text + ", against the built-in IPAM", limit: 1, within: true, got: ratio,
			note: fmt.Sprintf("%s against %s", duration(got.p50(what.key).median), duration(got.p50(what.key+" built-in").median)),
		})
		b.add(row{goal: "G15", what: "the same", limit: 1.02, got: ratio})
	}
	if err := b.measureShare(e, run(ringletNet), got.p50("run").median); err != nil {
		return err
	}
	all, err := interleave(b.rounds, 0, []contender{
		once("run built-in", atOnce(parallel, run(builtinNet))), once("run", atOnce(parallel, run(ringletNet))),
	})
	if err != nil {
		return err
	}
	b.add(row{
		goal: "P7", what: fmt.Sprintf("%d docker run --rm at once, until the last is done, against the built-in IPAM", parallel), limit: 1, within: true,
		got:  all.times("run", "run built-in"),
		note: fmt.Sprintf("%s against %s", duration(all.p50("run").median), duration(all.p50("run built-in").median)),
	})
	return nil
}

// post connects the container to a network, or the reverse.
func post(ctx context.Context, api *http.Client, path string) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://docker"+path,
		strings.NewReader(fmt.Sprintf(`{"Container":%q}`, connected)))
	if err != nil {
		return err
	}
	q.Header.Set("Content-Type", "application/json")
	r, err := api.Do(q)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, r.Status)
	}
	return nil
}

// atOnce does something so many times at once.
func atOnce(n int, f func() error) func() error {
	return func() error {
		var wg sync.WaitGroup
		errs := make([]error, n)
		for i := range n {
			wg.Go(func() { errs[i] = f() })
		}
		wg.Wait()
		return errors.Join(errs...)
	}
}

// measureShare measures how much of a docker run are the calls of ringlet, as the engine sees them: G14. That is what
// they take inside, by ringlet's own metrics, and the way there and back, as long as that of a call without work.
func (b *bench) measureShare(e *e2e.Engine, run func() error, wall float64) error {
	dir := "/run/docker/plugins/" + e.PluginID(e2e.Plugin) + "/"
	at := func(name string) dialer {
		return func(ctx context.Context) (net.Conn, error) { return e.Dial(ctx, dir+name) }
	}
	const runs = 20
	before, err := scrape(b.ctx, at("ringlet-admin.sock"))
	if err != nil {
		return err
	}
	for range runs {
		if err := run(); err != nil {
			return err
		}
	}
	after, err := scrape(b.ctx, at("ringlet-admin.sock"))
	if err != nil {
		return err
	}
	var inside, calls float64
	for _, call := range []string{"RequestAddress", "ReleaseAddress"} {
		inside += 1e9 * (after[`ringlet_request_duration_seconds_sum{call="`+call+`"}`] - before[`ringlet_request_duration_seconds_sum{call="`+call+`"}`])
		calls += after[`ringlet_request_duration_seconds_count{call="`+call+`"}`] - before[`ringlet_request_duration_seconds_count{call="`+call+`"}`]
	}
	plugin := at("ringlet.sock").client()
	way, err := interleave(b.rounds, b.slice, []contender{oneClient("no-op", timed(func() error { return noop(b.ctx, plugin) }))})
	if err != nil {
		return err
	}
	each := way.p50("no-op").median
	share := 100 * (inside + calls*each) / runs / wall
	b.add(row{
		goal: "G14", what: "share of docker run that are calls of ringlet", limit: 0.5, unit: " %", got: spread{share, share, share},
		note: fmt.Sprintf("%s calls, each %s inside and %s on the way", number(calls/runs), duration(inside/max(calls, 1)), duration(each)),
	})
	return nil
}
