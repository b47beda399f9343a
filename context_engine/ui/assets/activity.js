// Activity: every call of every client, as it happens, those that are running with a way to cancel them, and the logs.

import { ago, attempt, chip, count, el, empty, fill, head, load, number, page, read, short, time, tokens, write, writer } from "./kit.js";

let wanted = { client: "", tool: "", error: "", text: "", everywhere: false };
let list, running, log, facts, filters, open = new Set();

export function open_(node) {
  facts = el("p", { class: "muted" });
  list = el("div", { class: "calls", role: "list", "aria-label": "Calls, newest first" });
  running = el("div", { class: "calls", role: "list", "aria-label": "Running calls" });
  log = el("div", {});
  filters = el("div", { class: "filters" });
  fill(node, head("Activity", "What agents ask, what they get, and what it costs."), filters, running, log, facts, list);
  drawFilters();
  drawLog();
  update();
}
export { open_ as open };

function field(label, control) {
  return el("label", { class: "field" }, el("span", {}, label), control);
}

function choice(name, label) {
  const values = [...new Set(page.calls.map((call) => call[name]))].filter(Boolean).sort();
  const control = el("select", { onchange: () => { wanted[name] = control.value; update(); } },
    el("option", { value: "" }, "all"), values.map((value) => el("option", { value }, value)));
  control.value = wanted[name];
  return field(label, control);
}

function drawFilters() {
  const text = el("input", { type: "search", placeholder: "words of a question", value: wanted.text,
    oninput: () => { wanted.text = text.value; update(); } });
  const everywhere = el("input", { type: "checkbox", onchange: () => { wanted.everywhere = everywhere.checked; update(); } });
  everywhere.checked = wanted.everywhere;
  fill(filters, field("Filter", text), choice("client", "Client"), choice("tool", "Tool"), choice("error", "Error"),
    el("label", { class: "check" }, everywhere, "all repositories"));
  filters.known = known();
}

const known = () => new Set(page.calls.flatMap(({ client, tool, error }) => [client, tool, error])).size;

/** Draw the calls that pass the filters. */
export function update() {
  if (filters.known !== known() && !filters.contains(document.activeElement)) drawFilters();
  const here = page.projects.find(({ name }) => name === page.project)?.workspace;
  const words = wanted.text.toLowerCase();
  const isWanted = (call) => (wanted.everywhere || call.workspace === here)
    && ["client", "tool", "error"].every((name) => !wanted[name] || call[name] === wanted[name])
    && (!words || `${call.asked} ${call.got} ${call.tool}`.toLowerCase().includes(words));
  const calls = page.calls.filter(isWanted);
  fillRows(running, page.running.filter(isWanted), runningRow);
  for (const row of running.children) row.state.textContent = page.running.find(({ id }) => id === row.call).state;
  drawFacts(calls);
  if (!calls.length && !page.recording) return fill(list, empty("Nothing is recorded", "The setting gain is off, which counts calls. Turn it on and start the server and this page again:", "CTX_GAIN=true ctx ui"));
  if (!calls.length) {
    fill(list, page.calls.length && !wanted.everywhere
      ? empty("No calls here yet", "Other repositories have some: tick “all repositories”.")
      : empty("No calls yet", "Calls appear here within a second. Connect an agent, or make one yourself:", "ctx call search_code '{\"query\": \"where does it start\"}'"));
    return;
  }
  fillRows(list, calls.slice().reverse(), row);
}

/** Show calls in a list; a row that is there stays where it is, and keeps the focus. */
function fillRows(node, calls, make) {
  const known = new Map([...node.children].map((row) => [row.call, row]));
  calls.forEach((call, at) => {
    const row = known.get(call.id) || make(call);
    if (node.children[at] !== row) node.insertBefore(row, node.children[at] || null);
  });
  while (node.children.length > calls.length) node.lastChild.remove();
}

function runningRow(call) {
  const state = el("span", { class: "figure", role: "status" });
  const cancel = writer("Cancel", async () => {
    if (await attempt(() => write("cancel", { id: call.id }), "It ends at its next step")) cancel.disabled = true;
  });
  const node = el("div", { class: "call running", role: "listitem" }, el("div", {}, ...cells(call), state, cancel));
  return Object.assign(node, { call: call.id, state });
}

const cells = (call) => [el("time", {}, time(call.at)), chip(call.client || "unnamed client"), el("b", {}, call.tool),
  el("span", { class: "asked" }, call.asked || el("em", {}, call.got ? "no arguments" : call.got === "" && "not kept"))];

/** Draw the newest lines that servers logged, besides calls. */
export function drawLog() {
  const row = (line) => {
    const { at, event, ok, ...more } = JSON.parse(line);
    const text = Object.entries(more).map(([name, value]) => `${name} ${typeof value === "string" ? value : JSON.stringify(value)}`).join(" · ");
    return el("li", {}, el("time", {}, ago(at)), " ", chip(event, ok === false ? "bad" : ""), " ", text);
  };
  fill(log, page.log.length > 0 && el("details", { class: "card", open: log.firstChild?.open }, el("summary", {}, `Log of servers: ${count(page.log.length, "line")}`),
    el("ul", { class: "timeline text" }, page.log.slice().reverse().map(({ line }) => row(line)))));
}

function drawFacts(calls) {
  const sum = (name) => calls.reduce((total, call) => total + call[name], 0);
  const took = calls.map((call) => call.ms).sort((a, b) => a - b);
  fill(facts, calls.length && [count(calls.length, "call"), count(calls.filter((call) => call.error).length, "error"), `${short(tokens(sum("shown")))} tokens sent`,
    `median ${number(took[took.length >> 1])} ms`].join(" · "));
}

function row(call) {
  const texts = el("div", {});
  const node = el("details", { class: `call ${call.error ? "failed" : ""}`, role: "listitem" },
    el("summary", {},
      ...cells(call), call.error ? chip(call.error.toLowerCase().replaceAll("_", " "), "bad") : el("span", { class: "figure" }, `${short(tokens(call.shown))} tokens`),
      el("span", { class: "figure" }, `${number(call.ms)} ms`)),
    el("p", { class: "muted small" }, `in ${call.folder}, ${count(call.shown, "character")}`), texts);
  node.call = call.id;
  node.open = open.has(call.id);
  node.addEventListener("toggle", () => {
    if (!node.open) return open.delete(call.id);
    open.add(call.id);
    if (!texts.firstChild) load(texts, read("call", { id: call.id }), ({ asked, got }) => got
      ? [asked && el("pre", { tabindex: "0", "aria-label": "Asked" }, asked), el("pre", { tabindex: "0", "aria-label": "Got" }, got)]
      : el("p", { class: "muted" }, "Its texts were not kept: they are while the setting call_texts is on."));
  });
  return node;
}
