package condition

import (
	"errors"
	"slices"
	"testing"
)

// An error is news when it comes, changes and goes, and not in between.
func TestNews(t *testing.T) {
	var c Condition
	var news []string
	note := func(err error) {
		text := "well"
		if err != nil {
			text = err.Error()
		}
		news = append(news, text)
	}
	for _, err := range []error{nil, errors.New("one"), errors.New("one"), errors.New("two"), nil, nil, errors.New("two")} {
		c.Set(err, note)
		if !errors.Is(c.Err(), err) {
			t.Errorf("the error is %v after %v was set", c.Err(), err)
		}
	}
	if want := []string{"one", "two", "well", "two"}; !slices.Equal(news, want) {
		t.Errorf("news %q, want %q", news, want)
	}
}
