// Prints the definitions of Go files as go/parser names them: path, first line, name (line 0: it refuses the file).
//
//	go run definitions.go < PATHS
package main

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
)

func main() {
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		path, set := input.Text(), token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			fmt.Printf("%s\t0\t\n", path)
			continue
		}
		print := func(node ast.Node, names ...*ast.Ident) {
			for _, name := range names {
				fmt.Printf("%s\t%d\t%s\n", path, set.Position(node.Pos()).Line, name.Name)
			}
		}
		top := map[ast.Spec]bool{}
		for _, declared := range file.Decls {
			if general, is := declared.(*ast.GenDecl); is {
				for _, spec := range general.Specs {
					top[spec] = true
				}
			}
		}
		ast.Inspect(file, func(node ast.Node) bool {
			switch found := node.(type) {
			case *ast.FuncDecl:
				fmt.Printf("%s\t%d\t%s\n", path, set.Position(found.Type.Pos()).Line, found.Name.Name)
			case *ast.TypeSpec:
				print(found, found.Name)
			case *ast.StructType:
				for _, field := range found.Fields.List {
					for _, name := range field.Names {
						print(field.Names[0], name)
					}
				}
			case *ast.InterfaceType:
				for _, method := range found.Methods.List {
					print(method.Type, method.Names...)
				}
			case *ast.ValueSpec:
				if top[found] {
					print(found.Names[0], found.Names...)
				}
			}
			return true
		})
	}
}
