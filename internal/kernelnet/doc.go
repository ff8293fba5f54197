// Package kernelnet reads what the kernel has of the network: the interfaces, their addresses, the routes of the main table, both of
// IPv4 and IPv6, and when addresses change. Each list is one question to the kernel, however many interfaces there are. What is read
// is that of the calling thread's network namespace.
//
// It refuses to know what is read for: which address others reach, which subnet is free, and whom an address is kept from.
package kernelnet
