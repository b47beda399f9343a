// Activity: every call of every client, as it happens.

import { chip, count, el, empty, fill, head, load, number, page, short, time, tokens } from "./kit.js";

let wanted = { client: "", tool: "", error: "", text: "", everywhere: false };
let list, facts, filters, open = new Set();

export function open_(node) {
  facts = el("p", { class: "muted" });
  list = el("div", { class: "calls", role: "list", "aria-label": "Calls, newest first" });
  filters = el("div", { class: "filters" });
  fill(node, head("Activity", "What agents ask, what they get, and what it costs."), filters, facts, list);
  drawFilters();
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
  const calls = page.calls.filter((call) => (wanted.everywhere || call.workspace === here)
    && ["client", "tool", "error"].every((name) => !wanted[name] || call[name] === wanted[name])
    && (!words || `${call.asked} ${call.got} ${call.tool}`.toLowerCase().includes(words)));
  drawFacts(calls);
  if (!calls.length && !page.recording) return fill(list, empty("Nothing is recorded", "The setting gain is off, which counts calls. Turn it on and start the server and this page again:", "CTX_GAIN=true ctx ui"));
  if (!calls.length) {
    fill(list, page.calls.length && !wanted.everywhere
      ? empty("No calls here yet", "Other repositories have some: tick “all repositories”.")
      : empty("No calls yet", "Calls appear here within a second. Connect an agent, or make one yourself:", "ctx call search_code '{\"query\": \"where does it start\"}'"));
    return;
  }
  const rows = calls.slice().reverse().map((call) => list.rows?.get(call.id) || row(call));
  list.rows = new Map(rows.map((node) => [node.call, node]));
  fill(list, rows);
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
      el("time", {}, time(call.at)), chip(call.client || "unnamed client"), el("b", {}, call.tool),
      el("span", { class: "asked" }, call.asked || el("em", {}, call.got ? "no arguments" : "not kept")),
      call.error ? chip(call.error.toLowerCase().replaceAll("_", " "), "bad") : el("span", { class: "figure" }, `${short(tokens(call.shown))} tokens`),
      el("span", { class: "figure" }, `${number(call.ms)} ms`)),
    el("p", { class: "muted small" }, `in ${call.folder}, ${count(call.shown, "character")}`), texts);
  node.call = call.id;
  node.open = open.has(call.id);
  node.addEventListener("toggle", () => {
    if (!node.open) return open.delete(call.id);
    open.add(call.id);
    if (!texts.firstChild) load(texts, "call", { id: call.id }, ({ asked, got }) => got
      ? [asked && el("pre", { tabindex: "0", "aria-label": "Asked" }, asked), el("pre", { tabindex: "0", "aria-label": "Got" }, got)]
      : el("p", { class: "muted" }, "Its texts were not kept: they are while the setting call_texts is on."));
  });
  return node;
}
