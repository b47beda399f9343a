// Search, with the parts of each score.

import { chip, code, count, el, empty, fill, head, load, place, read } from "./kit.js";

const PARTS = {
  words: { chunk: "words of these lines", top5: "words of its best places", file: "words of the file", coverage: "how many of the words", doc: "words of its comments" },
  names: { path: "its path", def: "what it defines", name: "its name", symbol: "the symbol you named", mention: "a name you mention", named: "the place you named" },
  meaning: { static: "meaning of these lines", static3: "meaning of its best places", static_card: "meaning of its outline", model: "meaning by the model", model3: "meaning of its best places by the model" },
  structure: { scope: "the class you named", importance: "used by much of the code" },
  use: {},
};
const FAMILIES = Object.keys(PARTS);
const family = (name) => { const at = FAMILIES.findIndex((key) => name in PARTS[key]); return at < 0 ? FAMILIES.length - 1 : at; };
const inWords = (name) => PARTS[FAMILIES[family(name)]][name] || "often opened by you";
let last = "";

export function open(node, given) {
  const input = el("input", { type: "search", name: "query", "aria-label": "Question", placeholder: "a question, words from the code, or a symbol", value: given.get("q") || last });
  const results = el("div", {});
  const run = () => {
    last = input.value.trim();
    if (!last) return fill(results, empty("Ask for something", "Ranked by words, names, structure and meaning; every part of a score is shown. At the terminal:", "ctx search \"where are passwords hashed\" --why"));
    history.replaceState(null, "", `#search?q=${encodeURIComponent(last)}`);
    return load(results, read("search", { query: last, limit: 15 }), show);
  };
  fill(node, head("Search", "The places that an agent would be shown, and why."),
    el("form", { class: "ask", onsubmit: (event) => { event.preventDefault(); run(); } }, input, el("button", { class: "primary" }, "Search")), results);
  input.focus();
  run();
}

function show(found) {
  if (!found.results?.length) return empty("Nothing found", found.reason || found.note || "Try other words, or the name of a symbol.", "ctx why NAME");
  const top = Math.max(...found.results.map((hit) => hit.score || 0));
  const families = [...new Set(found.results.flatMap((hit) => Object.keys(hit.why || {})).map(family))].sort();
  return [
    found.weak && el("div", { class: "problem" }, el("strong", {}, "Weak: "), found.weak),
    el("p", { class: "muted" }, `${count(found.results.length, "file")} · ${found.freshness}`),
    !found.weak && el("ul", { class: "legend" }, families.map((at) => el("li", {}, el("i", { class: `part part-${at}` }), FAMILIES[at]))),
    el("ol", { class: "hits" }, found.results.map((hit) => card(hit, top))),
  ];
}

function card(hit, top) {
  const parts = Object.entries(hit.why || {}).sort((a, b) => family(a[0]) - family(b[0]) || b[1] - a[1]);
  const total = parts.reduce((sum, [, share]) => sum + share, 0) || 1;
  return el("li", { class: "card" },
    el("div", { class: "place" }, el("b", {}, place(hit.path, parseInt(hit.lines), hit.path)), code(hit.lines), hit.symbol && chip(hit.symbol), hit.stale && chip("edited since", "warn"),
      el("span", { class: "space" }), parts.length > 0 && el("span", { class: "figure" }, hit.score.toFixed(2))),
    parts.length > 0 && el("div", { class: "why" },
      el("div", { class: "stack", style: { width: `${Math.max(8, (100 * hit.score) / top)}%` }, role: "img", "aria-label": parts.map(([name, share]) => `${inWords(name)} ${share}`).join(", ") },
        parts.map(([name, share]) => el("i", { class: `part part-${family(name)}`, style: { flex: String(share / total) } }))),
      el("p", { class: "muted small" }, parts.map(([name, share]) => `${inWords(name)} ${share.toFixed(2)}`).join("  ·  "))),
    hit.content && el("pre", { tabindex: "0", "aria-label": `Lines ${hit.lines} of ${hit.path}` }, hit.content),
    hit.more && el("p", { class: "muted" }, "Also: ", hit.more.map((other) => [place(hit.path, parseInt(other.lines), other.lines), " "])));
}
