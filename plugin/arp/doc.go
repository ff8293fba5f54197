// Package arp asks on the wire whether something uses an IPv4 address already,
// by ARP probes (RFC 5227): requests that name no sender's address, and so
// change nobody's cache. Whatever has the address answers, firewall or not.
//
// It refuses to know what an answer means for the address.
//
// [Probe] looks for the interface of this host whose subnet has the address,
// else takes that of the default route; puts the question three times, 200 ms
// apart; and listens all the while. What it hears from one of this host's own
// interfaces is no conflict. It waits far less than the RFC wants of a host
// that configures itself, since somebody waits for a container: a device that
// sleeps, or a switch port that comes up just then, may be missed.
//
// Frames go through a packet socket of their own for each probe, bound to the
// interface, which takes the capability CAP_NET_RAW and sees nothing but ARP.
// So any number of probes may run at a time. There is no state and no
// goroutine.
//
// A [Sender] sends, for containers, announcements of their addresses, and probes whose answers are for the kernel. It hears
// nothing.
//
// What the socket brings is a stranger's: decoding takes nothing for granted.
package arp
