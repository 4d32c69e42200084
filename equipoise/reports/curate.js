// Decisions on captions, by mouse or keyboard; kept in this browser, saved as decisions.json.
"use strict";
const state = JSON.parse(document.getElementById("state").textContent);
const at = (id) => document.getElementById(id);
const cases = [...at("cases").children], handle = at("handle"), histogram = at("histogram");
const memory = "equipoise decisions " + state.digest;
const rows = new Map(); // row of the keep file -> what is known of that caption
for (const one of [...state.pairs, ...state.copies.flat(2), ...(state.start ? state.start.rows : [])]) rows.set(one.row, { ...one, ...(rows.get(one.row) || {}) });
const began = state.start ? state.start.digest : ""; // the decisions of the file that the memory goes on from
const home = state.grid.indexOf(state.threshold);
let decisions = new Map(); // row -> {decision, with}
let step = home; // place of the threshold in the grid
let current = 0;
const history = []; // what was there before each change

// what the browser remembers; private windows and some settings forbid it
function remembered() {
  try { return JSON.parse(localStorage.getItem(memory)); } catch { return null; }
}
function remember() {
  try { localStorage.setItem(memory, JSON.stringify({ ...content(), began })); } catch { /* saving by hand still works */ }
}

// the file
function named(row) {
  const { key, caption } = rows.get(row);
  return { key, caption, row };
}
function content() {
  const list = [...decisions].sort((a, b) => a[0] - b[0]).map(([row, one]) => ({ ...named(row), ...one }));
  const threshold = step === home ? null : state.grid[step];
  return { kind: state.kind, version: state.version, keep: state.digest, threshold, decisions: list };
}
function load(saved) {
  if (!saved || !Array.isArray(saved.decisions)) return;
  for (const { key, caption, row, ...one } of saved.decisions) {
    if (!rows.has(row)) rows.set(row, { key, caption, row, right: null, keep: one.decision !== "drop" });
    decisions.set(row, one);
  }
  if (typeof saved.threshold === "number") step = nearest(saved.threshold);
}
function begin() {
  const own = remembered(), file = state.start;
  if (!own || !file || own.began === began) return load(own || file);
  load(file); // written since: what the memory lacks was not taken back by hand
  const filed = JSON.stringify(content());
  decisions.clear();
  step = home;
  load(own);
  const remembers = JSON.stringify(content());
  load(file);
  remember();
  if (remembers !== filed) say(`Merged what this browser remembers with ${state.file}, which counts where both decide; save it again.`);
}
function save() {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([JSON.stringify(content(), null, 1) + "\n"], { type: "application/json" }));
  link.download = state.file;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  say(`${decisions.size} decisions saved as ${state.file}; put it into the folder of the keep file.`);
}

// deciding
function change(entries) {
  history.push({ current, before: entries.map(([row]) => [row, decisions.get(row)]) });
  for (const [row, one] of entries) one ? decisions.set(row, one) : decisions.delete(row);
  remember();
}
function decide(number, verb) {
  const pair = state.pairs[number];
  if (!pair || (verb === "swap" && !pair.with)) return say("There is no caption to swap it for.");
  const one = verb === "swap" ? { decision: verb, with: pair.with } : { decision: verb };
  const same = (decisions.get(pair.row) || {}).decision === verb;
  change([[pair.row, same ? null : one]]);
  say(`${pair.key}, caption ${pair.caption}: ${same ? "not decided" : WORDS[verb]}.`);
  show(same ? number : beside(number, 1));
}
function undo() {
  const last = history.pop();
  if (!last) return;
  for (const [row, one] of last.before) one ? decisions.set(row, one) : decisions.delete(row);
  remember();
  say("Undone.");
  show(last.current);
}
const WORDS = { keep: "kept", drop: "dropped", swap: "swapped" };

