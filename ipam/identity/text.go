package identity

import (
	"fmt"
	"slices"
	"strings"
)

// MaxText is the longest text of a label set, in bytes.
const MaxText = 1024

// plain are the bytes that stand for themselves in a text, beside letters and digits.
const plain = "-._:@+,~"

// Text returns a label set as one line: name=value for each label, in order of the names, with ; between them. Each byte
// that is no letter, no digit and none of - . _ : @ + , ~ is written as % and two hexadecimal digits, so that the text fits
// into a key. Equal sets have equal texts. It is empty for a set without labels.
func Text(labels map[string]string) string {
	names := make([]string, 0, len(labels))
	for name := range labels {
		names = append(names, name)
	}
	slices.Sort(names)
	var b strings.Builder
	for i, name := range names {
		if i > 0 {
			b.WriteByte(';')
		}
		escape(&b, name)
		b.WriteByte('=')
		escape(&b, labels[name])
	}
	return b.String()
}

func isPlain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte(plain, c) >= 0
}

func escape(b *strings.Builder, s string) {
	for i := range len(s) {
		if isPlain(s[i]) {
			b.WriteByte(s[i])
		} else {
			fmt.Fprintf(b, "%%%02X", s[i])
		}
	}
}

// Labels returns the labels of a text; false if [Text] makes no such text of any set, or if it is empty or longer than
// [MaxText].
func Labels(text string) (map[string]string, bool) {
	if text == "" || len(text) > MaxText {
		return nil, false
	}
	labels := map[string]string{}
	last, first := "", true
	for part := range strings.SplitSeq(text, ";") {
		name, value, ok := strings.Cut(part, "=")
		name, plainName := unescape(name)
		value, plainValue := unescape(value)
		if !ok || !plainName || !plainValue || !first && name <= last {
			return nil, false
		}
		labels[name] = value
		last, first = name, false
	}
	return labels, true
}

// unescape undoes escape; false if that wrote no such thing.
func unescape(s string) (string, bool) {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if isPlain(s[i]) {
			b.WriteByte(s[i])
			continue
		}
		if s[i] != '%' || i+2 >= len(s) {
			return "", false
		}
		high, low := strings.IndexByte(digits, s[i+1]), strings.IndexByte(digits, s[i+2])
		if high < 0 || low < 0 || isPlain(byte(high<<4|low)) {
			return "", false
		}
		b.WriteByte(byte(high<<4 | low))
		i += 2
	}
	return b.String(), true
}
