// Why a picture was found: heat over its places, colour under the words.
import { make } from "/page/api.js";

const heat = () => getComputedStyle(document.documentElement).getPropertyValue("--heat").trim();

// Shares of places [S][S] as a small picture that the browser spreads out smoothly; what lies below stays to be seen.
export function drawHeat(canvas, places) {
  const side = places.length, most = Math.max(...places.flat(), 1e-12);
  canvas.width = canvas.height = side;
  const draw = canvas.getContext("2d"), pixels = draw.createImageData(side, side);
  const [red, green, blue] = heat().split(",").map(Number);
  places.flat().forEach((share, place) => {
    pixels.data.set([red, green, blue, Math.round((165 * share) / most)], 4 * place);
  });
  draw.putImageData(pixels, 0, 0);
}

// The text again, each word on the colour of its share.
export function colouredWords(text, words) {
  const most = Math.max(...words.map((word) => word.relevance), 1e-12);
  const parts = [], letters = Array.from(text); // the server counts letters, not halves of them
  let place = 0;
  for (const word of words) {
    parts.push(letters.slice(place, word.start).join(""));
    const span = make("span", { class: "word", title: `${Math.round(100 * word.relevance)}% of the text's relevance` }, letters.slice(word.start, word.stop).join(""));
    span.style.backgroundColor = `rgba(${heat()}, ${(0.75 * word.relevance) / most})`;
    parts.push(span);
    place = word.stop;
  }
  parts.push(letters.slice(place).join(""));
  return parts;
}
