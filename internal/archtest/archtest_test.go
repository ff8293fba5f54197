package archtest

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ringlet/ringlet/internal/golden"
)

// A pkg is what go list tells of a package.
type pkg struct {
	ImportPath   string
	Name         string
	Dir          string
	Doc          string
	Standard     bool
	Module       *struct{ Path string }
	GoFiles      []string
	TestGoFiles  []string
	XTestGoFiles []string
	Imports      []string
	Deps         []string
	Error        *struct{ Err string }
}

// list reads all packages of the module and all they depend on, by import path. It runs go list once per test run.
var list = sync.OnceValues(func() (map[string]pkg, error) {
	cmd := exec.Command("go", "list", "-e", "-deps", "-pgo=off", "-json", ours+"...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	all := make(map[string]pkg)
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all[p.ImportPath] = p
	}
})

// packages returns what list read.
func packages(t *testing.T) map[string]pkg {
	t.Helper()
	all, err := list()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// own returns our packages in order.
func own(t *testing.T) []pkg {
	t.Helper()
	var found []pkg
	for _, p := range packages(t) {
		if strings.HasPrefix(p.ImportPath, ours) {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b pkg) int { return strings.Compare(a.ImportPath, b.ImportPath) })
	return found
}

// find returns one of our packages, which must exist since a table names it.
func find(t *testing.T, name string) (pkg, bool) {
	t.Helper()
	p, ok := packages(t)[ours+name]
	if !ok || len(p.GoFiles) == 0 {
		t.Errorf("no package %s: a table of archtest names it", name)
	}
	return p, ok
}

func short(path string) string { return strings.TrimPrefix(path, ours) }

func TestR1CoreImports(t *testing.T) {
	for name, row := range core {
		p, _ := find(t, name)
		for _, path := range p.Imports {
			inCore := strings.HasPrefix(path, ours) && slices.Contains(row.imports, short(path))
			if !inCore && !slices.Contains(coreStd, path) {
				t.Errorf("%s imports %s; it may not: %s", name, short(path), row.reason)
			}
		}
	}
	for _, p := range own(t) {
		name := short(p.ImportPath)
		if _, ok := core[name]; !ok && strings.HasPrefix(name, "ipam/") && !slices.Contains(shell, name) {
			t.Errorf("%s is in no table: it belongs to the core, or to the shell", name)
		}
	}
}

func TestR2NothingHeavyBelowTheCore(t *testing.T) {
	names := append(slices.Sorted(maps.Keys(core)), "ipam/node")
	for _, name := range names {
		p, _ := find(t, name)
		for _, path := range p.Deps {
			dep := packages(t)[path]
			_, isCore := core[name]
			switch {
			case !dep.Standard && !strings.HasPrefix(path, ours):
				t.Errorf("%s depends on %s; it needs nobody else's module to decide", name, path)
			case path == "net" || path == "net/http":
				t.Errorf("%s depends on %s; frames reach it as bytes", name, path)
			case isCore && path == "log/slog":
				t.Errorf("%s depends on log/slog; the core reports effects, the shell logs them", name)
			}
		}
	}
}

func TestR3Apart(t *testing.T) {
	for _, row := range apart {
		for _, name := range row.packages {
			p, _ := find(t, name)
			for _, other := range row.packages {
				if slices.Contains(p.Imports, ours+other) {
					t.Errorf("%s imports %s; it may not: %s", name, other, row.reason)
				}
			}
		}
	}
}

func TestR4ModulesBehindOnePackage(t *testing.T) {
	for _, row := range behind {
		for _, name := range row.only {
			find(t, name)
		}
		for _, p := range own(t) {
			for _, path := range p.Imports {
				inside := path == row.module || strings.HasPrefix(path, row.module+"/")
				if inside && !slices.Contains(row.only, short(p.ImportPath)) {
					t.Errorf("%s imports %s, which only %q may: %s", short(p.ImportPath), path, row.only, row.reason)
				}
			}
		}
	}
}

func TestR5NothingImportsThePlugin(t *testing.T) {
	under := func(path string) bool { return path == ours+"plugin" || strings.HasPrefix(path, ours+"plugin/") }
	for _, p := range own(t) {
		for _, path := range p.Imports {
			if under(path) && !under(p.ImportPath) {
				t.Errorf("%s imports %s; plugin is where all parts meet, no part knows it", short(p.ImportPath), short(path))
			}
			if _, isCore := core[short(p.ImportPath)]; isCore && path == ours+"internal/logattr" {
				t.Errorf("%s imports internal/logattr; the core does not log", short(p.ImportPath))
			}
		}
	}
}

func TestR6NoTestEquipmentInTheBinary(t *testing.T) {
	p, _ := find(t, "plugin")
	for _, row := range absent {
		if strings.HasPrefix(row.path, ours) {
			find(t, short(row.path))
		}
		if slices.Contains(p.Deps, row.path) {
			t.Errorf("the binary contains %s: %s", short(row.path), row.reason)
		}
	}
}

// A change of the list is reviewed: go test ./internal/archtest -run R7 -update.
func TestR7Modules(t *testing.T) {
	p, ok := find(t, "plugin")
	if !ok {
		return
	}
	modules := make(map[string]bool)
	for _, path := range p.Deps {
		if m := packages(t)[path].Module; m != nil {
			modules[m.Path] = true
		}
	}
	golden.Check(t, "modules.golden", []byte(strings.Join(slices.Sorted(maps.Keys(modules)), "\n")+"\n"))
}

func TestR8EveryPackageExplainsItself(t *testing.T) {
	for _, p := range own(t) {
		name := short(p.ImportPath)
		if len(p.GoFiles) == 0 {
			continue
		}
		comment, examples := read(t, p)
		var d doc.Package
		first := d.Synopsis(comment)
		rest := strings.TrimSpace(strings.TrimPrefix(strings.Join(strings.Fields(comment), " "), first))
		if first == "" || rest == "" {
			t.Errorf("%s: the package comment has less than two sentences: %q", name, comment)
		}
		if _, isCore := core[name]; isCore && !slices.ContainsFunc(examples, func(e *doc.Example) bool { return e.Output != "" }) {
			t.Errorf("%s has no example with output, the first thing a reader looks for", name)
		}
	}
}

func TestR9VirtualTime(t *testing.T) {
	users := 0
	for _, p := range own(t) {
		for _, name := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles) {
			text, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			users += strings.Count(string(text), "bubble"+".Test(")
			if strings.Contains(string(text), "synctest"+".Test(") && short(p.ImportPath) != "internal/bubble" {
				t.Errorf("%s/%s: use internal/bubble, which says why", short(p.ImportPath), name)
			}
		}
	}
	if users == 0 {
		t.Error("nobody uses internal/bubble")
	}
}

