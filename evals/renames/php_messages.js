// Prints what intelephense says about the PHP files below a folder: node php_messages.js TOOLS ROOT
const { spawn } = require('child_process'), fs = require('fs'), path = require('path');
const [tools, root] = process.argv.slice(2);
const server = spawn('node', [path.join(tools, 'node_modules/intelephense/lib/intelephense.js'), '--stdio'], { cwd: root });
let buffer = Buffer.alloc(0), number = 0;
const waiting = new Map(), found = new Map(), files = [];
const send = (message) => {
  const body = JSON.stringify({ jsonrpc: '2.0', ...message });
  server.stdin.write(`Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
};
const ask = (method, params) => new Promise((done) => { waiting.set(++number, done); send({ id: number, method, params }); });
let indexed, ended = new Promise((done) => { indexed = done; });
server.stdout.on('data', (data) => {
  buffer = Buffer.concat([buffer, data]);
  for (;;) {
    const at = buffer.indexOf('\r\n\r\n');
    if (at < 0) return;
    const length = Number(/Content-Length: (\d+)/.exec(buffer.toString('utf8', 0, at))[1]);
    if (buffer.length < at + 4 + length) return;
    const message = JSON.parse(buffer.toString('utf8', at + 4, at + 4 + length));
    buffer = buffer.subarray(at + 4 + length);
    if (message.method === 'textDocument/publishDiagnostics') found.set(message.params.uri, message.params.diagnostics);
    else if (message.method === 'indexingEnded') indexed();
    else if (message.method && message.id !== undefined) send({ id: message.id, result: message.method === 'workspace/configuration' ? message.params.items.map(() => ({ diagnostics: { enable: true } })) : null });
    else if (waiting.has(message.id)) { waiting.get(message.id)(message.result); waiting.delete(message.id); }
  }
});
const walk = (folder) => { for (const one of fs.readdirSync(folder, { withFileTypes: true })) {
  const full = path.join(folder, one.name);
  if (one.isDirectory()) walk(full); else if (one.name.endsWith('.php')) files.push(full);
} };
const wait = (ms) => new Promise((done) => setTimeout(done, ms));
(async () => {
  walk(root);
  const uri = `file://${root}`;
  await ask('initialize', { processId: process.pid, rootUri: uri, workspaceFolders: [{ uri, name: 'w' }], capabilities: { textDocument: { publishDiagnostics: {} } }, initializationOptions: { storagePath: fs.mkdtempSync('/tmp/intelephense-'), clearCache: true } });
  send({ method: 'initialized', params: {} });
  await Promise.race([ended, wait(120000)]);
  for (const file of files) send({ method: 'textDocument/didOpen', params: { textDocument: { uri: `file://${file}`, languageId: 'php', version: 1, text: fs.readFileSync(file, 'utf8') } } });
  for (let last = -1, same = 0; same < 5; ) { await wait(1000); if (found.size === last && found.size >= files.length) same++; else { same = found.size === last ? same + 0.34 : 0; last = found.size; } }
  for (const [at, all] of [...found].sort()) for (const one of all) if ([1, 2].includes(one.severity)) console.log(`${at.slice(7)}:${one.range.start.line + 1}: ${one.code} ${one.message.split('\n')[0]}`);
  server.kill(); process.exit(0);
})();
