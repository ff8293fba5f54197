// Package announce tells the neighbours of a container, when it starts, which MAC its address has from now on.
//
// It refuses to know which containers start, and whose addresses these are.
//
// Engines give a container another MAC each time it starts, unless it has a fixed one, while ringlet gives it the address
// that it had. Whoever has talked to it knows the old MAC, and would go on sending to that for half a minute. So an
// [Announcer] sends, for each start:
//
//   - three ARP announcements (RFC 5227, section 3), on the link where the neighbours are: the network's bridge, or the
//     parent interface of a macvlan network. At once, 0.5 s and 1.5 s later.
//   - on a bridge, where the host is a neighbour as well and does not hear itself: a question to the container, as long
//     as the kernel of the host knows another MAC. Its answer mends that.
//   - for IPv6 what corresponds to these, for engines that do not do it themselves.
//
// # What it goes by
//
// [Announcer.Granted] says which MAC an address gets: the engine sends it with its request. The request tells the pool, and
// not the network. Of networks the engine's last list tells ([Announcer.Listed]), also one that an earlier process kept: an
// engine that starts its containers with itself answers no list before it has. Where no network, or more than one link,
// comes into question, the start waits for a list that has the endpoint. A list also shows starts of which no request has
// told the MAC (RINGLET_MAC=false). What is in the first list that has a network runs already, and is not announced.
//
// # Guarantees
//
//  1. Nothing is sent for an address that a container of this host does not hold, with that MAC, at that moment: Held is
//     asked before each packet.
//  2. Nothing is sent on a link that is not the network's.
//  3. At most three announcements for each start, and none where the address had the same MAC before, as far as this process
//     knows.
//  4. At most [Rate] packets a second in the long run, whatever starts.
//  5. No method waits for anything but Run, and Listed, which waits for the disk where networks have changed.
//
// # Parts
//
// The plan is a function of what it was told and of the time, without clock, lock or I/O. The Announcer has the lock, the
// clock and the counts. [Wire] is the kernel's side: the interfaces, through netlink, and the packets, through package arp.
package announce
