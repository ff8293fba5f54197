package rule_test

import (
	"fmt"

	"github.com/ringlet/ringlet/ipam/rule"
)

// A test takes rules away. Each place in the code asks for its own.
func ExampleSet() {
	without := rule.List | rule.Lists
	fmt.Println(without.Has(rule.List), without.Has(rule.Aside), rule.Set(0).Has(rule.List))
	// Output: true false false
}
