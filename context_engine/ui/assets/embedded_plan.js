// The plan of a tool result, inside a client.

import { embed } from "./embedded.js";
import { chip, count, el, fill } from "./kit.js";
import { detail, show } from "./plans.js";

/** What the short reply of a tool says, for a client that lets a view call no tool. */
const brief = ({ version, status = "", steps = [], questions = [], risks = [], next = "" }) => [
  el("div", { class: "head" }, el("div", {}, el("h2", {}, count(steps.length, "step")), el("p", { class: "line" }, chip(status.replaceAll("_", " ")), chip(`version ${version}`)))),
  el("ul", {}, steps.map((step) => el("li", {}, String(step)))),
  [["Questions", questions], ["Risks", risks]].map(([title, rows]) => rows.length ? el("section", {}, el("h2", {}, title), el("ul", {}, rows.map((row) => el("li", {}, row.question || row.issue || String(row))))) : null),
  el("p", { class: "muted" }, next),
];

embed("plan", (node, value, canCall) => {
  const { plan } = value;
  if (canCall) return show(node, value.plan_id || plan.id);
  if (!plan) return fill(node, brief(value));
  return fill(node, detail({ plan_id: plan.id, version: plan.version, versions: [plan.version], approvals: [], ...value, plan }, {}, () => {}));
});