// the page
function say(words) { at("said").textContent = words; }
function show(number, focus = true) {
  if (!cases.length) return paint();
  if (cases[number].hidden) filter(""); // what was undone may be of another kind
  cases[current].classList.remove("current");
  cases[current].tabIndex = -1;
  current = number;
  cases[current].classList.add("current");
  cases[current].tabIndex = 0;
  if (focus) {
    cases[current].focus({ preventScroll: true });
    cases[current].scrollIntoView({ block: "center" });
  }
  paint();
}
function beside(number, by) {
  let place = number + by;
  while (cases[place] && cases[place].hidden) place += by;
  return cases[place] ? place : number;
}
function filter(kind) {
  for (const item of cases) item.hidden = kind !== "" && item.dataset.kind !== kind;
  for (const button of document.querySelectorAll("[data-filter]")) button.setAttribute("aria-pressed", button.dataset.filter === kind);
  if (cases.length && cases[current].hidden) show(cases.findIndex((item) => !item.hidden), false);
}
function paint() {
  cases.forEach((item, number) => {
    const verb = (decisions.get(state.pairs[number].row) || {}).decision || "";
    item.dataset.decision = verb;
    item.querySelector(".verdict-now").textContent = verb ? `${WORDS[verb]} by hand` : "";
    for (const button of item.querySelectorAll("[data-verb]")) button.setAttribute("aria-pressed", button.dataset.verb === verb);
  });
  const done = state.pairs.filter((pair) => decisions.has(pair.row)).length;
  at("done").textContent = `${done} of ${cases.length} decided`;
  at("progress").value = done;
  at("undo").disabled = !history.length;
  for (const [twin, sides] of state.copies.entries()) {
    for (const [side, captions] of sides.entries()) {
      const place = document.querySelector(`[data-twin="${twin}"] [data-side="${side}"]`);
      const dropped = isDropped(captions);
      place.classList.toggle("dropped", dropped);
      place.querySelector("button").setAttribute("aria-pressed", dropped);
    }
  }
  count();
}
function isDropped(captions) {
  return captions.length > 0 && captions.every((one) => (decisions.get(one.row) || {}).decision === "drop");
}
function dropCopy(twin, side) {
  const captions = state.copies[twin][side], undone = isDropped(captions);
  change(captions.map((one) => [one.row, undone ? null : { decision: "drop" }]));
  say(undone ? "Not decided." : `${captions.length} captions dropped.`);
  paint();
}

// the threshold
function count() {
  const threshold = state.grid[step], low = Math.fround(threshold); // probabilities are of single precision
  let kept = state.kept[step], known = kept - (state.captions - state.known);
  let wrong = state.wrong ? state.wrong[step] : 0;
  const rate = known > 0 ? Math.min(1, wrong / known) : 0;
  for (const [row, { decision }] of decisions) {
    const { right } = rows.get(row);
    const was = right === null || right >= low, is = decision !== "drop";
    kept += is - was;
    if (right === null) continue;
    known += is - was;
    if (was) wrong -= is ? rate : 1; // what a person kept is right, and what one dropped was not
  }
  const share = known > 0 ? Math.min(100, (100 * Math.max(0, wrong)) / known) : 0;
  const number = (value) => value.toLocaleString("en");
  const words = `At ${threshold.toFixed(2)}, ${number(kept)} captions stay and ${number(state.captions - kept)} are dropped` +
    (state.wrong ? `; ${share.toFixed(1)}% of those that stay are expected to be wrong.` : ".");
  at("counts").textContent = words;
  handle.style.left = `${100 * threshold}%`;
  handle.setAttribute("aria-valuenow", threshold);
  handle.setAttribute("aria-valuetext", words);
  for (const bar of histogram.querySelectorAll("rect")) bar.classList.toggle("below", Number(bar.dataset.middle) < threshold);
  at("reset").disabled = step === home;
}
function move(place) {
  step = Math.max(0, Math.min(place, state.grid.length - 1));
  remember();
  count();
}
function under(event) {
  const box = histogram.querySelector("svg").getBoundingClientRect();
  return nearest((event.clientX - box.left) / box.width);
}
function nearest(wanted) {
  return state.grid.reduce((best, value, place) => (Math.abs(value - wanted) < Math.abs(state.grid[best] - wanted) ? place : best), 0);
}
histogram.addEventListener("pointerdown", (event) => {
  histogram.setPointerCapture(event.pointerId);
  move(under(event));
  handle.focus();
  event.preventDefault();
});
histogram.addEventListener("pointermove", (event) => { if (histogram.hasPointerCapture(event.pointerId)) move(under(event)); });
const SLIDE = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10, Home: -1e9, End: 1e9 };
handle.addEventListener("keydown", (event) => {
  if (!(event.key in SLIDE)) return;
  move(step + SLIDE[event.key]);
  event.preventDefault();
  event.stopPropagation();
});

// buttons and keys
const KEYS = {
  k: () => decide(current, "keep"), d: () => decide(current, "drop"), s: () => decide(current, "swap"),
  j: () => show(beside(current, 1)), n: () => show(beside(current, 1)), arrowright: () => show(beside(current, 1)),
  p: () => show(beside(current, -1)), arrowleft: () => show(beside(current, -1)), u: undo,
};
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const act = KEYS[event.key.toLowerCase()];
  if (!act || !cases.length) return;
  act();
  event.preventDefault();
});
at("cases").addEventListener("click", (event) => {
  const item = event.target.closest(".case"), button = event.target.closest("[data-verb]");
  if (!item) return;
  const number = Number(item.dataset.number);
  show(number, !button && !event.target.closest("summary"));
  if (button) decide(number, button.dataset.verb);
});
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (button) dropCopy(Number(button.closest("[data-twin]").dataset.twin), Number(button.dataset.copy));
});
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-filter]");
  if (button) filter(button.dataset.filter);
});
at("previous").addEventListener("click", () => show(beside(current, -1)));
at("next").addEventListener("click", () => show(beside(current, 1)));
at("undo").addEventListener("click", undo);
at("save").addEventListener("click", save);
at("reset").addEventListener("click", () => move(home));

begin();
show(0, false);
