#!/usr/bin/env node
// Prints what each identifier of the JavaScript and TypeScript files below a folder means, as the language service of
// TypeScript says: path, line and column of the use, and of the definition (an empty path: outside of the folder).
//
//     NODE_PATH=folder/node_modules node uses.js ROOT
//
// All files form one program. `paths` of the tsconfig files count, and the packages of a workspace are linked as an install
// would do it, with their sources in the place of what is built. A name in an export list, or one that is assigned to
// `exports`, is followed to what it stands for. Nothing of the repository is run.
'use strict'
const fs = require('fs')
const path = require('path')
const ts = require('typescript')

const root = fs.realpathSync(process.argv[2])
const CODE = /\.(d\.ts|tsx?|jsx?|[mc][jt]s)$/

function listFiles(folder, found) {
  for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
    const file = path.join(folder, entry.name)
    if (entry.isDirectory() && entry.name !== 'node_modules' && entry.name !== '.git') listFiles(file, found)
    else if (entry.isFile()) found.push(file)
  }
  return found
}

const listed = listFiles(root, [])
const files = listed.filter(file => CODE.test(file) && fs.statSync(file).size < 1e6)

// Returns the sources of what a package names as its main files: `lib/node/main.js` is built from `src/node/main.ts`.
function entries(described, folder) {
  const named = ['source', 'types', 'typings', 'module', 'main'].map(key => described[key]).filter(one => typeof one === 'string')
  return named.flatMap(one => {
    const parts = path.normalize(one).replace(/(\.d)?\.[mc]?[jt]s$/, '').split('/')
    return [path.join(folder, 'src', ...parts.slice(1)), path.join(folder, 'src', ...parts.slice(2)), path.join(folder, ...parts)]
  })
}

function readPaths() {
  const paths = {}
  const add = (name, targets) => { paths[name] = [...(paths[name] || []), ...targets] }
  for (const file of listed) {
    const folder = path.dirname(file)
    if (/^tsconfig.*\.json$/.test(path.basename(file))) {
      const options = (ts.readConfigFile(file, ts.sys.readFile).config || {}).compilerOptions || {}
      const base = path.resolve(folder, options.baseUrl || '.')
      for (const [name, targets] of Object.entries(options.paths || {})) add(name, targets.map(one => path.resolve(base, one)))
    }
    if (path.basename(file) === 'package.json') {
      let described
      try { described = JSON.parse(fs.readFileSync(file, 'utf8')) } catch { continue }
      const name = described.name
      if (!name) continue
      add(name, [...entries(described, folder), path.join(folder, 'src/index'), path.join(folder, 'src/main'), folder])
      add(name + '/*', [path.join(folder, 'src/*'), path.join(folder, '*')])
    }
  }
  return paths
}

const options = {
  allowJs: true, target: ts.ScriptTarget.ESNext, module: ts.ModuleKind.ESNext, jsx: ts.JsxEmit.Preserve,
  moduleResolution: ts.ModuleResolutionKind.Bundler, esModuleInterop: true, experimentalDecorators: true,
  resolveJsonModule: true, strict: true, paths: readPaths(), baseUrl: root, types: [], maxNodeModuleJsDepth: 0,
}
const host = {
  getScriptFileNames: () => files, getScriptVersion: () => '1', getCurrentDirectory: () => root,
  getScriptSnapshot: file => fs.existsSync(file) ? ts.ScriptSnapshot.fromString(fs.readFileSync(file, 'utf8')) : undefined,
  getCompilationSettings: () => options, getDefaultLibFileName: given => ts.getDefaultLibFilePath(given),
  fileExists: ts.sys.fileExists, readFile: ts.sys.readFile, readDirectory: ts.sys.readDirectory,
  directoryExists: ts.sys.directoryExists, getDirectories: ts.sys.getDirectories,
}
const service = ts.createLanguageService(host)
const program = service.getProgram()

function nodeAt(file, start) {
  let found = program.getSourceFile(file)
  for (;;) {
    const inner = found && ts.forEachChild(found, child => child.getStart() <= start && start < child.getEnd() ? child : undefined)
    if (!inner) return found
    found = inner
  }
}

const isExports = node => /^(module\.)?exports$/.test(node.getText())

