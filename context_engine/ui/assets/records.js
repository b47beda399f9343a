// Memories, edits and settings: lists of records, with what can be done to each.

import { fileCard } from "./diff.js";
import { ago, attempt, button, chip, code, count, el, empty, fill, head, load, page, place, prose, read, time, write, writer } from "./kit.js";

const STATUS = { active: "good", stale: "warn", invalid: "bad" };
const readOnly = (command) => (page.write ? null : el("small", {}, "Read-only: ", code("ctx ui --write"), " or ", code(command), "."));

// -- memories

const CATEGORIES = ["decisions", "preferences", "facts"];
let words = "";

function openMemories(node) {
  const form = el("div", {}), body = el("div", {});
  const again = () => load(body, read("memories"), (found) => memoryList(found, again));
  const add = async (given) => {
    const written = Object.fromEntries(Object.entries(given).filter(([, value]) => value.length));
    if (await attempt(() => write("add_memory", written), "Added")) { fill(form); again(); }
  };
  fill(node, head("Memories", "What the team wants agents to know: Markdown files that you can edit by hand as well.", readOnly("ctx memory add"),
    writer("Add", () => fill(form, memoryForm({}, add, () => fill(form))))), form, body);
  again();
}

/** The form of a memory; only that of a new one has a category. */
function memoryForm(memory, save, cancel) {
  const field = (name, control) => [name.toLowerCase(), control, el("label", { class: "field" }, el("span", {}, name), control)];
  const fields = [field("Title", el("input", { value: memory.title })), field("Content", el("textarea", { rows: "5", required: true, value: memory.content })),
    field("Tags", el("input", { value: memory.tags?.join(", ") })), field("Expires", el("input", { type: "date", value: memory.expires_at?.slice(0, 10) }))];
  if (!memory.id) fields.unshift(field("Category", el("select", {}, CATEGORIES.map((name) => el("option", {}, name)))));
  queueMicrotask(() => fields[0][1].focus());  // when it is on the page
  const submit = (event) => {
    event.preventDefault();
    const { tags, expires, ...given } = Object.fromEntries(fields.map(([name, { value }]) => [name, value]));
    save({ ...given, tags: tags.split(",").map((tag) => tag.trim()).filter(Boolean), expires_at: expires });
  };
  return el("form", { class: "stacked card", onsubmit: submit }, fields.map(([, , label]) => label),
    el("div", { class: "tools" }, el("button", { class: "primary" }, "Save"), button("Cancel", cancel)));
}

function memoryList(found, again) {
  if (!found.memories.length) return empty("No memories yet", "An agent adds one with add_memory; so do you:", "ctx memory add decisions \"Amounts are whole cents everywhere.\"");
  const list = el("div", { class: "stacked" });
  const draw = () => {
    const shown = found.memories.filter((memory) => `${memory.title} ${memory.content} ${memory.category} ${(memory.tags || []).join(" ")} ${memory.status}`.toLowerCase().includes(words.toLowerCase()));
    fill(list, shown.length ? shown.map((memory) => memoryCard(memory, again)) : el("p", { class: "muted" }, "No memory has these words."));
  };
  const filter = el("input", { type: "search", "aria-label": "Filter", placeholder: `filter ${count(found.total, "memory").replace("memorys", "memories")}`, value: words, oninput: () => { words = filter.value; draw(); } });
  draw();
  return [(found.warnings || []).map((text) => el("p", { class: "problem" }, text)), el("div", { class: "ask" }, filter), list];
}

function memoryCard(memory, again) {
  if (memory.error) return el("div", { class: "card" }, el("p", {}, chip("invalid", "bad"), " ", code(memory.path)), el("p", {}, memory.error));
  const body = el("div", {});
  const change = async (arguments_, done) => {
    if (await attempt(() => write("update_memory", { id: memory.id, expected_version: memory.version, ...arguments_ }), done)) again();
  };
  const view = () => fill(body,
    memory.content !== memory.title && el("p", { class: "text" }, memory.content),
    el("p", { class: "line" }, chip(memory.category), memory.subtype && chip(memory.subtype), memory.priority !== "helpful" && chip(memory.priority, "accent"), (memory.tags || []).map((tag) => chip(`#${tag}`)),
      el("small", {}, [`changed ${ago(memory.updated_at)}`, memory.expires_at && `expires ${memory.expires_at.slice(0, 10)}`, memory.scope === "user" && "in all your projects"].filter(Boolean).join(" · "))),
    memory.linked_files?.length ? el("p", {}, memory.linked_files.map((path) => [place(path, 1, path), " "])) : null,
    el("div", { class: "tools" }, writer("Edit", edit), memory.status === "stale" && writer("Still true", () => change({ still_true: true }, "Confirmed")),
      memory.status !== "expired" && writer("Expire now", () => change({ expires_at: new Date(Date.now() - 60000).toISOString() }, "Expired")), writer("Delete", remove, "danger")));
  const remove = async () => {
    if (!confirm(`Delete “${memory.title}” permanently?`)) return;
    if (await attempt(() => write("delete_memory", { id: memory.id, expected_version: memory.version }), "Deleted")) again();
  };
  const edit = () => fill(body, memoryForm(memory, (given) => change(given, "Saved"), view));
  view();
  return el("article", { class: "card" }, el("div", { class: "place" }, el("h2", {}, memory.title), chip(memory.status, STATUS[memory.status])),
    memory.stale_reason && memory.status !== "expired" && el("p", { class: "muted" }, memory.stale_reason), body, el("small", {}, memory.path));
}

