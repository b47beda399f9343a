// Reviews: the findings of a change, each in its place of the diff.

import { fileCard } from "./diff.js";
import { ago, attempt, button, chip, code, count, el, empty, fact, fill, head, load, number, problem, prose, read, write, writer } from "./kit.js";

const STATES = { completed: "good", failed: "bad", interrupted: "warn", running: "accent" };
const PAUSE = ["running", "queued"], RESUME = ["paused", "partial", "failed"];
const REFRESH_MS = 2000;
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
  const run = () => {
    target = pick.value || other.value.trim();
    if (target) load(body, read("review", { target }), show, (error) => error.code === "PRECONDITION_FAILED" ? empty("Nothing to review", error.message, "ctx review HEAD~1..HEAD") : problem(error));
  };
  fill(node, head("Reviews", "What is wrong on the changed lines, found without a model.",
    el("form", { class: "tools", onsubmit: (event) => { event.preventDefault(); run(); } }, pick, other, el("button", { class: "primary" }, "Review"))), stored(body), body);
  run();
}

/** The reviews of agents, which go on in the background; one is opened in the place of the new one, paused or resumed. */
function stored(body) {
  const list = el("div", {});
  const turn = (tool, id) => async () => { if (await attempt(() => write(tool, { session_id: id }), tool === "pause_review" ? "Paused" : "Resumed")) draw(); };
  const row = ({ id, title, base, commit, status, findings, files_done, files_total, at }) => el("li", { class: "line" },
    button(title || `${base}…${commit}`, () => load(body, read("review-session", { id }), show), "quiet"), chip(status, STATES[status]),
    el("small", {}, `${count(findings, "finding")} in ${files_done} of ${count(files_total, "file")} · ${ago(at * 1000)}`),
    PAUSE.includes(status) && writer("Pause", turn("pause_review", id)), RESUME.includes(status) && writer("Resume", turn("resume_review", id)));
  const draw = async () => {
    const { sessions } = await read("review-sessions").catch(() => ({ sessions: [] }));
    const isBusy = sessions.some(({ status }) => PAUSE.includes(status));
    const open = isBusy || list.firstChild?.open;
    fill(list, sessions.length ? el("details", { class: "card", open }, el("summary", {}, el("b", {}, count(sessions.length, "stored review"))), el("ul", { class: "edits" }, sessions.map(row))) : null);
    if (isBusy) setTimeout(() => list.isConnected && draw(), REFRESH_MS);
  };
  draw();
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
    (review.questions || []).map((text) => el("p", { class: "muted" }, prose(text))),
    sorted.map((file) => fileCard(file, byFile.get(file.path) || [])),
    review.coverage?.files_skipped?.length ? el("section", {}, el("h2", {}, "Not reviewed"), el("ul", {}, review.coverage.files_skipped.map(({ path, why }) => el("li", {}, code(path), " ", why)))) : null,
  ];
}
