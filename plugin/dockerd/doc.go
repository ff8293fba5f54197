// Package dockerd asks the Docker engine which containers still hold which
// addresses.
//
// It refuses to know what follows from an inventory, and who else has addresses.
//
// The engine tells an IPAM driver about every address it takes, but not
// reliably about every address it gives back: a release that meets a stopped
// plugin is never repeated. So somebody has to look. A [Watcher] takes an
// [Inventory] of the engine's networks that use our driver and hands it to a
// callback, again and again; what is missing in two of them is a leak. It
// decides nothing itself.
//
// # When it looks
//
// At each connection, every minute, when [Watcher.Recheck] asks for it, when
// the callback asks for it, and shortly after an event that may have changed
// something. Events are hints and nothing else: the engine drops them when a
// listener is slow and forgets them when it restarts, so no fact is ever taken
// from one. [Watcher.AskNetworks] has only the list of networks read: one call, at
// once, also in the middle of a look. The event stream is opened before the first look, and opened "as
// of a moment ago", so that no change falls between the two.
//
// # What it asks
//
// GET /networks, then GET /networks/{id} for each network of ours, or that was
// made from a config-only one and so may be ours in a swarm, and the list once
// more for what was created meanwhile. It never asks for a single container:
// that call blocks while the container's own request to us is pending.
// [Watcher.Containers] reads the entries of some in the engine's list, which
// blocks for nobody, and asks for those of a service that run, whose ports are
// only there, with a deadline of half a second; the Watcher itself does not need it. Nothing here may be
// called from a request handler, and a look has a deadline on every call, since
// during the engine's start the API accepts connections and answers none of
// them.
//
// # What a consumer may conclude
//
// Present means in use, always. Absent means free only in an inventory that is
// Complete, and only for an address that was already granted, and settled,
// before Begun. That a network is gone an inventory tells that is Listed, and so does
// a [List]. Gateways that nobody typed are not shown by engines before 29,
// so their absence never means anything.
//
// # Concurrency
//
// [New] does no I/O and starts nothing. [Watcher.Run] is called once; it calls
// deliver from its own goroutine, one call at a time. [Watcher.Recheck],
// [Watcher.AskNetworks] and [Watcher.State] may be called from anywhere at any time and never block;
// [Watcher.Containers] from anywhere but a request handler.
//
// Besides that the package answers two questions about managed plugins: which
// one am I ([PluginID]), and, for the command line, where is the one that runs
// here ([FindPlugin]).
//
// Tests run against a fake engine that misbehaves (over pipes in a bubble, and
// over a unix socket), and against the real one where there is one.
package dockerd
