// Plans: their steps and dependencies, decisions, and what changed between versions.

import { ago, attempt, button, chip, code, count, el, empty, fact, fill, head, load, page, prose, read, write, writer } from "./kit.js";

const KINDS = { completed: "good", done: "good", approved: "good", in_progress: "accent", ready: "accent", failed: "bad", rejected: "bad", blocked: "warn", pending: "", needs_clarification: "warn" };
const word = (text) => (text || "").replaceAll("_", " ");
const status = (text) => chip(word(text), KINDS[text] || "");

export function open(node, given) {
  const body = el("div", {});
  fill(node, head("Plans", "What agents intend to do, step by step, and what you decided."), body);
  load(body, read("plans"), (found) => list(found, given.get("plan")));
}

function list(found, wanted) {
  if (!found.plans?.length) return empty("No plans yet", "An agent makes one with create_plan; so do you:", "ctx plan create \"what is to be done\"");
  const detail = el("div", { class: "detail" });
  const items = el("ul", { class: "list" });
  const pick = (plan) => {
    history.replaceState(null, "", `#plans?plan=${encodeURIComponent(plan.id)}`);
    for (const item of items.querySelectorAll("button")) item.setAttribute("aria-pressed", String(item.dataset.id === plan.id));
    show(detail, plan.id);
  };
  fill(items, found.plans.map((plan) => el("li", {}, el("button", { type: "button", "data-id": plan.id, onclick: () => pick(plan) },
    el("span", { class: "title" }, plan.goal), el("span", { class: "line" }, status(plan.status), el("small", {}, `${count(plan.step_count, "step")} · ${Math.round(plan.progress)} % · ${ago(plan.updated_at)}`))))));
  pick(found.plans.find((plan) => plan.id === wanted) || found.plans[0]);
  return el("div", { class: "split" }, items, detail);
}

export function show(node, id) {
  const asked = Promise.all([read("plan", { plan_id: id }), read("plan-history", { plan_id: id })]);
  load(node, asked, ([loaded, history]) => detail(loaded, history, () => show(node, id)));
}

export function detail(loaded, history, again) {
  const { plan, execution = {} } = loaded;
  const states = new Map((execution.steps || []).map((step) => [step.step_number, step]));
  const done = Math.round(execution.percentage || 0);
  return [
    el("div", { class: "head" }, el("div", {}, el("h2", {}, plan.goal), el("p", { class: "line" }, status(execution.status || "draft"), chip(`version ${loaded.version}`),
      ...(loaded.approvals || []).map((approval) => chip(`approval ${word(approval.status)}`, approval.status === "pending" ? "warn" : KINDS[approval.status]))))),
    (loaded.warnings || []).map((text) => el("p", { class: "problem" }, text)),
    el("dl", { class: "facts" }, fact("Progress", `${done} %`, el("progress", { value: done, max: "100", "aria-label": "Progress" })), fact("Steps", String(plan.steps.length), execution.next ? `next: ${execution.next}` : ""),
      plan.dependency_graph?.duration_h ? fact("Estimated", `${plan.dependency_graph.duration_h.toFixed(1)} h`, "on the longest path") : null, fact("Confidence", `${Math.round((plan.confidence_score || 0) * 100)} %`)),
    decision(loaded, again),
    el("section", {}, el("h2", {}, "Steps"), el("ol", { class: "steps" }, plan.steps.map((step) => stepRow(step, states.get(step.step_number))))),
    plan.risks?.length ? el("section", {}, el("h2", {}, "Risks"), el("ul", {}, plan.risks.map((risk) => el("li", {}, risk.issue || String(risk))))) : null,
    versions(loaded, history),
  ];
}

