package console

import (
	"reflect"
	"testing"
)

func TestBlocks(t *testing.T) {
	page := "<!-- run: one, two -->\n```console\nhost-a# ringlet status   # remark\nfine\n# echo '# x'\n```\n\n1. x\n\n" +
		"   <!-- example: why -->\n   ```console\n   $ sudo ringlet ip ls && ringlet who 1\n   ```\n```yaml\na: b\n```\n```console\n# plain\n```\n"
	want := []Block{
		{"run", "one, two", []Line{{"host-a", "ringlet status"}, {"", "echo '# x'"}}, []string{"fine"}},
		{"example", "why", []Line{{"", "sudo ringlet ip ls && ringlet who 1"}}, nil},
		{"", "", []Line{{"", "plain"}}, nil},
	}
	if got := Blocks(page); !reflect.DeepEqual(got, want) {
		t.Errorf("blocks are\n%+v, want\n%+v", got, want)
	}
}
