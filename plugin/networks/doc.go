// Package networks knows the Docker networks of this host by the lists of its engine: their names ([Names]), which of them are LANs
// ([LANs]), which have no router ([Routers]), on which no container starts ([NoMAC]), and for which of them a pool was made in vain
// ([Refused]).
//
// It refuses to know how the engine is asked, who has which address, and other hosts.
package networks
