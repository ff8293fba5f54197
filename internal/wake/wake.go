// Package wake wakes a goroutine that waits, once for any number of reasons.
//
// It refuses to know who waits, and for what.
package wake

// Up wakes who receives from a channel that has room for one. It does not block: one that was woken already, and has not come yet,
// will see all that there is.
func Up(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
