// The page begins: what is served here decides which parts it has.
import { at, attempt, get } from "/page/api.js";
import { openCodes, startCodes } from "/page/codes.js";
import { openJudge, startJudge } from "/page/judge.js";
import { startName, takePictureToName } from "/page/name.js";
import { givePicturesTo, listenForPictures } from "/page/pictures.js";
import { startSearch, takePicture } from "/page/search.js";
import { startTabs, whenOpened } from "/page/tabs.js";

await attempt(async () => {
  const about = await get("/api/about");
  at("model-name").textContent = Object.values(about.models).map((model) => model.name).join(" beside ");
  startTabs();
  startSearch(about);
  startName(about);
  listenForPictures();
  givePicturesTo(takePicture);
  whenOpened("search", () => givePicturesTo(takePicture));
  whenOpened("name", () => givePicturesTo(takePictureToName));
  whenOpened("codes", () => { givePicturesTo(null); openCodes(); });
  whenOpened("judge", () => { givePicturesTo(null); openJudge(); });
  at("tab-judge").hidden = about.suspects === null;
  at("tab-codes").hidden = !about.codes;
  startJudge();
  startCodes();
  addEventListener("keydown", (event) => {
    if (event.key === "/" && !event.target.matches("input, textarea") && !at("search").hidden) { event.preventDefault(); at("text").focus(); }
  });
  at("text").focus({ preventScroll: true });
  document.body.dataset.ready = "yes";
});
