// A symbol's graph: columns, one for each level, from what uses to what is used, drawn on a canvas.

import { button, chip, code, count, el, empty, fill, head, load, number, paths, place, read, segmented } from "./kit.js";

const RELATIONS = ["callers", "callees", "impact"];
const COLUMN = 230, ROW = 24;
const ROWS_MIN = 24;
const ARROWS_MAX = 1000;
const REDRAW_MAX = 2500;
const LISTED = 100;
let chosen = { symbol: "", relation: "callers", depth: 2 };

export function open(node, given) {
  chosen = { symbol: given.get("symbol") || chosen.symbol, relation: given.get("relation") || chosen.relation, depth: Number(given.get("depth")) || chosen.depth };
  const names = el("datalist", { id: "names" });
  const input = el("input", { type: "search", list: "names", "aria-label": "Symbol", placeholder: "a function, class or method", value: chosen.symbol });
  const bar = el("div", { class: "tools" });
  const body = el("div", {});
  const controls = () => fill(bar,
    segmented("Relation", RELATIONS, chosen.relation, (relation) => { chosen.relation = relation; run(); }),
    segmented("Levels", ["1", "2", "3", "4"], String(chosen.depth), (depth) => { chosen.depth = Number(depth); run(); }));
  const run = () => {
    controls();
    chosen.symbol = input.value.trim();
    if (!chosen.symbol) return fill(body, empty("Which symbol?", "Its callers, what it calls, or all that a change of it may affect. At the terminal:", "ctx trace NAME --direction impact"));
    history.replaceState(null, "", `#graph?symbol=${encodeURIComponent(chosen.symbol)}&relation=${chosen.relation}&depth=${chosen.depth}`);
    load(body, read("graph", chosen), (graph) => show(graph, (symbol) => { input.value = symbol; run(); }));
  };
  input.addEventListener("input", () => {
    clearTimeout(input.timer);
    input.timer = setTimeout(async () => {
      if (input.value.length < 2) return;
      const found = await read("symbols", { name: `${input.value}*`, limit: 12 }).catch(() => ({}));
      fill(names, (found.definitions || []).map(({ name, path }) => el("option", { value: name }, path)));
    }, 200);
  });
  fill(node, head("Graph", "Who uses a symbol, what it uses, and what a change may affect.", bar),
    el("form", { class: "ask", onsubmit: (event) => { event.preventDefault(); run(); } }, input, el("button", { class: "primary" }, "Show")), names, body);
  run();
}

function show(graph, go) {
  const { nodes, links } = arrange(graph);
  const others = nodes.filter(({ depth }) => depth);
  if (!others.length) return empty(`No ${graph.relation === "impact" ? "users" : graph.relation} of ${graph.target} were found`, [graph.path, ...graph.notes].filter(Boolean).join(" · "), "ctx search " + graph.target);
  const canvas = el("canvas", { tabindex: "0", role: "img", "aria-label": `${graph.relation} of ${graph.target}: ${count(others.length, "symbol")}. The list next to it has the same. Arrows move, + and - zoom, 0 fits.` });
  const side = el("div", { class: "side" });
  const view = draw(canvas, nodes, links, (picked) => fill(side, describe(picked)));
  const list = (root) => [
    heading(root, graph.kind),
    el("p", {}, count(others.length, "symbol"), graph.truncated ? ", and more" : "", ". Arrows point to what is used."),
    graph.possible ? el("p", { class: "muted" }, `${count(graph.possible, "possible use")} left out: the receiver is unknown.`) : null,
    graph.tests.length ? [el("h3", {}, "Tests to run first"), el("ul", {}, graph.tests.slice(0, 8).map((path) => el("li", {}, path)))] : null,
    el("h3", {}, "Symbols"),
    el("ul", { class: "links" }, others.slice(0, LISTED).map((one) => el("li", {}, button(one.label, () => view.pick(one), "quiet"), el("small", {}, " ", paths(one.at || `${one.path}:${one.line}`))))),
    others.length > LISTED ? el("p", { class: "muted" }, `and ${number(others.length - LISTED)} more in the picture`) : null,
    graph.notes.map((note) => el("p", { class: "muted small" }, note)),
  ];
  const describe = (picked) => !picked?.depth ? list(picked || nodes[0]) : [
    el("div", { class: "tools" }, button("Center here", () => go(picked.name), "primary"), button("Back to the list", () => view.pick(null))),
    heading(picked, `level ${picked.depth}`),
    el("p", {}, `${graph.relation === "callees" ? "Used by" : "Uses"} ${picked.parents.map(({ label }) => label).join(", ")} at `, place(picked.path, picked.line), " ",
      picked.certainty !== "exact" && chip(picked.certainty, "warn"), picked.uses > 1 && chip(`${picked.uses} uses`)),
    el("pre", { tabindex: "0" }, picked.evidence),
  ];
  fill(side, list(nodes[0]));
  return el("div", { class: "graph" }, el("div", { class: "canvas" }, canvas,
    el("div", { class: "zoom" }, button("+", () => view.zoom(1.4), "", { "aria-label": "Zoom in" }), button("−", () => view.zoom(1 / 1.4), "", { "aria-label": "Zoom out" }), button("Fit", () => view.fit()))), side);
}

