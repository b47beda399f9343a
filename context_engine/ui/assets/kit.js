// What all views share: elements, requests, formats. Texts of others are always text nodes, never HTML.

const TOKEN = location.pathname.split("/")[1];
export const CHARS_OF_TOKEN = 4;
export const page = { project: "", projects: [], write: false, version: "", editor: "", calls: [], running: [], log: [] };

/** Make an element. Strings among the children become text nodes. */
export function el(name, properties, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(properties || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "style") for (const [rule, text] of Object.entries(value)) node.style.setProperty(rule, text);
    else if (key === "value") node.value = value;
    else node.setAttribute(key, value === true ? "" : String(value));
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** Replace the content of an element. */
export function fill(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

// -- requests

let transport = post;

/** Send requests elsewhere: `send` takes a path (api/NAME, write/NAME) and arguments, and returns the value or throws. */
export function useTransport(send) {
  transport = send;
}

async function post(path, given, headers) {
  const body = JSON.stringify({ project: page.project, ...given });
  let response;
  try {
    response = await fetch(path, { method: "POST", headers: { "content-type": "application/json", ...headers }, body });
  } catch {
    throw { message: "the page has lost its server", suggestion: "Start it again: ctx ui" };
  }
  const value = await response.json().catch(() => ({ error: { message: `the server answered ${response.status}` } }));
  if (value.error) throw value.error;
  return value;
}

export const read = (name, given = {}) => transport(`api/${name}`, given, {});
export const write = (name, given = {}) => transport(`write/${name}`, given, { "x-ctx-token": TOKEN });

// -- parts of a view

export const head = (title, text, ...tools) =>
  el("div", { class: "head" }, el("div", {}, el("h1", {}, title), text && el("p", { class: "lead" }, text)), el("div", { class: "tools" }, tools));

/** An empty state names the next command. */
export const empty = (title, text, command) =>
  el("div", { class: "empty" }, el("h2", {}, title), text && el("p", {}, text), command && el("code", {}, command));

export const problem = (error) =>
  el("div", { class: "problem", role: "alert" }, el("strong", {}, error.message || String(error)),
    error.suggestion && el("p", {}, error.suggestion));

export const chip = (text, kind = "") => el("span", { class: `chip ${kind}` }, text);
export const code = (text) => el("code", {}, paths(text));
/** A text that breaks into lines after the parts of its paths. */
export const paths = (text) => String(text).split(/(?<=[/:])/).flatMap((part) => [part, el("wbr")]);
export const prose = (text) => text.split("`").map((part, at) => (at % 2 ? code(part) : part));
export const button = (text, onclick, kind = "", more = {}) => el("button", { type: "button", class: kind, onclick, ...more }, text);

/** A place in a file: a link that opens it in the editor, where there is one. Nothing of a path can end the link's own parts. */
export function place(path, line = 1, text = `${path}:${line}`) {
  const root = page.projects.find(({ name }) => name === page.project)?.path;
  if (!root || !page.editor) return code(text);
  const encode = (path, separators = "/") => path.split(separators).filter(Boolean).map((part) => encodeURIComponent(part.toWellFormed())).join("/");
  const file = encode(path), folder = encode(root, /[\\/]/), whole = `/${folder}/${file}`, project = folder.split("/").pop();
  const parts = { path: whole, url: encodeURIComponent(`file://${whole}`), file, project, line, row: line - 1 };
  return el("a", { href: page.editor.replace(/{(\w+)}/g, (_, name) => parts[name]), title: "Open in the editor" }, code(text));
}

export function fact(name, value, note) {
  return el("div", { class: "fact" }, el("dt", {}, name), el("dd", {}, value, note && el("small", {}, note)));
}

export function segmented(label, choices, chosen, onchange) {
  return el("div", { class: "segmented", role: "group", "aria-label": label },
    choices.map((choice) => button(choice.replaceAll("_", " "), () => onchange(choice), "", { "aria-pressed": String(choice === chosen) })));
}

export function say(text, isBad = false) {
  const toast = document.getElementById("toast");
  toast.textContent = text;
  toast.className = `toast shown ${isBad ? "bad" : ""}`;
  clearTimeout(say.timer);
  say.timer = setTimeout(() => (toast.className = "toast"), 5000);
}

/** Run a change and report how it ended; return whether it worked. */
export async function attempt(work, done) {
  try {
    await work();
    say(done);
    return true;
  } catch (error) {
    say([error.message || String(error), error.suggestion].filter(Boolean).join(". "), true);
    return false;
  }
}

/** Show in a node what a request answers, or why it does not. */
export async function load(node, asked, show, fail = problem) {
  fill(node, el("p", { class: "muted loading" }, "Loading …"));
  fill(node, await asked.then(show).catch(fail));
}

/** A button that changes something: where the page only reads it is disabled and says how to change that. */
export function writer(text, onclick, kind = "") {
  const why = page.write ? {} : { disabled: true, title: "This page only reads. Start it with ctx ui --write." };
  return button(text, onclick, kind, why);
}

// -- formats

export const number = (value) => Math.round(value).toLocaleString("en-US");
export const tokens = (chars) => Math.round(chars / CHARS_OF_TOKEN);
export const count = (value, noun) => `${number(value)} ${noun}${value === 1 ? "" : "s"}`;

export function short(value) {
  const size = Math.abs(value);
  if (size < 1000) return number(value);
  if (size < 1e6) return `${(value / 1e3).toFixed(size < 1e4 ? 1 : 0)}k`;
  return `${(value / 1e6).toFixed(1)}M`;
}

export function size(bytes) {
  if (bytes < 1e3) return `${bytes} B`;
  if (bytes < 1e6) return `${(bytes / 1e3).toFixed(0)} kB`;
  return `${(bytes / 1e6).toFixed(1)} MB`;
}

export function time(seconds) {
  const at = new Date(seconds * 1000);
  const clock = at.toLocaleTimeString("en-GB");
  return at.toDateString() === new Date().toDateString() ? clock : `${at.toLocaleDateString("en-CA")} ${clock}`;
}

export function ago(text) {
  const minutes = (Date.now() - new Date(text).getTime()) / 60000;
  if (!(minutes >= 0)) return text || "";
  if (minutes < 1) return "just now";
  if (minutes < 60) return `${Math.floor(minutes)} min ago`;
  if (minutes < 1440) return `${Math.floor(minutes / 60)} h ago`;
  return `${Math.floor(minutes / 1440)} d ago`;
}