function decision(loaded, again) {
  const comment = el("input", { "aria-label": "Comment or wanted changes", placeholder: "comment, or what to change first" });
  const decide = (action) => async () => {
    const text = comment.value.trim();
    const given = { plan_id: loaded.plan_id, version: loaded.version, action, comment: text, changes: action === "request_modification" ? text : "" };
    if (await attempt(() => write("decide", given), `Recorded: ${word(action)}`)) again();
  };
  return el("div", { class: "decide" }, comment, writer("Approve", decide("approve"), "primary"), writer("Ask for changes", decide("request_modification")), writer("Reject", decide("reject"), "danger"),
    !page.write && el("small", {}, "Read-only: ", code("ctx ui --write"), " or ", code("ctx plan approve"), " decides."));
}

function stepRow(step, state = {}) {
  const files = [...(step.files_to_modify || []), ...(step.files_to_create || []), ...(step.files_to_delete || [])];
  return el("li", {}, el("details", {}, el("summary", {}, el("b", { class: "number" }, String(step.step_number)), el("span", { class: "title" }, step.title), el("span", { class: "line" },
    step.depends_on?.length ? el("small", {}, `after ${step.depends_on.join(", ")}`) : null, step.estimated_effort && el("small", {}, step.estimated_effort), status(state.status || "pending"))),
    el("div", { class: "inside" }, step.description && el("p", {}, prose(step.description)),
      files.length ? el("p", {}, files.map((path) => [code(path), " "])) : null,
      step.acceptance_criteria?.length ? el("ul", {}, step.acceptance_criteria.map((text) => el("li", {}, prose(text)))) : null,
      step.checks?.length ? el("p", { class: "muted" }, "Checks: ", step.checks.map((text) => [code(text), " "])) : null,
      state.error && el("p", { class: "bad" }, state.error))));
}

function versions(loaded, history) {
  const rows = history.versions || [], known = loaded.versions || [loaded.version];
  const result = el("div", {});
  const choose = (label, chosen) => {
    const control = el("select", { "aria-label": label }, known.map((version) => el("option", { value: version }, `version ${version}`)));
    control.value = String(chosen);
    return control;
  };
  const from = choose("From", known.at(-2) || known.at(-1)), to = choose("To", known.at(-1));
  const compare = () => load(result, read("plan-difference", { plan_id: loaded.plan_id, from_version: Number(from.value), to_version: Number(to.value) }), difference);
  return el("section", {}, el("h2", {}, "History"),
    el("ul", { class: "timeline" }, [...rows.map((row) => ({ at: row.created_at, text: `version ${row.version}: ${row.change_summary}`, who: row.author })),
      ...(history.events || []).filter(({ kind }) => !kind.startsWith("plan_c")).map((event) => ({ at: event.at, text: word(event.kind), who: event.actor }))]
      .sort((a, b) => (a.at < b.at ? 1 : -1)).slice(0, 20).map((row) => el("li", {}, el("time", {}, ago(row.at)), " ", row.text, " ", row.who && el("small", {}, `by ${row.who}`)))),
    known.length > 1 && el("div", { class: "tools" }, from, to, button("Compare", compare)), result);
}

function difference(found) {
  const steps = (title, rows, kind) => (rows || []).map((row) => el("li", {}, chip(title, kind), " ", `${row.step_number ?? ""} ${row.title ?? row.uid ?? ""}`));
  const shown = (value) => (value === undefined || value === null ? "" : typeof value === "string" ? value : JSON.stringify(value, null, 1));
  return el("div", { class: "card difference" }, el("p", {}, el("b", {}, found.summary || "no difference")),
    el("ul", { class: "plain" }, steps("added", found.steps_added, "good"), steps("removed", found.steps_removed, "bad"), steps("changed", found.steps_modified, "accent"), steps("moved", found.steps_moved, "")),
    (found.field_changes || []).map((change) => el("details", {}, el("summary", {}, code(change.path), " ", chip(change.type)),
      el("div", { class: "columns" }, el("pre", { class: "old", tabindex: "0" }, shown(change.old_value)), el("pre", { class: "new", tabindex: "0" }, shown(change.new_value))))));
}
