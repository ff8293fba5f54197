package main

// noRows are goals that this program does not measure yet.
const noRows = "P7 (docker run and network connect), P11 (a command decided by three voters) and P13 (an idle peer of a hundred), " +
	"and of the peers Weave's allocator and CNI's host-local"

// parts are all that can be measured, in order.
var parts = []part{
	{"P1", measurePair},
	{"P2", measureFills},
	{"P3 P4 P6", measureSocket},
	{"P5", measureNode},
	{"P8 P9", measureStart},
	{"P10 P12", measureRing},
	{"P12", measureGrowth},
}
