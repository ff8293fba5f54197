package main

// parts are all that can be measured, in order.
var parts = []part{
	{"P1 G1 G3", measurePair},
	{"P2 G2 G4", measureFills},
	{"P3 P4 P6 G5 G6 G7 G8 G9 G10 G11 G12", measureSocket},
	{"P3 host-local", measureHostLocal},
	{"P5", measureNode},
	{"P7 G14 G15", measureRun},
	{"P8 P9 G16 G17 G18", measureStart},
	{"P10 P12 G20 G21 G22", measureRing},
	{"P11 G23", measureDecision},
	{"P13 G19", measureIdle},
	{"P12 G22", measureGrowth},
	{"P12", measureHeld},
	{"P2 P3 weave", measureWeave},
}

// slow are parts that take too long to be measured unless they are asked for by name.
var slow = []part{
	{"G13", measureHalf},
}