// Who reads a type of the core has to hold all of its fields in mind at once.
func TestR11NoLargeTypes(t *testing.T) {
	const most = 25
	for _, p := range own(t) {
		name := short(p.ImportPath)
		if name != "ipam" && !strings.HasPrefix(name, "ipam/") || name == "ipam/wire" {
			continue // what peers say to one another
		}
		for _, file := range p.GoFiles {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if spec, ok := n.(*ast.TypeSpec); ok {
					if fields := fieldsOf(spec.Type); fields > most {
						t.Errorf("%s.%s has %d fields, more than %d: it has more than one idea", name, spec.Name.Name, fields, most)
					}
				}
				return true
			})
		}
	}
}

func TestR12Rooms(t *testing.T) {
	for name, row := range rooms {
		p, _ := find(t, name)
		for _, path := range p.Imports {
			if s := short(path); strings.HasPrefix(path, ours) && !strings.HasPrefix(s, "internal/") && !slices.Contains(row.imports, s) {
				t.Errorf("%s imports %s; its row has %q: %s", name, s, row.imports, row.reason)
			}
		}
		for _, s := range row.imports {
			if !slices.Contains(p.Imports, ours+s) {
				t.Errorf("%s does not import %s; its row says that it may", name, s)
			}
		}
	}
}

// fieldsOf counts the fields of a struct.
func fieldsOf(typ ast.Expr) (n int) {
	if s, ok := typ.(*ast.StructType); ok {
		for _, f := range s.Fields.List {
			n += max(len(f.Names), 1)
		}
	}
	return n
}

// The modules of the repository name one toolchain, so that all builds have at least its fixes.
func TestR10OneToolchain(t *testing.T) {
	const root = "../.."
	line := regexp.MustCompile(`(?m)^toolchain (\S+)$`)
	seen := map[string][]string{}
	for _, module := range []string{".", "bench", "bench/weave", "tools"} {
		text, err := os.ReadFile(filepath.Join(root, module, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		named := "none"
		if m := line.FindSubmatch(text); m != nil {
			named = string(m[1])
		}
		seen[named] = append(seen[named], module)
	}
	if len(seen) != 1 || seen["none"] != nil {
		t.Errorf("the modules name different toolchains: %v", seen)
	}
}

// A nolint for a linter that does not run hides nothing, and nolintlint does not find it.
func TestR12DeadDirectives(t *testing.T) {
	const root = "../.."
	config, err := os.ReadFile(filepath.Join(root, ".golangci.yml"))
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(config), "\n  enable:\n")
	list, _, _ = strings.Cut(list, "\n  settings:\n")
	enabled := strings.Fields(strings.ReplaceAll(list, "- ", " ") + " errcheck govet ineffassign staticcheck unused") // the standard ones
	directive := regexp.MustCompile(`//nolint:([\w,]+)`)
	found := 0
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range directive.FindAllStringSubmatch(string(text), -1) {
			found++
			for name := range strings.SplitSeq(m[1], ",") {
				if !slices.Contains(enabled, name) {
					t.Errorf("%s: nolint names %s, which .golangci.yml does not enable", path, name)
				}
			}
		}
		return nil
	})
	if err != nil || found == 0 {
		t.Errorf("%d directives were found: %v", found, err)
	}
}

// read returns the package comment and the examples of a package.
func read(t *testing.T, p pkg) (comment string, examples []*doc.Example) {
	t.Helper()
	files := token.NewFileSet()
	parse := func(name string) *ast.File {
		f, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for _, name := range p.GoFiles {
		if f := parse(name); f.Doc != nil {
			comment += f.Doc.Text()
		}
	}
	var tests []*ast.File
	for _, name := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
		tests = append(tests, parse(name))
	}
	return comment, doc.Examples(tests...)
}