/** The name and the code of a symbol, with the place of its definition. */
function heading(node, kind) {
  const [, path, line] = /^(.+):(\d+)$/.exec(node.at) || [];
  if (!path) return [el("h2", {}, node.name), el("p", { class: "muted" }, kind)];
  const source = el("div", {});
  const isHere = ({ lines }) => { const [first, last = first] = lines.split("-").map(Number); return first <= line && line <= last; };
  load(source, read("code", { items: [`${path}#${node.name}`] }), ({ files: [{ fragments = [] }] }) =>
    (fragments.some(isHere) ? fragments.filter(isHere) : fragments).map(({ text }) => el("pre", { tabindex: "0", "aria-label": `Code of ${node.name}` }, text)));
  return [el("h2", {}, node.name), el("p", { class: "muted" }, kind, " · ", place(path, line)), source];
}

const lastName = (name) => name.split(name.includes("/") ? "/" : /[.:]/).pop();

/** Place each symbol in the column of its level, below those whose neighbor in the column before comes first.
 *
 * A symbol is known by the place of its definition, and each definition of the name that was asked for is in the first
 * column; a step that does not say which of several definitions it means is drawn to each. */
export function arrange(graph) {
  const isDown = graph.relation === "callees";
  const known = new Map(), named = new Map(), links = [];
  const add = (key, node) => {
    const name = lastName(node.name);
    known.set(key, { ...node, parents: [], children: [] });
    named.set(name, [...(named.get(name) || []), known.get(key)]);
    return known.get(key);
  };
  const ends = ({ source, source_at, target, target_at }) => [{ name: source, at: source_at }, { name: target, at: target_at }];
  const roots = [add(`${graph.path}:${graph.line}`, { name: graph.target, at: `${graph.path}:${graph.line}`, depth: 0 })];
  for (const { name, at } of graph.edges.filter(({ depth }) => depth === 1).map((edge) => ends(edge)[isDown ? 0 : 1])) {
    if (at && !known.has(at)) roots.push(add(at, { name: lastName(name) === lastName(graph.target) ? graph.target : name, at, depth: 0 }));
  }
  for (const edge of graph.edges) {
    const [own, above] = isDown ? ends(edge).reverse() : ends(edge);
    const alike = (named.get(lastName(above.name)) || []).filter((node) => node.depth < edge.depth || node.name === above.name);
    const parents = known.has(above.at) ? [known.get(above.at)] : alike.length ? alike : [roots[0]];
    const key = own.at || `${edge.path} ${own.name}`;
    let node = known.get(key);
    if (!node) {
      node = add(key, { ...edge, ...own, depth: parents[0].depth + 1 });
      parents[0].children.push(node);
    }
    for (const parent of parents) {
      if (parent === node || node.parents.includes(parent)) continue;
      node.parents.push(parent);
      links.push(isDown ? [parent, node] : [node, parent]);
    }
  }
  const nodes = roots, levels = [];
  for (const node of nodes) nodes.push(...node.children);
  for (const node of nodes) (levels[node.depth] ||= []).push(node);
  for (const alike of Map.groupBy(nodes, ({ name }) => name).values()) {
    for (const node of alike) node.label = alike.length > 1 && node.at ? `${node.name} (${node.at.split(":").pop()})` : node.name;
  }
  let column = 0;
  for (const level of levels) {
    // a level with more symbols than a column has room for gets several
    const columns = Math.ceil(level.length / Math.max(ROWS_MIN, Math.sqrt(10 * level.length)));
    const rows = Math.ceil(level.length / columns);
    level.forEach((node, at) => {
      node.x = (column + Math.floor(at / rows)) * (isDown ? COLUMN : -COLUMN);
      node.row = ((at % rows) - (rows - 1) / 2) * ROW;
    });
    column += columns;
  }
  return { nodes, links };
}

