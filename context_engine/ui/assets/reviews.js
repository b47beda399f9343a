// Reviews: the findings of a change, each in its place of the diff.

import { fileCard } from "./diff.js";
import { ago, button, chip, code, count, el, empty, fact, fill, head, load, number, problem, read } from "./kit.js";

const TARGETS = [["head", "all that is not committed"], ["staged", "what is staged"], ["unstaged", "what is not staged"], ["HEAD~1..HEAD", "the last commit"], ["", "another revision …"]];
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
    el("form", { class: "tools", onsubmit: (event) => { event.preventDefault(); run(); } }, pick, other, el("button", { class: "primary" }, "Review"))), stored(body), body);
  run();
}

/** The reviews of agents that are stored; one is opened in the place of the new one. */
function stored(body) {
  const list = el("div", {});
  const row = (session) => el("li", { class: "line" }, button(session.title || `${session.base}…${session.commit}`, () => load(body, "review-session", { id: session.id }, show), "quiet"),
    chip(session.status, { completed: "good", failed: "bad", interrupted: "warn" }[session.status]), el("small", {}, `${count(session.findings, "finding")} · ${ago(session.at * 1000)}`));
  load(list, "review-sessions", {}, ({ sessions }) => (sessions.length ? el("details", { class: "card" }, el("summary", {}, el("b", {}, count(sessions.length, "stored review"))), el("ul", { class: "edits" }, sessions.map(row))) : null));
  return list;
}

export function show({ review, files }) {
  const byFile = Map.groupBy(review.findings, (finding) => finding.code_location.file_path);
  const sorted = [...files].sort((a, b) => byFile.has(b.path) - byFile.has(a.path));
  const added = files.reduce((sum, file) => sum + file.hunks.flatMap((hunk) => hunk.lines).filter(([mark]) => mark === "+").length, 0);
  return [
    el("dl", { class: "facts" }, fact("Findings", number(review.findings.length), review.headline || ""), fact("Files", number(files.length), `${count(added, "line")} added`),
      fact("Reviewed", review.coverage ? `${review.coverage.files_reviewed} of ${review.coverage.files}` : "all"), fact("Verdict", review.verdict?.replaceAll("_", " ") || "–")),
    (review.warnings || []).map((text) => el("p", { class: "problem" }, text)),
    (review.questions || []).map((text) => el("p", { class: "muted" }, text)),
    sorted.map((file) => fileCard(file, byFile.get(file.path) || [])),
    review.coverage?.files_skipped?.length ? el("section", {}, el("h2", {}, "Not reviewed"), el("ul", {}, review.coverage.files_skipped.map(({ path, why }) => el("li", {}, code(path), " ", why)))) : null,
  ];
}
