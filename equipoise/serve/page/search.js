// Searching: text, picture, both; more like this; why; two models side by side.
import { at, attempt, get, make, post, showPicture } from "/page/api.js";
import { colouredWords, drawHeat } from "/page/heat.js";
import { namePicture } from "/page/name.js";

const K = 24;
let about, given = null; // {picture} or {row}, the picture of the query
let running = null; // the search that is under way, ended by the next

export function startSearch(found) {
  about = found;
  at("search-lead").textContent = `Words, a picture, or both: the closest of ${about.data} are shown.`;
  for (const text of about.examples) at("examples").append(make("button", { type: "button", onclick: () => { at("text").value = text; forget(); search(); } }, text));
  at("examples").hidden = !about.examples.length;
  at("text").maxLength = at("without").maxLength = about.letters;
  const fields = Object.keys(about.fields);
  at("filter").hidden = !fields.length;
  at("where").placeholder = `names: ${fields.join(", ")}; such as ${fields[0]} = ...`;
  at("query").addEventListener("submit", (event) => { event.preventDefault(); search(); });
  at("forget").addEventListener("click", () => { forget(); at("text").focus(); });
  showSome();
  unfolds("leave-out", "without-line", "without");
  unfolds("filter", "where-line", "where");
}

// Before anything was searched for: what there is to find.
async function showSome() {
  const some = await attempt(() => get("/api/sample"));
  if (!some || running) return;
  at("said").textContent = "Some of what there is:";
  at("results").replaceChildren(make("ul", { class: "found" }, ...some.found.map((hit) => card(hit, "first", "", false))));
}

function unfolds(button, line, field) {
  at(button).addEventListener("click", () => {
    at(line).hidden = !at(line).hidden;
    at(button).setAttribute("aria-expanded", String(!at(line).hidden));
    at(line).hidden ? (at(field).value = "") : at(field).focus();
  });
}

export function takePicture(picture, preview) {
  given = { picture };
  at("given-picture").src = preview;
  at("given").hidden = false;
  search();
}
function forget() {
  given = null;
  at("given").hidden = true;
  at("given-picture").removeAttribute("src");
}
function moreLike(row, model) {
  given = { row };
  at("given").hidden = false;
  at("given-picture").hidden = false;
  showPicture(at("given-picture"), `/api/rows/${row}/thumbnail?model=${model}`);
  at("text").value = at("without").value = "";
  scrollTo({ top: 0 });
  search();
}

async function search() {
  const text = at("text").value.trim(), without = at("without").value.trim(), where = at("where").value.trim();
  if (!text && !given) { at("said").textContent = "Write what to look for, or give a picture."; at("text").focus(); return; }
  if (running) running.abort();
  const mine = (running = new AbortController());
  at("said").textContent = "Searching …";
  const query = { k: K, texts: text ? [text] : [], without: without ? [without] : [], where: where || null };
  if (given && given.picture) query.pictures = [given.picture];
  if (given && "row" in given) query.rows = [given.row];
  const found = await attempt(() => Promise.all(Object.keys(about.models).map((model) =>
    post("/api/search", { ...query, model, version: about.models[model].version }, mine.signal).then((answer) => ({ ...answer, key: model })))));
  if (mine.signal.aborted) return;
  if (!found) { at("said").textContent = ""; return; }
  show(found, text, without);
}

function described(text, without) {
  const parts = [given ? "the picture" : "", text ? `“${text}”` : ""].filter(Boolean).join(" + ");
  return without ? `${parts} − “${without}”` : parts;
}

function show(answers, text, without) {
  const range = about.models[answers[0].key].range;
  const scale = range ? `, from ${range[0]} to ${range[1]}` : "";
  const tells = about.models[answers[0].key].explains && (text || answers[0].found.some((hit) => hit.caption)); // why needs words
  const hover = tells ? " Point at a picture, or tap it, to see why." : "";
  const count = answers[0].found.length;
  at("said").textContent = count ? `The ${count} closest to ${described(text, without)}. The number is the similarity${scale}.${hover}` : `Nothing was found for ${described(text, without)}.`;
  const lists = answers.map((answer) => list(answer, text, answers));
  at("results").replaceChildren(lists.length === 1 ? lists[0] : make("div", { class: "sides" }, ...answers.map((answer, place) => make("div", {}, make("h2", {}, answer.model), lists[place]))));
}

function list(answer, text, answers) {
  const others = answers.filter((one) => one !== answer).flatMap((one) => one.found.map((hit) => hit.row));
  return make("ul", { class: "found" }, ...answer.found.map((hit) => card(hit, answer.key, text, answers.length > 1 && others.includes(hit.row))));
}

function card(hit, model, text, both) {
  const img = make("img", { alt: hit.caption || hit.name, loading: "lazy", decoding: "async" });
  const canvas = make("canvas", { "aria-hidden": "true" });
  const words = make("p", {}, hit.caption || hit.name), reason = make("p", { class: "reason" });
  const frame = make("button", { class: "frame", type: "button", title: hit.name, "aria-label": `Why was this found? ${hit.caption || hit.name}` },
    img, canvas, ...(hit.score === null ? [] : [make("span", { class: "score" }, hit.score.toFixed(3))]));
  if (hit.has_picture) showPicture(img, `/api/rows/${hit.row}/thumbnail?model=${model}`, () => frame.append(make("span", { class: "none" }, "no picture")));
  else { img.hidden = true; frame.append(make("span", { class: "none" }, "a text")); }
  const tools = make("div", { class: "tools" }, make("button", { type: "button", onclick: () => moreLike(hit.row, model) }, "More like this"));
  if (hit.has_picture) tools.append(make("button", { type: "button", onclick: () => namePicture({ row: hit.row, model }) }, "Name it"));
  const item = make("li", { class: "hit" }, frame, make("div", { class: "text" }, reason, words, ...(both ? [make("span", { class: "both" }, "found by both")] : [])), tools);
  if (hit.has_picture && about.models[model].explains) explainOn({ item, frame, canvas, words, reason }, hit, model, text || hit.caption, !text);
  return item;
}

// Shown while the mouse or the keyboard is on the picture; a tap turns it on and off.
function explainOn(parts, hit, model, text, own) {
  if (!text) return;
  let asked = null, stays = false, waiting = 0;
  const on = () => {
    clearTimeout(waiting);
    waiting = setTimeout(async () => {
      asked ||= post("/api/explain", { row: hit.row, text, model }).then((why) => draw(parts, why, own));
      try { await asked; parts.item.classList.add("why"); } catch { asked = null; }
    }, 120);
  };
  const off = () => { clearTimeout(waiting); if (!stays) parts.item.classList.remove("why"); };
  parts.frame.addEventListener("pointerenter", (event) => { if (event.pointerType === "mouse") on(); });
  parts.frame.addEventListener("pointerleave", off);
  parts.frame.addEventListener("focus", () => { if (parts.frame.matches(":focus-visible")) on(); });
  parts.frame.addEventListener("blur", () => { stays = false; off(); });
  parts.frame.addEventListener("click", () => { stays = !stays; stays ? on() : off(); });
}
function draw(parts, why, own) {
  drawHeat(parts.canvas, why.places);
  parts.frame.classList.toggle("whole", why.resize === "squash");
  const coloured = colouredWords(why.text, why.words);
  if (own) parts.words.replaceChildren(...coloured);
  else parts.reason.replaceChildren("because of ", ...coloured);
}