/** Draw nodes on a canvas that can be moved and zoomed. Large graphs move as a picture and are drawn sharp at rest. */
export function draw(canvas, nodes, links, onpick) {
  const pen = canvas.getContext("2d");
  const view = { x: 0, y: 0, scale: 1 };
  let hovered = null, picked = null, drag = null, still = null, rest = 0, planned = 0;
  const isLarge = nodes.length > REDRAW_MAX;
  const ratio = Math.min(2, window.devicePixelRatio || 1);

  function fit() {
    canvas.width = canvas.clientWidth * ratio;
    canvas.height = canvas.clientHeight * ratio;
    const [left, right, top] = nodes.reduce(([least, most, above], { x, row }) => [Math.min(least, x), Math.max(most, x), Math.min(above, row)], [0, 0, 0]);
    view.scale = Math.min(1.6, (canvas.clientWidth - 24) / (right - left + COLUMN));
    const stretch = Math.min(1.6, (canvas.clientHeight - 24) / (2 * ROW - 2 * top)) / view.scale;
    for (const node of nodes) node.y = node.row * stretch;
    view.x = (canvas.clientWidth - (left + right + COLUMN - 40) * view.scale) / 2;
    view.y = canvas.clientHeight / 2;
    still = null;
    plan();
  }

  const plan = () => { planned ||= requestAnimationFrame(() => { planned = 0; render(); }); };

  function render() {
    if (isLarge && still && Date.now() < rest) {
      const factor = view.scale / still.scale;
      pen.setTransform(1, 0, 0, 1, 0, 0);
      pen.clearRect(0, 0, canvas.width, canvas.height);
      pen.drawImage(still.picture, (view.x - still.x * factor) * ratio, (view.y - still.y * factor) * ratio, canvas.width * factor, canvas.height * factor);
      setTimeout(plan, 160);
      return;
    }
    paint();
    if (isLarge) {
      still = { ...view, picture: Object.assign(document.createElement("canvas"), { width: canvas.width, height: canvas.height }) };
      still.picture.getContext("2d").drawImage(canvas, 0, 0);
    }
  }

  function paint() {
    const style = getComputedStyle(canvas);
    const color = (name) => { canvas.style.color = `var(${name})`; return style.color; };
    const { scale } = view;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
    const at = (node) => [node.x * scale + view.x, node.y * scale + view.y];
    const isSeen = (x, y) => x > -40 && y > -40 && x < canvas.clientWidth + 40 && y < canvas.clientHeight + 40;
    pen.lineWidth = 1;
    pen.strokeStyle = color("--edge");
    pen.globalAlpha = nodes.length > 1000 ? 0.25 : 0.5;
    pen.beginPath();
    for (const [source, target] of links) {
      const [fromX, fromY] = at(source), [x, y] = at(target);
      if (!isSeen(x, y) && !isSeen(fromX, fromY)) continue;
      pen.moveTo(fromX, fromY);
      pen.lineTo(x, y);
      if (links.length > ARROWS_MAX) continue;
      const angle = Math.atan2(y - fromY, x - fromX);
      const tip = [x - 8 * Math.cos(angle), y - 8 * Math.sin(angle)];
      for (const side of [2.7, -2.7]) {
        pen.moveTo(...tip);
        pen.lineTo(tip[0] + 8 * Math.cos(angle + side), tip[1] + 8 * Math.sin(angle + side));
      }
    }
    pen.stroke();
    pen.globalAlpha = 1;
    const radius = Math.max(1.4, Math.min(5.5, 5.5 * Math.sqrt(scale)));
    for (let depth = 4; depth >= 0; depth--) {
      pen.fillStyle = color(depth ? `--part-${depth - 1}` : "--text");
      pen.beginPath();
      for (const node of nodes) {
        if (Math.min(4, node.depth) !== depth) continue;
        const [x, y] = at(node);
        if (!isSeen(x, y)) continue;
        const size = depth ? radius : radius * 1.7;
        if (size < 2.2) pen.rect(x - size, y - size, 2 * size, 2 * size);
        else { pen.moveTo(x + size, y); pen.arc(x, y, size, 0, 7); }
      }
      pen.fill();
    }
    label(at, isSeen, color, radius);
  }

  /** Write the names that have room, each over the lines that leave its symbol; what is looked at last and whole. */
  function label(at, isSeen, color, radius) {
    pen.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    pen.textBaseline = "middle";
    const first = [nodes[0], picked, hovered].filter(Boolean);
    const cell = (node) => `${node.x} ${Math.floor(at(node)[1] / 14)}`;
    const taken = new Set(first.map(cell));
    const [back, strong, muted, accent] = ["--surface", "--text", "--muted", "--accent"].map(color);
    const room = COLUMN * view.scale - 3 * radius - 14;
    const others = room < 30 ? [] : nodes.filter((node) => isSeen(...at(node)) && !taken.has(cell(node)) && taken.add(cell(node))).slice(0, 250);
    for (const node of [...others, ...first]) {
      const isFirst = first.includes(node);
      let [x, y] = at(node);
      let text = node.label;
      if (!isFirst && pen.measureText(text).width > room) text = lastName(text);
      while (!isFirst && text.length > 2 && pen.measureText(text).width > room) text = `${text.slice(0, -2)}…`;
      const width = pen.measureText(text).width, gap = 2 * radius + 4;
      const left = Math.max(4, Math.min(x + gap, canvas.clientWidth - width - 4));
      if (left < x + gap) y += gap + 6;  // without room beside its symbol it is below
      pen.fillStyle = back;
      pen.fillRect(left - 2, y - 8, width + 4, 16);
      if (isFirst && node !== nodes[0]) {
        pen.strokeStyle = accent;
        pen.beginPath();
        pen.arc(...at(node), radius + 3, 0, 7);
        pen.stroke();
      }
      pen.fillStyle = isFirst ? strong : muted;
      pen.fillText(text, left, y);
    }
  }

  function nearest(event) {
    const box = canvas.getBoundingClientRect();
    const x = (event.clientX - box.left - view.x) / view.scale, y = (event.clientY - box.top - view.y) / view.scale;
    let best = null, distance = 14 / view.scale;
    for (const node of nodes) {
      const far = Math.hypot(node.x - x, node.y - y);
      if (far < distance) [best, distance] = [node, far];
    }
    return best;
  }

  function zoom(factor, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) {
    const scale = Math.max(0.01, Math.min(6, view.scale * factor));
    view.x = x - ((x - view.x) * scale) / view.scale;
    view.y = y - ((y - view.y) * scale) / view.scale;
    view.scale = scale;
    rest = Date.now() + 140;
    plan();
  }

  function move(x, y) {
    view.x += x;
    view.y += y;
    rest = Date.now() + 140;
    plan();
  }

  function pick(node) {
    picked = node;
    onpick(node);
    plan();
  }

  canvas.addEventListener("pointerdown", (event) => { drag = { x: event.clientX, y: event.clientY, moved: 0 }; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointermove", (event) => {
    if (drag) {
      const [x, y] = [event.clientX - drag.x, event.clientY - drag.y];
      drag = { x: event.clientX, y: event.clientY, moved: drag.moved + Math.abs(x) + Math.abs(y) };
      return move(x, y);
    }
    const found = nearest(event);
    canvas.style.cursor = found ? "pointer" : "grab";
    if (found !== hovered) { hovered = found; plan(); }
  });
  canvas.addEventListener("pointerup", (event) => { const isClick = drag && drag.moved < 5; drag = null; if (isClick) pick(nearest(event)); });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const box = canvas.getBoundingClientRect();
    zoom(Math.exp(-event.deltaY / 400), event.clientX - box.left, event.clientY - box.top);
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: [40, 0], ArrowRight: [-40, 0], ArrowUp: [0, 40], ArrowDown: [0, -40] };
    if (moves[event.key]) { event.preventDefault(); move(...moves[event.key]); }
    if (event.key === "+" || event.key === "=") zoom(1.3);
    if (event.key === "-") zoom(1 / 1.3);
    if (event.key === "0") fit();
  });
  new ResizeObserver(() => { if (canvas.clientWidth) fit(); }).observe(canvas);
  window.addEventListener("ctx-theme", () => { still = null; plan(); });
  return { fit, zoom, pick, move };
}
