// The index: what is in it, what is not and why.

import { ago, chip, count, el, empty, fact, fill, head, load, number, read, size } from "./kit.js";

export function open(node) {
  const body = el("div", {});
  fill(node, head("Index", "What is searched, how fresh it is, and what was left out."), body);
  load(body, read("health"), show);
}

function show(state) {
  if (state.state === "absent") return empty("No index yet", "The page only reads. Build the index once; it takes seconds:", "ctx index");
  const languages = Object.entries(state.languages || {}).sort((a, b) => b[1] - a[1]);
  const most = languages[0]?.[1] || 1;
  return [
    state.notes?.map(({ problem: what, advice }) => el("div", { class: "problem" }, el("strong", {}, what), el("p", {}, advice))),
    state.last_error && el("div", { class: "problem" }, el("strong", {}, state.last_error)),
    el("dl", { class: "facts" },
      fact("Files", number(state.files || 0)), fact("Symbols", number(state.symbols || 0)), fact("Chunks", number(state.chunks || 0)),
      fact("Edited since", number(state.stale || 0), state.stale ? "the next search reads them" : "nothing"),
      fact("Indexed", ago(state.indexed_at), [state.branch, state.commit?.slice(0, 10)].filter(Boolean).join(" at ")),
      fact("On disk", size(state.disk_bytes || 0), state.engine === "hybrid" ? "words and meaning" : "words")),
    el("div", { class: "columns" },
      el("section", {}, el("h2", {}, "Languages"), el("table", { class: "bars" }, el("tbody", {}, languages.slice(0, 12).map(([name, files]) =>
        el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, el("i", { class: "meter", style: { width: `${Math.max(1, (100 * files) / most)}%` } })), el("td", { class: "figure" }, number(files))))))),
      el("section", {}, el("h2", {}, "Why is a file in or out?"), explain())),
    skipped(state),
  ];
}

function explain() {
  const input = el("input", { "aria-label": "Path or symbol", placeholder: "path of a file, or a symbol" });
  const answer = el("div", { class: "answer", "aria-live": "polite" });
  const describe = (found) => [
    el("p", {}, chip(found.state, found.in_index || found.state === "defined" ? "good" : "warn"), " ", (found.reason || "").replaceAll("_", " "), found.because_of && ` because of ${found.because_of}`),
    el("ul", {}, [found.detail, ...(found.definitions || []), ...(found.notes || [])].filter(Boolean).map((text) => el("li", {}, text))),
    found.near?.length ? el("p", { class: "muted" }, `Similar names: ${found.near.join(", ")}`) : null,
  ];
  const run = (event) => {
    event.preventDefault();
    if (input.value.trim()) load(answer, read("explain", { target: input.value.trim() }), describe);
  };
  return [el("form", { class: "ask", onsubmit: run }, input, el("button", {}, "Explain")), answer];
}

function skipped(state) {
  const reasons = Object.entries(state.skipped || {});
  if (!reasons.length) return el("section", {}, el("h2", {}, "Skipped files"), el("p", { class: "muted" }, "None."));
  const files = state.skipped_examples || [];
  const body = el("tbody", {});
  let chosen = "";
  const draw = () => fill(body, files.filter((file) => !chosen || file.reason === chosen).map((file) =>
    el("tr", {}, el("td", {}, el("b", {}, file.path)), el("td", {}, chip(file.reason.replaceAll("_", " "))), el("td", { class: "muted" }, file.detail || ""))));
  const pick = el("select", { "aria-label": "Reason", onchange: () => { chosen = pick.value; draw(); } },
    el("option", { value: "" }, `all reasons`), reasons.map(([reason, files]) => el("option", { value: reason }, `${reason.replaceAll("_", " ")} (${number(files)})`)));
  draw();
  const total = reasons.reduce((sum, [, files]) => sum + files, 0);
  return el("section", {}, el("div", { class: "head" }, el("div", {}, el("h2", {}, "Skipped files"), el("p", { class: "muted" },
    `${count(total, "file")} and folders are not in the index${files.length < total ? `; ${number(files.length)} are listed` : ""}.`)), el("div", { class: "tools" }, pick)),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Skipped files" }, el("table", {}, el("thead", {}, el("tr", {}, ["File", "Reason", "Detail"].map((name) => el("th", { scope: "col" }, name)))), body)));
}
