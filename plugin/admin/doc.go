// Package admin is ringlet's HTTP API: what the command line, scripts and
// Prometheus talk to. It turns requests into calls of a [Backend] and the
// answers into JSON; it decides nothing itself.
//
// It refuses to know how the node decides, and what an engine is.
//
// # Where it is served
//
// On the admin unix socket, mode 0600, where whoever can connect may do
// everything; and, if the operator wants, on a TCP address, where everybody
// may read and only the bearer of a token may write ([Config].Remote and
// [Config].Token). These are two [Server] values over one Backend, so that a
// crowd on the network takes no place away from the operator at the socket.
//
// Over TCP a request is refused with 421 if its Host is a name that is not this
// server's ([Config].Hosts), and with 403 if a page of another site has made a browser
// send it. A source that sends wrong tokens has to wait, up to a minute. The log, a
// change of keys, and what gives addresses up for good, or can (recover, forget, rejoin,
// trust, leave by force) go over the socket alone.
//
// Each write of somebody who may write leaves a line in the log, and an event in the
// journal, with who asked, from where, for what, and the result ([Write]). Keys and
// tokens are in neither.
//
// # Routes
//
//	GET    /v1/status                            ipam.Status
//	GET    /v1/peers                             []ipam.PeerStatus
//	GET    /v1/pools                             []ipam.PoolStatus, without Holders
//	POST   /v1/pools                             NewPool -> 201 MadePool, 200 if there was such a pool before
//	GET    /v1/pools/{cidr}                      ipam.PoolStatus
//	DELETE /v1/pools/{cidr}                      204
//	GET    /v1/pools/{cidr}/addresses[?for=&all=]  []Usage: all, or what somebody holds; with all=true also on other peers
//	POST   /v1/pools/{cidr}/addresses            NewAddress -> 201 Grant, 200 if it was held before
//	DELETE /v1/pools/{cidr}/addresses?for=       []ipam.AddressStatus: what was freed
//	DELETE /v1/pools/{cidr}/addresses/{ip}[?for=]
//	GET    /v1/addresses[?for=&all=]             the same, over all pools
//	DELETE /v1/addresses?for=
//	GET    /v1/addresses/{ip}                    Usage
//	GET    /v1/addresses/{ip}/explain            Story
//	DELETE /v1/addresses/{ip}[?for=]
//	GET    /v1/locks                             []HeldLock
//	POST   /v1/locks/{name}                      NewLock -> 201 HeldLock; 409 if somebody else has it; on the admin socket alone
//	PUT    /v1/locks/{name}                      Renewal -> 204, 409 if it is lost, 503 if nobody can tell; on the admin socket alone
//	DELETE /v1/locks/{name}?fence=               204; on the admin socket alone
//	GET    /v1/reservations[?pool=]              []ipam.ReservationStatus
//	POST   /v1/reservations                      NewReservation -> ipam.Reserving
//	DELETE /v1/reservations?addresses=&kind=[&pool=]  ipam.Reserving: what was freed; kind is excluded or kept
//	GET    /v1/about                             About: the process, its settings without secrets, engine and network
//	GET    /v1/log                               the last lines of the log, as text; on the admin socket alone
//	GET    /v1/crash                             how a process crashed last, as text; on the admin socket alone
//	GET    /v1/keys                              Keys: fingerprints of the cluster's keys
//	POST   /v1/keys                              KeyChange -> Keys; on the admin socket alone
//	GET    /v1/ring[?pool=]                      []ipam.RangeStatus
//	POST   /v1/check                             ipam.Audit
//	POST   /v1/gc                                Collection -> []ipam.Collected
//	POST   /v1/self/drain                        Drain -> Departure: 200 if nothing is left here, or that was undone; else 202
//	POST   /v1/self/leave                        Leave -> Departure: 200 if it has left, else 202; by force on the admin socket alone
//	POST   /v1/self/rejoin                       Rejoin -> Rejoining: 200 if done, or with dry_run, else 202; on the admin socket alone
//	POST   /v1/self/trust                        Trust -> Trusted; on the admin socket alone
//	POST   /v1/peers                             Join -> Joined: meets another peer; 503 if nobody answers
//	POST   /v1/peers/{peer}/evict                Eviction
//	DELETE /v1/peers/{peer}[?dry_run=]           ipam.Forgetting: dry_run=true only tells what that frees; on the admin socket alone
//	POST   /v1/recover                           Recover -> Recovery; on the admin socket alone
//	GET    /v1/events[?since=&follow=&kind=&pool=]  events.Event, one after the other (text/event-stream)
//	GET    /v1/kv/{key}[?recursive=&after=&limit=]  []directory.Item: a key, or those that begin like it
//	GET    /v1/kv/{key}?watch=true[&since=]      directory.Change, one after the other (text/event-stream)
//	GET    /sd/prometheus[?port=]                []Target: every peer of the cluster, for http_sd_configs of Prometheus
//	GET    /sd/prometheus?containers=true&port=  []Target: every container of the cluster
//	GET    /v1/journal/{ip}[?at=][&all=true]     Past
//	GET    /metrics /livez /readyz /openapi.json
//
// {cidr} is a pool's CIDR as one escaped path segment, 10.50.0.0%2F24, or its
// name. {peer} is a peer's ID, the beginning of it from 8 digits on, or its
// name, if no other peer has that. Lists are sorted and never null. An unknown field or parameter is
// refused: a misspelt filter must not widen what a request frees.
//
// Writes repeat safely: the same holder gets the same address again, a pool
// that exists is left as it is, freeing what is free frees nothing, a peer that
// drains or leaves does so already, one that was met is met again, and one that is
// evicted or forgotten stays so. So an answer that is lost on its way
// needs no undoing; the client asks again.
//
// A peer that gives its space back takes as long as what is held there. The
// answer comes when that is decided, for leave after 2 seconds at most: 202 says
// that the peer goes on by itself, whether or not anybody asks. Scripts ask
// again until it is 200, or watch state in /v1/status.
//
// # Events
//
// /v1/events is a stream of server-sent events: what is kept of the past, then
// what happens, each with its id and a JSON document as data. A client that
// comes again with Last-Event-ID, or since=, goes on where it was; if what
// followed is kept no more, an event named "gap" says so. follow=false ends the
// stream with what there is; kind= takes a list with commas, pool= a CIDR. At
// most 32 clients follow one Server; one that does not read for 10 seconds is
// dropped, and no client holds up anything but itself.
//
// # Keys
//
// /v1/kv/ shows what the peers of the cluster say of themselves (package
// directory). The key is all that is left of the path. A list has 1000 keys at
// most, 5000 with limit=; the next ones come with after= the last of them, until
// there are none. A stream first says "reset", then puts all that there is, then
// "synced", then what becomes of it. A client that comes again goes on where it
// was if the last 4096 changes reach back so far, and else is told to begin
// anew, by "reset".
//
// The same for programs is openapi.json beside this file, served at
// /openapi.json, which says of each answer what is in it.
//
// # Errors
//
// Errors are [Problem] documents (RFC 9457) with a stable code: that of
// package ipam, or one of this package's own, listed at [Problem].
//
// # Limits
//
// A body has at most 64 KiB, and at most 64 requests of one Server are with
// the Backend at a time, or have an answer that is being written; others wait. Each
// has a deadline, reading the request and writing the answer have theirs, and
// connections are counted. /livez needs nothing but the process; /v1/status and
// /readyz take no place and answer within 100 ms, also while the allocator does not,
// from the last snapshot: as_of says from when it is.
//
// A long list is written in portions, each of which is made when the one before it
// is written. So each of its elements is as it was at some moment while the request
// was answered. At most 8 lists are written at a time, 2 of which read the whole
// directory. Of all answers at most 64 MiB wait for their clients to read them. A
// client has 10 seconds for each part of an answer, and 2 minutes for a list. The
// journal answers 2 questions at a time. A request that finds no room within its time
// gets 503 with Retry-After.
//
// Over TCP clients are strangers, and there may be many ([Config].Remote). There one
// address has 16 connections, 1000 requests begin a second, and work is done for one
// of them at a time, in a quarter of one processor's time: so they hold up each other,
// and not the allocator, which they ask for 500 records at a time. What only reads
// the status is told one of at most 250 ms ago, or of after the last write through
// that server.
package admin
