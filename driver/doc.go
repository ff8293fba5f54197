// Package driver speaks Docker's remote IPAM protocol, HTTP and JSON on a unix
// socket, and turns it into requests to a [Backend].
//
// It knows how engines from 20.10 on ask, what they leave out and what they
// make of an answer. It does not know how an address is chosen, what is on
// disk, or that there are other peers.
//
// # The calls
//
//	GetCapabilities          at the engine's start, or this plugin's; the only greeting there is
//	GetDefaultAddressSpaces  before networks are made
//	RequestPool              a network is made, or the engine started and has it
//	RequestAddress           its gateway, its auxiliary addresses, a container that starts
//	ReleaseAddress           a container that stopped, the network's addresses
//	ReleasePool              the network is removed
//
// All of them repeat safely, and engines rely on that: they replay pools and
// addresses when they start, release twice, and release what was never
// requested. So releases always succeed towards the engine, which could do
// nothing about a failure but write it down. What a backend could not release
// is logged here, and mended by looking at the engine's containers
// ([Backend.Recheck]).
//
// # Errors
//
// An answer has status 200 whatever became of the request, since the engine
// takes any other for a broken plugin; a failure is {"Error": sentence}, which
// a user sees as "remote: sentence" and nothing else. The file errors.go alone
// makes these sentences. Those of the backend are passed on when they are an
// [ipam.Error]; any other error is for the log, and the user gets the
// request's ID to find it there.
//
// # Answers that do not arrive
//
// An engine that gave up, or crashed, never releases what it was being
// granted. The request's context ends with its connection, so the backend can
// stop; what was granted nevertheless, and could not be written to the
// connection, is withdrawn. What remains is an answer that was written and
// never read, which only the engine's containers can tell.
//
// The reverse happens too: when a connection breaks before an answer, engines
// repeat the request without its body. Nobody can know what was asked, so that
// is answered with a sentence, and the engine's containers are looked at. To
// cause no such break, connections have no idle and no read timeout, and a
// panic is answered like any other failure.
//
// # What is built on
//
// Activation, the socket's server and the types of most messages are those of
// go-plugins-helpers: [Driver.Serve] is sdk.Handler.Serve. Its http.Server has
// no timeouts, just as engines need it. What it lacks is added around it: the
// capability to have requests replayed, contexts and deadlines, a limit on
// bodies, recovery from panics, errors in the field that engines read, and a
// shutdown, for which the server is found by http.ServerContextKey since
// sdk.Handler keeps it to itself.
//
// # Concurrency and tests
//
// A Driver is safe for concurrent use. Engines serialise the requests of one
// network and send those of others in parallel. The tests replay recorded
// requests of several engine versions, one golden file per request and answer,
// over real sockets; the backend they record with is in the tests alone.
package driver
