package cli

import (
	"encoding/json"
	"fmt"
	"io"
)

// format is the value of --output.
type format string

// The formats.
const (
	formatTable format = "table"
	formatJSON  format = "json"
)

// String implements [pflag.Value].
func (f *format) String() string { return string(*f) }

// Type implements [pflag.Value].
func (f *format) Type() string { return "format" }

// Set implements [pflag.Value].
func (f *format) Set(s string) error {
	switch v := format(s); v {
	case formatTable, formatJSON:
		*f = v
		return nil
	}
	return fmt.Errorf("must be %s or %s", formatTable, formatJSON)
}

// show prints v as JSON if that is wanted, and lets text print otherwise.
func (a *app) show(v any, text func()) error {
	if a.format != formatJSON {
		text()
		return nil
	}
	return writeJSON(a.out, v)
}

func writeJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("the output could not be written: %w", err)
	}
	return nil
}