// Returns where to ask again, if a definition only hands on another one.
function handedOn(node) {
  const outer = node && node.parent
  if (!outer) return undefined
  if (ts.isShorthandPropertyAssignment(outer) || ts.isExportSpecifier(outer)) return node
  if (ts.isPropertyAssignment(outer) && ts.isIdentifier(outer.initializer) && ts.isObjectLiteralExpression(outer.parent) &&
      ts.isBinaryExpression(outer.parent.parent) && isExports(outer.parent.parent.left)) return outer.initializer
  const assigned = ts.isPropertyAccessExpression(outer) ? outer.parent : undefined
  if (!assigned || !ts.isBinaryExpression(assigned) || !isExports(outer.expression)) return undefined
  let right = assigned.right
  while (ts.isBinaryExpression(right) && right.operatorToken.kind === ts.SyntaxKind.EqualsToken) right = right.right
  return ts.isIdentifier(right) ? right : undefined
}

// Returns the names of the declarations at a place: those that a function is assigned to, and all its overloads.
function namesAt(file, start) {
  let node = nodeAt(file, start)
  if (node && ts.isIdentifier(node) && node.parent.name === node) node = node.parent
  while (node && !ts.isFunctionLike(node) && node.parent && node.parent.getStart() === start) node = node.parent
  if (!node || !(ts.isFunctionLike(node) || ts.isClassExpression(node))) return [[file, start]]
  const names = node.name ? [node.name] : []
  if (node.symbol) names.push(...node.symbol.declarations.filter(one => ts.isFunctionLike(one) && one.name).map(one => one.name))
  if (ts.isFunctionExpression(node) || ts.isArrowFunction(node) || ts.isClassExpression(node)) {
    for (let at = node, outer = node.parent; outer; at = outer, outer = outer.parent) {
      if (ts.isBinaryExpression(outer) && outer.right === at) names.push(outer.left.name || outer.left)
      else if (outer.initializer === at && outer.name) names.push(outer.name)
      else if (!ts.isParenthesizedExpression(outer)) break
    }
  }
  const places = names.map(one => [one.getSourceFile().fileName, one.getStart()])
  return places.length ? places : [[file, start]]
}

function define(file, start, depth) {
  const found = []
  for (const one of service.getDefinitionAtPosition(file, start) || []) {
    const named = nodeAt(one.fileName, one.textSpan.start)
    // The import itself: its module was not found.
    if (named && named.parent && (ts.isImportSpecifier(named.parent) || ts.isImportClause(named.parent) || ts.isNamespaceImport(named.parent))) continue
    const again = depth < 6 && handedOn(nodeAt(one.fileName, one.textSpan.start))
    const isSame = again && again.getSourceFile().fileName === file && again.getStart() === start
    const inner = again && !isSame ? define(again.getSourceFile().fileName, again.getStart(), depth + 1) : []
    found.push(...(inner.length ? inner : namesAt(one.fileName, one.textSpan.start)))
  }
  return found
}

// A declaration is not a use of what is merged with it, or of what it overrides.
function isOwnName(node) {
  const outer = node.parent
  return outer.name === node && ts.isDeclaration(outer) && !ts.isPropertyAccessExpression(outer) && !ts.isBindingElement(outer) &&
    !ts.isImportSpecifier(outer) && !ts.isExportSpecifier(outer) && !ts.isShorthandPropertyAssignment(outer) &&
    !ts.isImportClause(outer) && !ts.isNamespaceImport(outer) && !ts.isImportEqualsDeclaration(outer) &&
    !ts.isPropertyAssignment(outer) && !ts.isJsxAttribute(outer) && !ts.isObjectLiteralExpression(outer.parent) &&
    !(ts.isVariableDeclaration(outer) && outer.initializer && /^require\(/.test(outer.initializer.getText()))
}

function place(file, start) {
  const source = program.getSourceFile(file)
  const at = source.getLineAndCharacterOfPosition(start)
  const before = source.text.slice(start - at.character, start)
  return [at.line + 1, [...before].length + 1]
}

const out = []
for (const file of files) {
  const visit = node => {
    if (ts.isIdentifier(node) || ts.isPrivateIdentifier(node)) {
      const start = node.getStart()
      const [row, column] = place(file, start)
      const seen = new Set()
      for (const [target, offset] of isOwnName(node) ? [[file, start]] : define(file, start, 0)) {
        const inside = target.startsWith(root + path.sep)
        const [line, to] = inside ? place(target, offset) : [0, 0]
        const text = [path.relative(root, file), row, column, inside ? path.relative(root, target) : '', line, to].join('\t')
        if (!seen.has(text)) out.push(text)
        seen.add(text)
      }
    }
    ts.forEachChild(node, visit)
  }
  const source = program.getSourceFile(file)
  if (source) visit(source)
}
fs.writeFileSync(1, out.join('\n') + '\n')
