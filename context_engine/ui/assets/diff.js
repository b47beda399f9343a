// A diff of one file, with the findings on its lines.

import { chip, count, el, paths, place, prose } from "./kit.js";

const PRIORITY = ["bad", "bad", "warn", ""];

export function fileCard(file, findings = []) {
  const left = new Set(findings);
  const start = (hunk) => hunk.lines.find(([, , after]) => after)?.[2];
  const rows = file.hunks.flatMap((hunk) => [
    el("tr", { class: "hunk" }, el("td", { colspan: "3" }, start(hunk) && place(file.path, start(hunk), `line ${start(hunk)}`), ` ${hunk.section || ""}`)),
    ...hunk.lines.flatMap(([mark, before, after, text]) => {
      const line = el("tr", { class: mark === "+" ? "plus" : mark === "-" ? "minus" : "" }, el("td", { class: "no" }, before || ""), el("td", { class: "no" }, after || ""), el("td", {}, `${mark === " " ? " " : mark} ${text}`));
      const here = mark === "-" ? [] : [...left].filter(({ code_location: { line_range: { end } } }) => end === after);
      here.forEach((finding) => left.delete(finding));
      return [line, ...here.map((finding) => el("tr", { class: "note" }, el("td", { colspan: "3" }, note(finding))))];
    }),
  ]);
  return el("details", { class: "file card", open: findings.length > 0 || file.hunks.length < 4 }, el("summary", {}, el("b", {}, paths(file.path)), " ", file.kind !== "modified" && chip(file.kind), " ", findings.length ? chip(count(findings.length, "finding"), "warn") : null),
    file.note && el("p", { class: "muted" }, file.note), [...left].map(note),
    rows.length ? el("div", { class: "diff", tabindex: "0", role: "region", "aria-label": `Diff of ${file.path}` }, el("table", {}, el("tbody", {}, rows))) : null);
}

function note(finding) {
  return el("div", { class: "finding" }, el("p", {}, chip(`P${finding.priority}`, PRIORITY[finding.priority]), " ", el("b", {}, finding.title)),
    finding.body && finding.body !== finding.title && el("p", {}, prose(finding.body)),
    finding.evidence?.length ? el("ul", {}, finding.evidence.map((text) => el("li", {}, text))) : null,
    finding.suggestion && el("p", {}, el("b", {}, "Suggestion: "), finding.suggestion.description),
    el("small", {}, `${finding.rule} · ${finding.category} · confidence ${finding.confidence_score.toFixed(2)}`));
}
