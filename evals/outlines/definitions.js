#!/usr/bin/env node
// Prints the definitions of files as a parser of their language names them: path, first line, name.
//
//     NODE_PATH=DIR/node_modules node definitions.js typescript|php|ruby < PATHS
//
// The parsers are the packages `typescript`, `php-parser` and `@ruby/prism`. Nothing of a file is run.
'use strict'
const fs = require('fs')
const path = require('path')
const modules = process.env.NODE_PATH

function print(file, line, name) { process.stdout.write(`${file}\t${line}\t${name}\n`) }

function typescript() {
  const ts = require('typescript')
  const { isSourceFile, isModuleBlock, isTypeLiteralNode, isVariableStatement } = ts
  const defines = [
    'isFunctionDeclaration', 'isClassDeclaration', 'isInterfaceDeclaration', 'isTypeAliasDeclaration', 'isEnumDeclaration', 'isEnumMember',
    'isModuleDeclaration', 'isMethodDeclaration', 'isConstructorDeclaration', 'isGetAccessor', 'isSetAccessor', 'isPropertyDeclaration',
    'isMethodSignature', 'isPropertySignature',
  ].map(name => ts[name])
  return (file, text) => {
    const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true)
    if (source.parseDiagnostics.length) return false
    const at = (node, name) => {
      if (ts.isObjectBindingPattern(name) || ts.isArrayBindingPattern(name)) return name.elements.forEach(one => one.name && at(node, one.name))
      print(file, source.getLineAndCharacterOfPosition(node.getStart(source)).line + 1, name.text ?? name.getText(source))
    }
    const visit = node => {
      if (isVariableStatement(node) && (isSourceFile(node.parent) || isModuleBlock(node.parent)))
        for (const one of node.declarationList.declarations.filter(one => one.initializer?.expression?.text !== 'require')) at(node.declarationList.declarations.length > 1 ? one : node, one.name)
      else if (ts.isConstructorDeclaration(node)) at(node, { text: 'constructor' })
      else if (defines.some(is => is(node)) && node.name && !isTypeLiteralNode(node.parent)) at(node, node.name)
      ts.forEachChild(node, visit)
    }
    visit(source)
    return true
  }
}

function php() {
  const { Engine } = require('php-parser')
  const kinds = new Set([
    'class', 'interface', 'trait', 'enum', 'enumcase', 'method', 'function', 'constant', 'property', 'classconstant', 'namespace',
  ])
  return (file, text) => {
    let tree
    try { tree = new Engine({ ast: { withPositions: true }, parser: { version: '8.3' } }).parseCode(text, file) } catch { return false }
    const visit = (node, inList) => {
      if (Array.isArray(node)) return node.forEach(one => visit(one, inList))
      if (!node || typeof node !== 'object') return
      const name = node.name && (node.name.name ?? node.name)
      const isPromoted = node.kind === 'parameter' && node.flags
      if ((kinds.has(node.kind) && name && !(node.kind === 'namespace' && !node.withBrackets)) || isPromoted) {
        const group = node.attrGroups?.[0]
        print(file, Math.min(node.loc.start.line, group ? group.loc.start.line : Infinity, inList || Infinity), name)
      }
      const list = /statement$|^constantstatement$/.test(node.kind) && (node.properties || node.constants)
      for (const [key, child] of Object.entries(node)) if (key !== 'loc') visit(child, list && list.length === 1 ? node.loc.start.line : 0)
    }
    visit(tree.children, 0)
    return true
  }
}

async function ruby() {
  // The package lists no path of its compiled parser, which its own loader asks for.
  const { loadPrism } = await import('file://' + path.join(modules, '@ruby/prism/src/index.js'))
  const parse = await loadPrism()
  const kinds = /^(Def|Class|Module|Constant(Path)?((Or)?Write|Target)|AliasMethod)Node$/
  return (file, text) => {
    const result = parse(text)
    if (result.errors.length) return false
    const line = offset => Buffer.from(text).subarray(0, offset).toString('latin1').split('\n').length
    const visit = (node, isLocal, first) => {
      const kind = node.constructor.name
      const named = node.constantPath || node.newName || node.target || node
      const isConstant = /Write|Target/.test(kind)
      if (kinds.test(kind) && !(isConstant && isLocal)) print(file, line((first ?? node).location.startOffset), named.name ?? named.unescaped?.value)
      const inner = kind === 'DefNode' || (isLocal && !/^(Class|Module)Node$/.test(kind))
      for (const child of node.compactChildNodes()) visit(child, inner, kind === 'MultiWriteNode' ? node : null)
    }
    visit(result.value, false)
    return true
  }
}

async function main() {
  const read = await { typescript, php, ruby }[process.argv[2]]()
  for (const file of fs.readFileSync(0, 'utf8').split('\n').filter(Boolean))
    if (!read(file, fs.readFileSync(file, 'utf8'))) print(file, 0, '')
}
main()
