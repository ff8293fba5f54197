// Package bootcheck finds out whether the database of a peer is current: after each start of the process, and when its
// host was suspended or its process frozen.
//
// The database may be a copy, or older than what the others know. They may have evicted this peer meanwhile, and given
// up its space. So a [Check] asks the others, and counts their answers (R11 to R16). Until it ends, the peer neither
// votes nor hands out. Silence is no answer: nothing tells a process for how long its host was off. A [Watch] tells a
// freeze from the steps that come late.
//
// The package refuses to know what an answer decides. It sends no question itself and reads no vote. The caller says
// whether this peer has accepted a change of the roster that it does not know to be decided.
package bootcheck
