// A symbol's graph: rings around the symbol, one for each level, drawn on a canvas.

import { button, chip, code, count, el, empty, fill, head, number, problem, read, segmented } from "./kit.js";

const RELATIONS = ["callers", "callees", "impact"];
const RING = 130;
const SPACING = 13;
const REDRAW_MAX = 2500;
const LISTED = 100;
let chosen = { symbol: "", relation: "callers", depth: 2 };

export function open(node, given) {
  chosen = { ...chosen, symbol: given.get("symbol") || chosen.symbol, relation: given.get("relation") || chosen.relation };
  const names = el("datalist", { id: "names" });
  const input = el("input", { type: "search", list: "names", "aria-label": "Symbol", placeholder: "a function, class or method", value: chosen.symbol });
  const bar = el("div", { class: "tools" });
  const body = el("div", {});
  const controls = () => fill(bar,
    segmented("Relation", RELATIONS, chosen.relation, (relation) => { chosen.relation = relation; run(); }),
    segmented("Levels", ["1", "2", "3", "4"], String(chosen.depth), (depth) => { chosen.depth = Number(depth); run(); }));
  const run = async () => {
    controls();
    chosen.symbol = input.value.trim();
    if (!chosen.symbol) return fill(body, empty("Which symbol?", "Its callers, what it calls, or all that a change of it may affect. At the terminal:", "ctx trace NAME --direction impact"));
    history.replaceState(null, "", `#graph?symbol=${encodeURIComponent(chosen.symbol)}&relation=${chosen.relation}`);
    fill(body, el("p", { class: "muted loading" }, "Following uses …"));
    try {
      const graph = await read("graph", chosen);
      show(body, graph, (symbol) => { input.value = symbol; run(); });
    } catch (error) {
      fill(body, problem(error));
    }
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

function show(body, graph, go) {
  const nodes = arrange(graph);
  const place = graph.path ? `${graph.path}:${graph.line}` : "";
  if (nodes.length < 2) return fill(body, empty(`No ${graph.relation === "impact" ? "users" : graph.relation} of ${graph.target} were found`, [place, ...graph.notes].filter(Boolean).join(" · "), "ctx search " + graph.target));
  const canvas = el("canvas", { tabindex: "0", role: "img", "aria-label": `${graph.relation} of ${graph.target}: ${count(nodes.length - 1, "symbol")}. The list next to it has the same. Arrows move, + and - zoom, 0 fits.` });
  const side = el("div", { class: "side" });
  const view = draw(canvas, nodes, (picked) => fill(side, describe(picked)));
  const list = () => [
    el("h2", {}, graph.target), el("p", { class: "muted" }, [graph.kind, place].filter(Boolean).join(" · ")), graph.signature && el("pre", { tabindex: "0" }, graph.signature),
    el("p", {}, `${count(nodes.length - 1, "symbol")} in ${number(graph.ms)} ms`, graph.truncated ? ", and more" : ""),
    graph.possible ? el("p", { class: "muted" }, `${count(graph.possible, "possible use")} left out: the receiver is unknown.`) : null,
    graph.tests.length ? [el("h3", {}, "Tests to run first"), el("ul", {}, graph.tests.slice(0, 8).map((path) => el("li", {}, path)))] : null,
    el("h3", {}, "Symbols"),
    el("ul", { class: "links" }, nodes.slice(1, LISTED).map((one) => el("li", {}, button(one.name, () => view.pick(one), "quiet"), el("small", {}, ` ${one.path}:${one.line}`)))),
    nodes.length > LISTED ? el("p", { class: "muted" }, `and ${number(nodes.length - LISTED)} more in the picture`) : null,
  ];
  const describe = (picked) => !picked || picked === nodes[0] ? list() : [
    el("h2", {}, picked.name), el("p", { class: "muted" }, `level ${picked.depth}`), el("p", {}, code(`${picked.path}:${picked.line}`)),
    el("pre", { tabindex: "0" }, picked.evidence), el("p", {}, picked.certainty !== "exact" && chip(picked.certainty, "warn"), picked.uses > 1 && chip(`${picked.uses} uses`)),
    el("p", {}, el("small", {}, `${graph.relation === "callees" ? "used by" : "uses"} ${picked.parent.name}`)),
    el("div", { class: "tools" }, button("Center here", () => go(picked.name), "primary"), button("Back to the list", () => view.pick(null))),
  ];
  fill(side, list());
  fill(body, el("div", { class: "graph" }, el("div", { class: "canvas" }, canvas,
    el("div", { class: "zoom" }, button("+", () => view.zoom(1.4), "", { "aria-label": "Zoom in" }), button("−", () => view.zoom(1 / 1.4), "", { "aria-label": "Zoom out" }), button("Fit", () => view.fit()))), side));
  view.fit();
}

/** Place each symbol on the ring of its level, in the sector of the symbol that leads to it. */
export function arrange(graph) {
  const root = { name: graph.target, depth: 0, children: [], x: 0, y: 0, path: graph.path, line: graph.line };
  const known = new Map([[graph.target, root]]);
  const bare = graph.target.split(".").pop();
  const isDown = graph.relation === "callees";
  for (const edge of graph.edges) {
    const [name, above] = isDown ? [edge.target, edge.source] : [edge.source, edge.target];
    const key = name || edge.path;
    if (known.has(key)) continue;
    const parent = known.get(above) || (above.split(".").pop() === bare ? root : known.get(above.split(".").pop())) || root;
    const node = { ...edge, name: key, parent, depth: parent.depth + 1, children: [] };
    parent.children.push(node);
    known.set(key, node);
  }
  const order = [root];
  for (const node of order) order.push(...node.children);
  for (const node of [...order].reverse()) node.weight = Math.max(1, node.children.reduce((sum, child) => sum + child.weight, 0));
  const rings = [];
  for (const node of order) (rings[node.depth] ||= []).push(node);
  Object.assign(root, { from: 0, to: 2 * Math.PI });
  let inner = 0;
  for (const ring of rings.slice(1)) {
    const radius = inner + RING;
    // a ring with more symbols than fit side by side gets several rows
    let rows = 1;
    while (ring.length * SPACING > 2 * Math.PI * (radius + (rows * SPACING) / 2) * rows) rows++;
    const taken = new Map();
    ring.forEach((node, at) => {
      const { parent } = node;
      const start = taken.get(parent) ?? parent.from;
      const stop = start + ((parent.to - parent.from) * node.weight) / parent.weight;
      taken.set(parent, stop);
      Object.assign(node, { from: start, to: stop });
      const angle = (start + stop) / 2 - Math.PI / 2;
      const distance = radius + (at % rows) * SPACING;
      node.x = Math.cos(angle) * distance;
      node.y = Math.sin(angle) * distance;
    });
    inner = radius + (rows - 1) * SPACING;
  }
  return order;
}

/** Draw nodes on a canvas that can be moved and zoomed. Large graphs move as a picture and are drawn sharp at rest. */
export function draw(canvas, nodes, onpick) {
  const pen = canvas.getContext("2d");
  const view = { x: 0, y: 0, scale: 1 };
  let hovered = null, picked = null, drag = null, still = null, rest = 0, planned = 0;
  const isLarge = nodes.length > REDRAW_MAX;
  const ratio = Math.min(2, window.devicePixelRatio || 1);

  function resize() {
    canvas.width = canvas.clientWidth * ratio;
    canvas.height = canvas.clientHeight * ratio;
  }

  function fit() {
    resize();
    const reach = Math.max(RING, ...nodes.map((node) => Math.hypot(node.x, node.y))) + 90;
    view.scale = Math.min(canvas.clientWidth, canvas.clientHeight) / (2 * reach);
    view.scale = Math.min(view.scale, 1.6);
    view.x = canvas.clientWidth / 2;
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
    const color = (name) => style.getPropertyValue(name).trim();
    const { scale } = view;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
    const at = (node) => [node.x * scale + view.x, node.y * scale + view.y];
    const isSeen = (x, y) => x > -40 && y > -40 && x < canvas.clientWidth + 40 && y < canvas.clientHeight + 40;
    pen.lineWidth = 1;
    pen.strokeStyle = color("--edge");
    pen.globalAlpha = nodes.length > 1000 ? 0.25 : 0.5;
    pen.beginPath();
    for (const node of nodes) {
      if (!node.parent) continue;
      const [x, y] = at(node), [fromX, fromY] = at(node.parent);
      if (!isSeen(x, y) && !isSeen(fromX, fromY)) continue;
      pen.moveTo(fromX, fromY);
      pen.lineTo(x, y);
    }
    pen.stroke();
    pen.globalAlpha = 1;
    const radius = Math.max(1.4, Math.min(5.5, 5.5 * Math.sqrt(scale)));
    for (let depth = 4; depth >= 0; depth--) {
      pen.fillStyle = color(depth ? `--part-${(depth - 1) % 6}` : "--text");
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

  /** Write the names that have room, those of the inner rings first. */
  function label(at, isSeen, color, radius) {
    pen.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    pen.textBaseline = "middle";
    const taken = new Set();
    const first = [hovered, picked, nodes[0]].filter(Boolean);
    let written = 0;
    for (const node of [...first, ...nodes]) {
      if (written > 250) break;
      const [x, y] = at(node);
      if (!isSeen(x, y)) continue;
      const text = node.name.length > 34 ? `${node.name.slice(0, 33)}…` : node.name;
      const width = pen.measureText(text).width;
      const isLeft = node.x < 0 && node.depth > 0;
      const gap = radius * (node.depth ? 1 : 1.7) + 6;
      const left = isLeft ? x - gap - width : x + gap;
      const cells = [];
      for (let cell = Math.floor(left / 16); cell <= Math.floor((left + width) / 16); cell++) cells.push(`${cell} ${Math.floor(y / 15)}`);
      const isFirst = first.includes(node);
      const isCut = left < 2 || left + width > canvas.clientWidth - 2;
      if (!isFirst && (isCut || cells.some((cell) => taken.has(cell)))) continue;
      cells.forEach((cell) => taken.add(cell));
      written++;
      if (isFirst) {
        pen.fillStyle = color("--surface");
        pen.fillRect(left - 2, y - 9, width + 4, 18);
        pen.strokeStyle = color("--accent");
        pen.beginPath();
        pen.arc(x, y, radius + 3, 0, 7);
        if (node !== nodes[0]) pen.stroke();
      }
      pen.fillStyle = color(isFirst ? "--text" : "--muted");
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
  new ResizeObserver(() => { if (canvas.clientWidth) { resize(); still = null; plan(); } }).observe(canvas);
  window.addEventListener("ctx-theme", () => { still = null; plan(); });
  return { fit, zoom, pick, move };
}
