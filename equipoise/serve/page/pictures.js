// Pictures that a visitor gives: chosen, dropped or pasted anywhere; the part of the page that is open takes them.
import { at, attempt, upload } from "/page/api.js";

let takes = null; // what the open part does with a picture: (name, address of a preview)
export function givePicturesTo(taker) { takes = taker; }

export async function give(file) {
  if (!file || !takes) return;
  const taker = takes;
  await attempt(async () => {
    if (!file.type.startsWith("image/")) throw new Error(`“${file.name || "That"}” is no picture; give a JPEG, PNG, WebP, GIF, BMP or TIFF.`);
    const { picture } = await upload(file);
    taker(picture, URL.createObjectURL(file));
  });
}

export function listenForPictures() {
  const carries = (event) => event.dataTransfer && [...event.dataTransfer.types].includes("Files");
  addEventListener("dragover", (event) => { if (carries(event)) { event.preventDefault(); at("dropping").hidden = false; } });
  addEventListener("dragleave", (event) => { if (!event.relatedTarget) at("dropping").hidden = true; });
  addEventListener("drop", (event) => {
    at("dropping").hidden = true;
    if (!carries(event)) return;
    event.preventDefault();
    give(event.dataTransfer.files[0]);
  });
  addEventListener("paste", (event) => {
    const file = [...(event.clipboardData ? event.clipboardData.files : [])].find((one) => one.type.startsWith("image/"));
    if (file) { event.preventDefault(); give(file); }
  });
  for (const id of ["file", "name-file"]) {
    at(id).addEventListener("change", () => { give(at(id).files[0]); at(id).value = ""; });
  }
}
