// Prints what each identifier of the Go files below a folder means, as the type checker of Go says:
// path, line and column of the use, and of the definition. Packages that are not there are empty; nothing is run.
package main

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

type loader struct {
	root, module string
	set          *token.FileSet
	known        map[string]*types.Package
	std          types.Importer
	out          *bufio.Writer
}

func (l *loader) Import(path string) (*types.Package, error) {
	if found, is := l.known[path]; is {
		return found, nil
	}
	if path == l.module || strings.HasPrefix(path, l.module+"/") {
		l.check(filepath.Join(l.root, strings.TrimPrefix(path, l.module)), path, false)
		return l.known[path], nil
	}
	if !strings.Contains(strings.Split(path, "/")[0], ".") {
		if found, err := l.std.Import(path); err == nil {
			l.known[path] = found
			return found, nil
		}
	}
	parts := strings.Split(path, "/")
	empty := types.NewPackage(path, parts[len(parts)-1])
	empty.MarkComplete()
	l.known[path] = empty
	return empty, nil
}

// check type-checks a folder: its package, and with `print` its tests as well.
func (l *loader) check(folder, path string, print bool) {
	parsed, _ := parser.ParseDir(l.set, folder, nil, parser.SkipObjectResolution)
	var names []string
	for name := range parsed {
		names = append(names, name)
	}
	sort.Strings(names)
	own := ""
	for _, name := range names {
		if !strings.HasSuffix(name, "_test") {
			own = name
		}
	}
	for _, name := range names {
		var files []*ast.File
		for file, tree := range parsed[name].Files {
			if print || !strings.HasSuffix(file, "_test.go") {
				files = append(files, tree)
			}
		}
		if len(files) == 0 || (!print && name != own) {
			continue
		}
		info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}}
		config := types.Config{Importer: l, Error: func(error) {}, FakeImportC: true}
		checked, _ := config.Check(path, l.set, files, info)
		if name == own && !print {
			l.known[path] = checked
		}
		for ident, object := range info.Uses {
			if print && object.Pos().IsValid() {
				l.print(ident, object)
			}
		}
	}
	if l.known[path] == nil {
		l.known[path] = types.NewPackage(path, filepath.Base(path))
	}
}

func (l *loader) print(ident *ast.Ident, object types.Object) {
	if function, is := object.(*types.Func); is {
		object = function.Origin()
	}
	at, to := l.set.Position(ident.Pos()), l.set.Position(object.Pos())
	from, _ := filepath.Rel(l.root, at.Filename)
	target, err := filepath.Rel(l.root, to.Filename)
	if err == nil && !strings.HasPrefix(target, "..") {
		fmt.Fprintf(l.out, "%s\t%d\t%d\t%s\t%d\t%d\n", from, at.Line, at.Column, target, to.Line, to.Column)
	} else {
		fmt.Fprintf(l.out, "%s\t%d\t%d\t\t0\t0\n", from, at.Line, at.Column)
	}
}

func main() {
	set := token.NewFileSet()
	l := &loader{os.Args[1], os.Args[2], set, map[string]*types.Package{}, importer.ForCompiler(set, "source", nil), bufio.NewWriter(os.Stdout)}
	defer l.out.Flush()
	filepath.WalkDir(l.root, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.IsDir() && !strings.HasPrefix(entry.Name(), ".") {
			rest, _ := filepath.Rel(l.root, path)
			l.check(path, strings.TrimSuffix(l.module+"/"+filepath.ToSlash(rest), "/."), true)
		}
		return nil
	})
}
