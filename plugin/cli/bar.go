package cli

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/addr"
)

// maxBar is the widest bar, in cells: beyond it the eye compares no better.
const maxBar = 100

// part is a share of a bar. The letter tells it from the others, with colour
// or without.
type part struct {
	letter rune
	style  style
	n      uint64 // how much of it there is; also its share of the bar
	text   string // what it is, for the legend
}

// The letters that bars have in common.
const (
	letterHeld        = '#'
	letterReady       = '+'
	letterOthers      = 'o'
	letterReserved    = 'r'
	letterQuarantined = 'q'
	letterFree        = '.'
)

// poolParts divides a pool by whose its addresses are.
func poolParts(p ipam.PoolStatus) []part {
	held, inUse := p.HeldHere, "held here"
	if p.Gateway.IsValid() && held > 0 {
		inUse += " (1 gateway)"
	}
	// All states together are the pool, so what is left is others'.
	others := p.Size - min(p.Size, held+p.Mine+p.Free+p.Reserved+p.Quarantined)
	ready := "ready here"
	if p.RestingHere > 0 {
		ready += fmt.Sprintf(" (%s resting)", amount(p.RestingHere))
	}
	return []part{
		{letterHeld, green, held, inUse},
		{letterReady, blue, p.Mine, ready},
		{letterOthers, yellow, others, "of other peers"},
		{letterReserved, grey, p.Reserved, "reserved"},
		{letterQuarantined, red, p.Quarantined, "quarantined"},
		{letterFree, plain, p.Free, "free for all"},
	}
}

// bar draws the parts in their proportions, and below it says what they are.
func (v view) bar(parts []part) {
	cells := min(v.width(), maxBar) - len("[]")
	var drawn strings.Builder
	for i, n := range share(parts, cells) {
		drawn.WriteString(v.paint(parts[i].style, strings.Repeat(string(parts[i].letter), n)))
	}
	v.printf("[%s]\n", &drawn)
	v.legend(parts)
}

// drawn returns a bar of so many cells as text.
func drawn(parts []part, cells int) string {
	var b strings.Builder
	for i, n := range share(parts, cells) {
		b.WriteString(strings.Repeat(string(parts[i].letter), n))
	}
	return b.String()
}

// legend explains the parts that there are, on as many lines as it takes.
func (v view) legend(parts []part) {
	const gap = "   "
	column := 0
	for _, p := range parts {
		if p.n == 0 {
			continue
		}
		text := " " + amount(p.n) + " " + p.text
		length := 1 + displayWidth(text)
		switch {
		case column == 0:
		case column+len(gap)+length > v.width():
			v.printf("\n")
			column = 0
		default:
			v.printf(gap)
			column += len(gap)
		}
		v.printf("%s%s", v.paint(p.style, string(p.letter)), text)
		column += length
	}
	v.printf("\n")
}

// share divides cells among the parts in proportion. Whoever has anything
// gets a cell at least, while there are enough, so that a single address shows
// in a large pool.
func share(parts []part, cells int) []int {
	out := make([]int, len(parts))
	var total float64
	for _, p := range parts {
		total += float64(p.n)
	}
	left := cells
	for i, p := range parts {
		if p.n > 0 && left > 0 {
			out[i] = 1
			left--
		}
	}
	if total == 0 {
		return out
	}
	// The rest goes cell by cell to whoever lacks most; bars are short.
	for ; left > 0; left-- {
		most, lack := 0, -float64(cells)
		for i, p := range parts {
			if d := float64(p.n)/total*float64(cells) - float64(out[i]); p.n > 0 && d > lack {
				most, lack = i, d
			}
		}
		out[most]++
	}
	return out
}

// ringBar draws a pool in the order of its addresses: each cell has the letter
// of whoever owns most of its part of the pool.
func (v view) ringBar(p ipam.PoolStatus, partOf func(ipam.RangeStatus) part) {
	cells := min(v.width(), maxBar) - len("[]")
	if p.Size < uint64(cells) {
		cells = int(p.Size)
	}
	var drawn strings.Builder
	next := 0 // the first range that may reach into the cell
	for cell := range cells {
		from, to := scale(p.Size, cell, cells), scale(p.Size, cell+1, cells)
		best, most := part{letter: '?'}, uint64(0)
		for n := next; n < len(p.Holders); n++ {
			r := p.Holders[n]
			start, okStart := addr.OffsetOf(p.Pool, r.Start)
			last, okLast := addr.OffsetOf(p.Pool, r.End)
			if !okStart || !okLast {
				continue // not of this pool
			}
			if uint64(last) < from {
				next = n + 1
				continue
			}
			if uint64(start) >= to {
				break
			}
			if n := min(uint64(last), to-1) - max(uint64(start), from) + 1; n > most {
				best, most = partOf(r), n
			}
		}
		drawn.WriteString(v.paint(best.style, string(best.letter)))
	}
	v.printf("[%s]\n", &drawn)
}

// scale returns size*i/n, rounded down, for i up to n.
func scale(size uint64, i, n int) uint64 {
	if i == n {
		return size
	}
	hi, lo := bits.Mul64(size, uint64(i))
	quotient, _ := bits.Div64(hi, lo, uint64(n))
	return quotient
}