// -- edits

function openEdits(node) {
  const body = el("div", {});
  const again = () => load(body, read("edits"), (found) => editList(found.edits, again));
  fill(node, head("Edits", "Every change that agents made through Context Engine. A file that changed since is not touched.", readOnly("ctx undo")), body);
  again();
}

function editList(edits, again) {
  if (!edits.length) return empty("No edits yet", "Edits of agents are listed here and can be undone. At the terminal:", "ctx undo --list");
  const turn = (edit) => async () => {
    if (await attempt(() => write("undo_edit", { undo_id: edit.id, redo: edit.undone }), edit.undone ? `Redone: edit ${edit.id}` : `Undone: edit ${edit.id}`)) again();
  };
  return el("ul", { class: "edits" }, edits.map((edit) => el("li", { class: edit.undone ? "undone" : "" }, el("time", {}, time(edit.at)), el("b", { class: "figure" }, `edit ${edit.id}`),
    el("span", { class: "line" }, edit.files.map(({ path, change }) => el("span", {}, chip(change, { created: "good", deleted: "bad" }[change]), " ", code(path)))),
    edit.undone ? chip("undone") : null, writer(edit.undone ? "Redo" : "Undo", turn(edit)), changes(edit))));
}

/** What an edit changed, loaded when it is opened. */
function changes(edit) {
  const body = el("div", {});
  const open = (event) => {
    if (event.target.open && !body.firstChild) load(body, read("edit", { id: edit.id }), ({ files }) => files.map((file) => fileCard(file)));
  };
  return el("details", { class: "changes", ontoggle: open }, el("summary", {}, "Diff"), body);
}

// -- settings

function openSettings(node) {
  const body = el("div", {});
  fill(node, head("Settings", "Every setting, its value, where the value comes from, and what it does here."), body);
  load(body, read("settings"), settingTable);
}

function settingTable(found) {
  const rows = el("tbody", {});
  const changed = el("input", { type: "checkbox", onchange: () => draw() });
  const filter = el("input", { type: "search", "aria-label": "Filter", placeholder: "filter", oninput: () => draw() });
  const first = (name) => name.split("_")[0];
  const group = ({ name }) => (found.settings.filter((other) => first(other.name) === first(name)).length > 1 ? first(name) : "general");
  const isShown = (setting) => (!changed.checked || setting.source !== "default") && `${setting.name} ${setting.meaning} ${setting.value} ${setting.effect}`.toLowerCase().includes(filter.value.trim().toLowerCase());
  const draw = () => fill(rows, [...Map.groupBy(found.settings.filter(isShown), group)].map(([name, settings]) => [el("tr", { class: "group" }, el("th", { colspan: "3", scope: "rowgroup" }, name)), settings.map((setting) =>
    el("tr", {}, el("td", {}, el("b", {}, setting.name), el("small", { class: "block" }, prose(setting.meaning)), setting.effect && el("span", { class: "block small" }, `Here: ${setting.effect}`)), el("td", {}, setting.value === "" ? el("em", {}, "empty") : code(setting.value),
      setting.source !== "default" && el("small", { class: "block" }, `default: ${setting.default || "empty"}`)), el("td", {}, chip(setting.source, setting.source === "default" ? "" : "accent"))))]));
  draw();
  return [
    found.notes.map(({ problem, advice }) => el("div", { class: "problem" }, el("strong", {}, problem), el("p", {}, advice))),
    el("div", { class: "filters" }, filter, el("label", { class: "check" }, changed, "only changed ones"), el("span", { class: "space" }), el("small", {}, "Your own file: ", code(found.user_file))),
    el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Settings" }, el("table", {}, el("thead", {}, el("tr", {}, ["Setting", "Value", "From"].map((name) => el("th", { scope: "col" }, name)))), rows)),
  ];
}

export const memories = { open: openMemories };
export const edits = { open: openEdits };
export const settings = { open: openSettings };
