package space

// Key is what an address sticks to: a hash of whatever makes its holder the
// same one when it comes back, like a container's name. An address that was
// freed is found again by the key of its last holder.
//
// Keys are compared as they are, what they were made of is not kept. Two
// different holders have the same key once in 2^64: the one then gets an
// address that the other had and gave up, which does no harm. But whoever
// concludes from a key that an address is held already by the same holder
// should look at the record.
type Key uint64

// NoKey is the key of a holder that nothing sticks to.
const NoKey Key = 0

// KeyOf returns the key made of the parts, in order, which is never [NoKey].
// Keys are written to disk, so the function is frozen by a test: FNV-1a over
// the parts, each ended by a byte that no UTF-8 text contains, then the
// finalizer of MurmurHash3, because the index uses the low bits.
func KeyOf(parts ...string) Key { return SeedOf(parts...).key() }

// Seed is a key in the making: what the first parts come to, which many keys have
// in common.
type Seed uint64

// SeedOf returns the seed of the parts.
func SeedOf(parts ...string) Seed {
	s := Seed(0xcbf29ce484222325)
	for _, part := range parts {
		s = s.with(part)
	}
	return s
}

// KeyOf returns what the function KeyOf does of the parts of the seed and this one.
func (s Seed) KeyOf(part string) Key { return s.with(part).key() }

// with returns the seed of one part more.
func (s Seed) with(part string) Seed {
	const prime = 1<<40 + 0x1b3
	for len(part) >= 8 { // a name is hashed for each container that starts, and most are longer
		s = (s ^ Seed(part[0])) * prime
		s = (s ^ Seed(part[1])) * prime
		s = (s ^ Seed(part[2])) * prime
		s = (s ^ Seed(part[3])) * prime
		s = (s ^ Seed(part[4])) * prime
		s = (s ^ Seed(part[5])) * prime
		s = (s ^ Seed(part[6])) * prime
		s = (s ^ Seed(part[7])) * prime
		part = part[8:]
	}
	for i := range len(part) {
		s = (s ^ Seed(part[i])) * prime
	}
	return (s ^ 0xff) * prime
}

// key ends a key.
func (s Seed) key() Key {
	h := uint64(s)
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	return Key(max(h, 1))
}
