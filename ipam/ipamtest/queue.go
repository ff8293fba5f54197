package ipamtest

import "time"

// task is something that will happen.
type task struct {
	at  time.Duration // since the beginning, in true time
	seq uint64        // tasks of one instant happen in the order in which they were made
	run func()
}

// queue is a heap of tasks, the earliest first. The zero queue is empty.
type queue struct {
	tasks []task
	seq   uint64
}

func (q *queue) less(i, j int) bool {
	a, b := &q.tasks[i], &q.tasks[j]
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

func (q *queue) push(at time.Duration, run func()) {
	q.seq++
	q.tasks = append(q.tasks, task{at, q.seq, run})
	i := len(q.tasks) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !q.less(i, up) {
			return
		}
		q.tasks[i], q.tasks[up] = q.tasks[up], q.tasks[i]
		i = up
	}
}

// pop removes the earliest task. There must be one.
func (q *queue) pop() task {
	first, last := q.tasks[0], len(q.tasks)-1
	q.tasks[0] = q.tasks[last]
	q.tasks[last] = task{}
	q.tasks = q.tasks[:last]
	for i := 0; ; {
		down := 2*i + 1
		if down >= last {
			return first
		}
		if down+1 < last && q.less(down+1, down) {
			down++
		}
		if !q.less(down, i) {
			return first
		}
		q.tasks[i], q.tasks[down] = q.tasks[down], q.tasks[i]
		i = down
	}
}
