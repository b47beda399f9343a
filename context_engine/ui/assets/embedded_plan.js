// The plan of a tool result, inside a client.

import { embed } from "./embedded.js";
import { fill } from "./kit.js";
import { detail, show } from "./plans.js";

embed("plan", (node, value, canCall) => {
  const plan = value.plan || value;
  if (canCall) return show(node, plan.id);
  return fill(node, detail({ plan_id: plan.id, version: plan.version, versions: [plan.version], approvals: [], ...value, plan }, {}, () => {}));
});
