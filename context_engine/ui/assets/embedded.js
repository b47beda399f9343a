// A view inside a client that shows MCP Apps (SEP-1865): the handshake with the client, and its tool calls as requests.

import { page, problem, useTransport, fill } from "./kit.js";

const PROTOCOL = "2026-01-26";
const TOOLS = { plan: ["load_plan", {}], "plan-history": ["view_history", { include_events: true }], "plan-difference": ["compare_plan_versions", {}] };
const node = document.getElementById("main");
const waiting = new Map();
let last = 0;
let host = {};

const send = (message) => window.parent.postMessage({ jsonrpc: "2.0", ...message }, "*");

function ask(method, params) {
  const id = ++last;
  return new Promise((resolve, reject) => {
    waiting.set(id, { resolve, reject });
    send({ id, method, params });
  });
}

/** The value in the result of a tool: its JSON text. Throws the error that it is. */
function valueOf(result) {
  const text = (result.content || []).find(({ type }) => type === "text")?.text || "{}";
  const value = result.structuredContent || JSON.parse(text);
  if (result.isError || value.error) throw value.error || { message: text };
  return value;
}

function applyContext(context = {}) {
  if (context.theme) document.documentElement.dataset.theme = context.theme;
}

/** Show the results of a tool with `draw(node, value, canCall)`. */
export async function embed(name, draw) {
  const show = (result) => {
    try {
      draw(node, valueOf(result), Boolean(host.serverTools));
    } catch (error) {
      fill(node, problem(error));
    }
  };
  window.addEventListener("message", ({ source, data }) => {
    if (source !== window.parent || data?.jsonrpc !== "2.0") return;
    if (!data.method) {
      const pending = waiting.get(data.id);
      waiting.delete(data.id);
      if (data.error) pending?.reject(data.error);
      else pending?.resolve(data.result);
    } else if (data.method === "ui/notifications/tool-result") show(data.params);
    else if (data.method === "ui/notifications/host-context-changed") applyContext(data.params);
    else if (data.id !== undefined) send({ id: data.id, result: {} });
  });
  useTransport(async (path, given) => {
    const [tool, fixed] = TOOLS[path.slice("api/".length)] || [];
    if (!tool) throw { message: "this view only reads", suggestion: "ctx ui --write changes plans." };
    return valueOf(await ask("tools/call", { name: tool, arguments: { ...given, ...fixed } }));
  });
  page.write = false;
  const found = await ask("ui/initialize", { protocolVersion: PROTOCOL, appInfo: { name, version: "1" }, appCapabilities: { availableDisplayModes: ["inline", "fullscreen"] } });
  host = found.hostCapabilities || {};
  applyContext(found.hostContext);
  send({ method: "ui/notifications/initialized", params: {} });
  new ResizeObserver(() => {
    const { width, height } = document.documentElement.getBoundingClientRect();
    send({ method: "ui/notifications/size-changed", params: { width: Math.ceil(width), height: Math.ceil(height) } });
  }).observe(document.documentElement);
}
