// Reviews: the findings of a change, each in its place of the diff.

import { chip, code, count, el, empty, fact, fill, head, number, problem, read } from "./kit.js";

const TARGETS = [["head", "all that is not committed"], ["staged", "what is staged"], ["unstaged", "what is not staged"], ["HEAD~1..HEAD", "the last commit"], ["", "another revision …"]];
const PRIORITY = ["bad", "bad", "warn", ""];
let target = "head";

export function open(node) {
  const body = el("div", {});
  const other = el("input", { "aria-label": "Revision", placeholder: "a commit, a branch, a..b", hidden: true });
  const pick = el("select", { "aria-label": "Change", onchange: () => { other.hidden = pick.value !== ""; if (pick.value) run(); else other.focus(); } },
    TARGETS.map(([value, text]) => el("option", { value }, text)));
  pick.value = TARGETS.some(([value]) => value === target) ? target : "";
  other.hidden = pick.value !== "";
  if (!other.hidden) other.value = target;
  const run = async () => {
    target = pick.value || other.value.trim();
    if (!target) return;
    fill(body, el("p", { class: "muted loading" }, "Reviewing …"));
    try {
      fill(body, show(await read("review", { target })));
    } catch (error) {
      fill(body, error.code === "PRECONDITION_FAILED" ? empty("Nothing to review", error.message, "ctx review HEAD~1..HEAD") : problem(error));
    }
  };
  fill(node, head("Reviews", "What is wrong on the changed lines, found without a model.",
    el("form", { class: "tools", onsubmit: (event) => { event.preventDefault(); run(); } }, pick, other, el("button", { class: "primary" }, "Review"))), body);
  run();
}

function show({ review, files }) {
  const byFile = Map.groupBy ? Map.groupBy(review.findings, (finding) => finding.code_location.file_path) : group(review.findings);
  const added = files.reduce((sum, file) => sum + file.hunks.flatMap((hunk) => hunk.lines).filter(([mark]) => mark === "+").length, 0);
  return [
    el("dl", { class: "facts" }, fact("Findings", number(review.findings.length), review.headline), fact("Files", number(files.length), `${number(added)} lines added`),
      fact("Reviewed", `${review.coverage.files_reviewed} of ${review.coverage.files}`), fact("Verdict", review.verdict?.replaceAll("_", " ") || "–")),
    review.warnings.map((text) => el("p", { class: "problem" }, text)),
    review.findings.length ? null : el("p", { class: "muted" }, "Nothing was found on the changed lines."),
    files.map((file) => fileCard(file, byFile.get(file.path) || [])),
    review.coverage.files_skipped.length ? el("section", {}, el("h2", {}, "Not reviewed"), el("ul", {}, review.coverage.files_skipped.map(({ path, why }) => el("li", {}, code(path), " ", why)))) : null,
  ];
}

function group(findings) {
  const found = new Map();
  for (const finding of findings) {
    const path = finding.code_location.file_path;
    found.set(path, [...(found.get(path) || []), finding]);
  }
  return found;
}

function fileCard(file, findings) {
  const left = new Set(findings);
  const rows = file.hunks.flatMap((hunk) => [
    el("tr", { class: "hunk" }, el("td", { colspan: "3" }, `⋯ ${hunk.section || ""}`)),
    ...hunk.lines.flatMap(([mark, before, after, text]) => {
      const line = el("tr", { class: mark === "+" ? "plus" : mark === "-" ? "minus" : "" }, el("td", { class: "no" }, before || ""), el("td", { class: "no" }, after || ""), el("td", {}, `${mark === " " ? " " : mark} ${text}`));
      const here = mark === "-" ? [] : [...left].filter(({ code_location: { line_range: { end } } }) => end === after);
      here.forEach((finding) => left.delete(finding));
      return [line, ...here.map((finding) => el("tr", { class: "note" }, el("td", { colspan: "3" }, note(finding))))];
    }),
  ]);
  return el("details", { class: "file card", open: findings.length > 0 || file.hunks.length < 4 }, el("summary", {}, el("b", {}, file.path), " ", file.kind !== "modified" && chip(file.kind), " ", findings.length ? chip(count(findings.length, "finding"), "warn") : null),
    file.note && el("p", { class: "muted" }, file.note), [...left].map(note),
    rows.length ? el("div", { class: "diff", tabindex: "0", role: "region", "aria-label": `Diff of ${file.path}` }, el("table", {}, el("tbody", {}, rows))) : null);
}

function note(finding) {
  return el("div", { class: "finding" }, el("p", {}, chip(`P${finding.priority}`, PRIORITY[finding.priority]), " ", el("b", {}, finding.title)),
    finding.body && finding.body !== finding.title && el("p", {}, finding.body),
    finding.evidence.length ? el("ul", {}, finding.evidence.map((text) => el("li", {}, text))) : null,
    finding.suggestion && el("p", {}, el("b", {}, "Suggestion: "), finding.suggestion.description),
    el("small", {}, `${finding.rule} · ${finding.category} · confidence ${finding.confidence_score.toFixed(2)}`));
}
