package main

import (
	"fmt"
	"os"
	"runtime"

	"github.com/ringlet/ringlet/internal/heap"
)

// measureHeap measures the heap that a restored peer takes with all that is held in one network, and with each of many
// having a part of it: P9 and G18.
func (b *bench) measureHeap(inOne, inMany string, held, networks int) error {
	one, err := beyond(inOne, held)
	if err != nil {
		return err
	}
	many, err := beyond(inMany, held)
	if err != nil {
		return err
	}
	b.add(row{
		goal: "P9", what: fmt.Sprintf("heap for each of %d held addresses beyond the %d bytes of its holder's name and ID", held, textOf), limit: 64, unit: " B",
		got: spread{one, one, one},
	})
	over := func(where string, took float64, each int) {
		packed := heapOfPacked(held, each) / float64(held)
		ratio := took / packed
		b.add(row{
			goal: "G18", what: "the same, " + where + ", against bitmaps, sorted offsets and records of 16 bytes in arrays", limit: 1.5,
			got: spread{ratio, ratio, ratio}, note: fmt.Sprintf("%s B against %s B", number(took), number(packed)),
		})
	}
	over("in a row in one network", one, rangeSize)
	over(fmt.Sprintf("in %d networks", networks), many, held/networks)
	if b.short {
		return nil
	}
	const million = 1_000_000
	dir, err := b.sub("million")
	if err != nil {
		return err
	}
	if err := makeHeld(dir, million, network8); err != nil {
		return err
	}
	all, err := heapOf(dir)
	if err != nil {
		return err
	}
	all /= 1e6
	b.add(row{goal: "P9", what: "heap with a million held", limit: 150, unit: " MB", got: spread{all, all, all}})
	return os.RemoveAll(dir)
}

// beyond returns the heap that each held address takes in a peer with the database in dir, beyond its holder's texts.
func beyond(dir string, held int) (float64, error) {
	took, err := heapOf(dir)
	return took/float64(held) - float64(textOf), err
}

// heapOf returns the heap that a peer with the database in dir takes.
func heapOf(dir string) (float64, error) {
	before := heap.InUse()
	n, store, err := openNode(dir)
	if err != nil {
		return 0, err
	}
	defer store.Close()
	after := heap.InUse()
	runtime.KeepAlive(n)
	return float64(after - before), nil
}
