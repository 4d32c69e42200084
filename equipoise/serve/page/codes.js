// The code book: codes with their words and pictures, or the codes of a word.
import { at, attempt, get, make, showPicture } from "/page/api.js";

const PAGE = 24;
let start = 0, opened = false;

export function startCodes() {
  at("code-form").addEventListener("submit", (event) => { event.preventDefault(); start = 0; load(); });
  at("codes-more").addEventListener("click", () => { start += PAGE; load(); });
}
export function openCodes() {
  if (!opened) { opened = true; load(); }
}
async function load() {
  const word = at("code-word").value.trim();
  at("codes-said").textContent = "Reading … the first time takes a while.";
  const answer = await attempt(() => get(`/api/codes?start=${start}&count=${PAGE}&word=${encodeURIComponent(word)}`));
  if (!answer) { opened = false; at("codes-said").textContent = ""; return; }
  at("codes-said").textContent = word ? `${answer.total} codes answer to “${word}”, those first that do so more than usual.` : `${answer.total} codes are used, the most used first.`;
  if (!start) at("code-list").replaceChildren();
  at("code-list").append(...answer.codes.map((code) => card(code, Boolean(word))));
  at("codes-more").hidden = Boolean(word) || start + PAGE >= answer.total;
}
function card(code, asked) {
  const share = asked ? `${(100 * code.share).toFixed(1)}% of the word, usually ${(100 * code.usual).toFixed(1)}%` : `${(50 * (code.share_image + code.share_text)).toFixed(1)}% of all use`;
  const pictures = code.pictures.map((item) => {
    const img = make("img", { alt: "", loading: "lazy" });
    showPicture(img, `/api/codes/pictures/${item}/thumbnail`);
    return img;
  });
  return make("article", { class: "card code" }, make("h2", {}, `Code ${code.code}`, make("span", {}, share)), make("p", {}, code.words.join(" · ") || "no words"), make("div", {}, ...pictures));
}
