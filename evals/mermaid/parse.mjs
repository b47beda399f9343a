// Reads diagrams out of a JSON file and says, for each, what Mermaid's own parser makes of it: node parse.mjs MODULES DIAGRAMS
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [modules, diagrams] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${modules}/package.json`));
const { JSDOM } = require('jsdom');
globalThis.window = new JSDOM('').window; // Mermaid's sanitizer looks for one while it is imported
globalThis.document = window.document;
const { default: mermaid } = await import(pathToFileURL(`${modules}/node_modules/mermaid/dist/mermaid.core.mjs`));
mermaid.initialize({ startOnLoad: false, logLevel: 'fatal' });

// The parser keeps entities in a form of its own until the picture is drawn.
const drawn = (text) =>
  text
    .replace(/ﬂ°°(\d+)¶ß/g, (_, code) => String.fromCodePoint(Number(code)))
    .replace(/ﬂ°(\w+)¶ß/g, '&$1;')
    .trim();

async function said(text) {
  try {
    const { diagramType } = await mermaid.parse(text);
    const { db } = await mermaid.mermaidAPI.getDiagramFromText(text);
    if (diagramType === 'gantt') {
      const tasks = db.getTasks().map((task) => [task.id, drawn(task.task), +task.startTime, +task.endTime]);
      return { type: diagramType, title: drawn(db.getDiagramTitle()), tasks };
    }
    const nodes = [...db.getVertices().values()].map((node) => [node.id, drawn(node.text)]);
    return { type: diagramType, nodes, edges: db.getEdges().length };
  } catch (error) {
    return { refused: String(error.message ?? error).slice(0, 500) };
  }
}

for (const text of JSON.parse(readFileSync(diagrams, 'utf8'))) {
  process.stdout.write(JSON.stringify(await said(text)) + '\n');
}
