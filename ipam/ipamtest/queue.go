package ipamtest

import (
	"container/heap"
	"time"
)

// task is something that will happen.
type task struct {
	at  time.Duration // since the beginning, in true time
	seq uint64        // tasks of one instant happen in the order in which they were made
	run func()
}

// queue is a heap of tasks, the earliest first. The zero queue is empty.
type queue struct {
	tasks tasks
	seq   uint64
}

func (q *queue) push(at time.Duration, run func()) {
	q.seq++
	heap.Push(&q.tasks, &task{at, q.seq, run})
}

// pop removes the earliest task. There must be one.
func (q *queue) pop() *task { return heap.Pop(&q.tasks).(*task) }

type tasks []*task

func (t *tasks) Len() int      { return len(*t) }
func (t *tasks) Swap(i, j int) { (*t)[i], (*t)[j] = (*t)[j], (*t)[i] }
func (t *tasks) Push(x any)    { *t = append(*t, x.(*task)) }

func (t *tasks) Less(i, j int) bool {
	a, b := (*t)[i], (*t)[j]
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

func (t *tasks) Pop() any {
	last := len(*t) - 1
	x := (*t)[last]
	(*t)[last] = nil
	*t = (*t)[:last]
	return x
}
