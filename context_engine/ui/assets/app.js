// The frame: views by the address after #, repositories, theme, shortcuts, and the stream of events.

import { button, el, fill, page, problem, read } from "./kit.js";
import * as activity from "./activity.js";
import * as search from "./search.js";
import * as graph from "./graph.js";
import * as health from "./health.js";
import * as plans from "./plans.js";
import * as reviews from "./reviews.js";
import { edits, memories, settings } from "./records.js";

const VIEWS = [
  ["activity", "Activity", activity],
  ["search", "Search", search],
  ["graph", "Graph", graph],
  ["plans", "Plans", plans],
  ["reviews", "Reviews", reviews],
  ["memories", "Memories", memories],
  ["edits", "Edits", edits],
  ["index", "Index", health],
  ["settings", "Settings", settings],
];
const KEYS = [
  ["1 – 9", "open a view, in the order of the list"],
  ["/", "go to the field of the view"],
  ["r", "load the view again"],
  ["[ and ]", "the repository before and after this one"],
  ["t", "switch between light and dark"],
  ["?", "show these shortcuts"],
  ["Esc", "close, or leave a field"],
];
const main = document.getElementById("main");
const picker = document.getElementById("project");

// -- views

/** The address after #: a view and its arguments, such as #search?q=login. */
function place() {
  const [name, query] = location.hash.slice(1).split("?");
  return { name: name || "activity", given: new URLSearchParams(query || "") };
}

function show() {
  const { name, given } = place();
  const [key, title, view] = VIEWS.find(([key]) => key === name) || VIEWS[0];
  document.title = `${title} · ${page.project} · Context Engine`;
  for (const link of document.querySelectorAll("#nav a")) {
    link.removeAttribute("aria-current");
    if (link.dataset.view !== key) continue;
    link.setAttribute("aria-current", "page");
    link.scrollIntoView({ block: "nearest", inline: "center" });
  }
  main.className = `view-${key}`;
  fill(main);
  view.open(main, given);
}

function begin(state) {
  Object.assign(page, state);
  page.project = page.projects.find(({ name }) => name === localStorage.getItem("ctx-project"))?.name || page.projects[0].name;
  fill(picker, page.projects.map(({ name, path }) => el("option", { value: name, title: path }, name)));
  picker.value = page.project;
  fill(document.getElementById("nav"), VIEWS.map(([key, title], at) =>
    el("a", { href: `#${key}`, "data-view": key }, el("span", {}, title), el("kbd", { "aria-hidden": "true" }, String(at + 1)))));
  const mode = document.getElementById("mode");
  mode.textContent = page.write ? "may write" : "only reads";
  mode.title = page.write ? "This page may approve plans, edit memories and undo edits." : "Start it with ctx ui --write to approve, edit and undo.";
  window.addEventListener("hashchange", show);
  picker.addEventListener("change", () => choose(picker.value));
  listen();
  show();
}

function choose(name) {
  page.project = picker.value = name;
  localStorage.setItem("ctx-project", name);
  show();
}

function turn(step) {
  const at = page.projects.findIndex(({ name }) => name === page.project);
  choose(page.projects[(at + step + page.projects.length) % page.projects.length].name);
}

// -- events

function listen() {
  const live = document.getElementById("live");
  const state = (name, text) => { live.className = `live ${name}`; live.textContent = text; };
  const events = new EventSource("api/events");
  events.onopen = () => { Object.assign(page, { calls: [], running: [], log: [] }); state("on", "live"); };  // all come again
  events.onerror = () => state("off", "not connected");
  events.onmessage = (message) => {
    const event = JSON.parse(message.data);
    if (event.running) page.running = event.running;
    const kept = event.line ? page.log : page.calls;
    if (!event.running && kept.push(event) > 500) kept.shift();
    if (main.classList.contains("view-activity")) event.line ? activity.drawLog() : activity.update();
  };
}

// -- theme and shortcuts

function paint(theme) {
  document.documentElement.dataset.theme = theme;
  window.dispatchEvent(new Event("ctx-theme"));
}

function switchTheme() {
  const now = document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  const theme = now === "dark" ? "light" : "dark";
  localStorage.setItem("ctx-theme", theme);
  paint(theme);
}

function openShortcuts() {
  const dialog = document.getElementById("shortcuts");
  fill(dialog, el("h2", { id: "shortcuts-title" }, "Keyboard"),
    el("dl", { class: "keys" }, KEYS.map(([key, meaning]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, meaning)])),
    button("Close", () => dialog.close()));
  if (!dialog.open) dialog.showModal();
}

const ACTIONS = {
  "/": () => main.querySelector("input:not([type=checkbox]), select")?.focus(),
  "?": openShortcuts,
  r: show,
  t: switchTheme,
  "[": () => turn(-1),
  "]": () => turn(1),
};

window.addEventListener("keydown", (event) => {
  const isTyping = event.target.matches?.("input, textarea, select");
  if (event.key === "Escape" && isTyping) { event.preventDefault(); event.target.blur(); }  // without emptying a search field
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  const view = /^[1-9]$/.test(event.key) && VIEWS[Number(event.key) - 1];
  if (view) location.hash = view[0];
  else if (ACTIONS[event.key]) {
    event.preventDefault();
    ACTIONS[event.key]();
  }
});

document.getElementById("skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
document.getElementById("theme").addEventListener("click", switchTheme);
document.getElementById("help").addEventListener("click", openShortcuts);
paint(localStorage.getItem("ctx-theme") || "");
read("state").then(begin, (error) => fill(main, problem(error)));
