package page_test

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// What stands behind the # of the address may be anything: a link that a mail
// program has cut, or one that somebody has typed.
func TestAddressWithAMalformedFragment(t *testing.T) {
	b := open(t)
	b.do("opening the page", chromedp.Navigate(b.serve(sceneOf(3))+"/#10.50.0.0%2"))
	b.until(`document.querySelector("#verdict").textContent !== ""`)
}
