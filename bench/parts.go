package main

// parts are all that can be measured, in order.
var parts = []part{
	{"P1", measurePair},
	{"P2", measureFills},
	{"P3 P4 P6 G7", measureSocket},
	{"P3 host-local", measureHostLocal},
	{"P5", measureNode},
	{"P7 G14 G15", measureRun},
	{"P8 P9", measureStart},
	{"P10 P12", measureRing},
	{"P11 G23", measureDecision},
	{"P13", measureIdle},
	{"P12", measureGrowth},
	{"P12", measureHeld},
	{"P2 P3 weave", measureWeave},
}
