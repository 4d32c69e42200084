// Suspicious captions: keep, drop, swap, take back, by mouse or keyboard. Every decision is written at once.
import { at, attempt, get, make, post, showPicture } from "/page/api.js";

const PAGE = 20;
const KINDS = { another: "it looks like another picture's", detail: "it nearly fits", vague: "it fits many pictures alike" };
let start = 0, total = 0, judged = 0, readOnly = false, shown = [], current = 0, opened = false;

export function startJudge() {
  at("more").addEventListener("click", () => turn(PAGE));
  at("fewer").addEventListener("click", () => turn(-PAGE));
  addEventListener("keydown", pressed);
}
export function openJudge() {
  if (!opened) { opened = true; load(); }
}
function turn(by) {
  start = Math.max(0, start + by);
  load().then(() => scrollTo({ top: 0 }));
}

async function load() {
  at("judge-said").textContent = "Reading …";
  const answer = await attempt(() => get(`/api/suspects?start=${start}&count=${PAGE}`));
  at("judge-said").textContent = "";
  if (!answer) { opened = false; return; }
  ({ total, judged } = answer);
  readOnly = answer.read_only;
  at("finding").textContent = `${answer.finding} The least likely captions come first.`;
  at("judge-keys").hidden = readOnly;
  shown = answer.suspects.map((suspect) => ({ suspect, better: undefined }));
  shown.forEach((one, place) => { one.element = card(one, place); });
  at("cases").replaceChildren(...shown.map((one) => one.element));
  at("fewer").disabled = start === 0;
  at("more").disabled = start + PAGE >= total;
  say();
  point(0, false);
}
function say() {
  const last = Math.min(start + PAGE, total);
  at("judge-place").textContent = `${(start + 1).toLocaleString()} to ${last.toLocaleString()} of ${total.toLocaleString()}; ${judged.toLocaleString()} decided by hand${readOnly ? " (looking alone: nothing can be decided here)" : ""}`;
}

function card(one, place) {
  const { suspect } = one, img = make("img", { alt: `The picture of ${suspect.name}`, loading: "lazy" });
  showPicture(img, `/api/suspects/${suspect.row}/thumbnail`);
  const chance = suspect.right < 0.0001 ? "under 1 in 10,000" : suspect.right.toFixed(4);
  one.words = make("p", { class: "words" }, suspect.text);
  one.proposal = make("p", { class: "better" });
  one.verbs = make("div", { class: "verbs", role: "group", "aria-label": `Decide on “${suspect.text}”` });
  for (const [verb, label] of [["keep", "Keep: it is right"], ["drop", "Drop: it is wrong"], ["swap", "Swap: take the better one"]]) {
    one.verbs.append(make("button", { type: "button", "data-verb": verb, "aria-pressed": "false", disabled: readOnly || verb === "swap", onclick: () => { point(place, false); decide(one, verb); } }, label));
  }
  const others = suspect.others.length ? [make("details", {}, make("summary", {}, `${suspect.others.length} other caption${suspect.others.length > 1 ? "s" : ""} of this picture`), make("ul", {}, ...suspect.others.map((text) => make("li", {}, text))))] : [];
  const element = make("li", { class: "card case", tabindex: "-1", onfocusin: () => point(place, false) }, img, make("div", {},
    make("h2", {}, `${suspect.name} · chance that it is right: ${chance}${suspect.kind ? ` · ${KINDS[suspect.kind] || suspect.kind}` : ""} · the rule ${suspect.kept ? "keeps" : "drops"} it`), one.words, one.proposal, ...others, one.verbs));
  one.element = element;
  mark(one);
  return element;
}
function mark(one) {
  const { decision, instead } = one.suspect;
  one.element.dataset.decision = decision || "";
  for (const button of one.verbs.children) button.setAttribute("aria-pressed", String(button.dataset.verb === decision));
  if (decision === "swap" && instead) one.proposal.replaceChildren(make("span", {}, "it now has this caption instead:"), instead);
}

function point(place, moves = true) {
  if (!shown[place]) return;
  if (shown[current]) shown[current].element.classList.remove("current");
  current = place;
  const one = shown[place];
  one.element.classList.add("current");
  if (moves) { one.element.focus({ preventScroll: true }); one.element.scrollIntoView({ block: "center" }); }
  propose(one);
}
async function propose(one) {
  if (one.better !== undefined || readOnly) return;
  one.better = null;
  const better = await get(`/api/suspects/${one.suspect.row}/better`).catch(() => null);
  if (!better || better.row === null) return;
  one.better = better;
  one.verbs.querySelector("[data-verb=swap]").disabled = false;
  if (one.suspect.decision !== "swap") one.proposal.replaceChildren(make("span", {}, "this model finds the caption of another picture fits better:"), better.text);
}

async function decide(one, verb) {
  if (readOnly) return;
  const decision = one.suspect.decision === verb ? null : verb;
  if (decision === "swap" && !one.better) return;
  const answer = await attempt(() => post(`/api/suspects/${one.suspect.row}`, { decision, instead: decision === "swap" ? one.better.row : null }));
  if (!answer) return;
  one.suspect = answer.suspect;
  judged = answer.judged;
  mark(one);
  say();
  at("judge-said").textContent = decision ? `Noted: ${decision}.` : "Taken back.";
}
function pressed(event) {
  if (at("judge").hidden || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea")) return;
  if (event.key.startsWith("Arrow") && event.target.matches("[role=tab]")) return; // they move between tabs
  const one = shown[current], key = event.key.toLowerCase();
  if (!one) return;
  if (key === "arrowright" || key === "j") point(current + 1);
  else if (key === "arrowleft" || key === "p") point(current - 1);
  else if (key === "u" && one.suspect.decision) decide(one, one.suspect.decision);
  else if (["k", "d", "s"].includes(key)) {
    const verb = { k: "keep", d: "drop", s: "swap" }[key];
    if (one.suspect.decision !== verb) decide(one, verb).then(() => { if (one.suspect.decision === verb) point(current + 1); });
  } else return;
  event.preventDefault();
}
