package main

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// protocolRow is a rule of docs/protocol.md: its number, and the cells behind it.
var protocolRow = regexp.MustCompile(`(?m)^\| R(\d+) \| (.*) \|$`)

// The rules of the protocol have one numbering, in docs/protocol.md and in ARCHITECTURE.md, and the controls that they name exist.
// ARCHITECTURE.md says where the code has each rule.
func TestRulesOfTheProtocol(t *testing.T) {
	pages := manual(t)
	text, retired, ok := strings.Cut(pages["../docs/protocol.md"], "### Retired numbers\n")
	if !ok {
		t.Fatal("docs/protocol.md has no heading of retired numbers")
	}
	places := map[int]bool{}
	for _, row := range protocolRow.FindAllStringSubmatch(pages["../ARCHITECTURE.md"], -1) {
		places[number(t, row[1])] = true
	}
	controls := textOf(t, append(controlFiles, "../ipam/paxos/control_test.go")...)
	known := map[int]bool{}
	for _, row := range protocolRow.FindAllStringSubmatch(text, -1) {
		n, cells := number(t, row[1]), strings.Split(row[2], " | ")
		if known[n] {
			t.Errorf("there are two rules R%d", n)
		}
		known[n] = true
		if len(cells) != 3 {
			t.Errorf("R%d has %d cells: it needs what it says, the schedule without it, and its control", n, len(cells))
			continue
		}
		if !places[n] {
			t.Errorf("ARCHITECTURE.md does not say where the code has R%d", n)
		}
		checkControls(t, n, cells[2], controls)
	}
	for _, row := range protocolRow.FindAllStringSubmatch(retired, -1) {
		known[number(t, row[1])] = true
	}
	for n := 1; n <= len(known); n++ {
		if !known[n] {
			t.Errorf("docs/protocol.md has no rule R%d, but %d rules", n, len(known))
		}
	}
	for n := range places {
		if !known[n] {
			t.Errorf("ARCHITECTURE.md has a rule R%d that docs/protocol.md has not", n)
		}
	}
	for _, m := range regexp.MustCompile(`R\d+`).FindAllString(text, -1) {
		if !known[number(t, m[1:])] {
			t.Errorf("docs/protocol.md cites %s, and has no such rule", m)
		}
	}
}

// quoted is the name of a control.
var quoted = regexp.MustCompile(`"[^"]+"`)

// checkControls asserts that the controls of a rule exist.
func checkControls(t *testing.T, rule int, cell, sources string) {
	t.Helper()
	names := quoted.FindAllString(cell, -1)
	if len(names) == 0 {
		t.Errorf("R%d names no control", rule)
	}
	for _, name := range names {
		if !strings.Contains(sources, "{"+name+",") {
			t.Errorf("R%d: there is no control %s", rule, name)
		}
	}
}

// controlFiles have the controls of the protocol's rules.
var controlFiles = []string{"../ipam/sim_rules_test.go", "../ipam/rule_schedules_test.go", "../ipam/rule_requests_test.go", "../ipam/rule_members_test.go"}

// Each control is named in a table of docs/protocol.md, and each rule that can be taken away has one. A row that takes nothing away
// shows what holds with all rules, and is no control.
func TestControlsOfTheProtocol(t *testing.T) {
	page, controls := manual(t)["../docs/protocol.md"], textOf(t, controlFiles...)
	named := map[string]bool{}
	for _, row := range protocolRow.FindAllStringSubmatch(page, -1) {
		cells := strings.Split(row[2], " | ")
		for _, name := range quoted.FindAllString(cells[len(cells)-1], -1) {
			named[name] = true
		}
	}
	rows := regexp.MustCompile(`(?m)^\t\t\{("[^"]+"), (.*)$`).FindAllStringSubmatch(controls, -1)
	if len(rows) < 50 {
		t.Fatalf("%d controls", len(rows))
	}
	for _, row := range rows {
		if !named[row[1]] && row[2] != "0, false}," {
			t.Errorf("docs/protocol.md names no rule that the control %s is of", row[1])
		}
	}
	for _, rule := range regexp.MustCompile(`(?m)^\t(Rule\w+) += rule\.`).FindAllStringSubmatch(textOf(t, "../ipam/export_test.go"), -1) {
		if !regexp.MustCompile(`\bipam\.` + rule[1] + `\b`).MatchString(controls) {
			t.Errorf("no control takes %s away", rule[1])
		}
	}
}

// textOf returns the text of files, one behind the other.
func textOf(t *testing.T, files ...string) string {
	t.Helper()
	var all strings.Builder
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(source)
	}
	return all.String()
}

func number(t *testing.T, digits string) int {
	t.Helper()
	n, err := strconv.Atoi(digits)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
