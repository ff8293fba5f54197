//go:build marked

package contain

import "bytes"

// Mark is what a frame bears at which [Marked] panics.
const Mark = "a frame that panics"

// Marked panics at a frame that bears the mark.
func Marked(frame []byte) {
	if bytes.Contains(frame, []byte(Mark)) {
		panic(Mark)
	}
}
