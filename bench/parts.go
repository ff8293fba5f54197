package main

// parts are all that can be measured, in order.
var parts = []part{
	{"P1 P2", measureCore},
	{"P3 P4 P6", measureSocket},
	{"P5", measureNode},
	{"P8 P9", measureStart},
	{"P10 P12", measureRing},
	{"P12", measureGrowth},
}
