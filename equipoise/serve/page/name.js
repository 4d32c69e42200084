// Zero-shot: which of the names that are typed fits a picture.
import { at, attempt, make, post, showPicture } from "/page/api.js";
import { open } from "/page/tabs.js";

let about, given = null; // {picture} or {row, model}

export function startName(found) {
  about = found;
  at("classes").placeholder = "a fish\na star\na tree";
  at("classes-form").addEventListener("submit", (event) => { event.preventDefault(); classify(); });
}
export function takePictureToName(picture, preview) {
  given = { picture };
  show(() => { at("name-picture").src = preview; });
}
export function namePicture(found) {
  given = found;
  open("name");
  show(() => showPicture(at("name-picture"), `/api/rows/${found.row}/thumbnail?model=${found.model}`));
}
function show(fill) {
  at("name-picture").hidden = false;
  at("name-hint").textContent = "Another one: drop or paste it, or";
  fill();
  at("guesses").replaceChildren();
  if (names().length > 1) classify();
  else at("classes").focus();
}
const names = () => [...new Set(at("classes").value.split(/[\n,]/).map((name) => name.trim()).filter(Boolean))];

async function classify() {
  const classes = names();
  if (!given) { at("name-said").textContent = "Give a picture first."; return; }
  if (classes.length < 2) { at("name-said").textContent = "Type at least two names to choose among."; at("classes").focus(); return; }
  at("name-said").textContent = "Looking …";
  const { model, ...picture } = given;
  const models = "row" in given ? [model] : Object.keys(about.models); // rows of one index are not those of another
  const ask = (key) => post("/api/classify", { ...picture, classes, template: at("template").value, model: key });
  const answers = await attempt(() => Promise.all(models.map(ask)));
  at("name-said").textContent = answers ? `Most likely ${answers[0].guesses[0].name}, of these names and no others.` : "";
  if (answers) at("guesses").replaceChildren(...answers.map((answer) => bars(answer, answers.length > 1)));
}
function bars(answer, named) {
  const rows = answer.guesses.map((guess) => {
    const bar = make("i");
    bar.style.width = `${(100 * guess.probability).toFixed(1)}%`;
    const share = guess.probability < 0.001 ? "< 0.1%" : `${(100 * guess.probability).toFixed(1)}%`;
    return make("div", { class: "guess", title: `similarity ${guess.similarity.toFixed(3)}` }, make("b", {}, guess.name), make("span", { class: "track" }, bar), make("span", {}, share));
  });
  return make("div", { class: "card" }, ...(named ? [make("h2", {}, answer.model)] : []), make("div", {}, ...rows));
}
