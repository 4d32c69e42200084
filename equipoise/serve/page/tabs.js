// The parts of the page, one open at a time; arrow keys move between their tabs.
import { at, trouble } from "/page/api.js";

const names = ["search", "name", "judge", "codes"];
const listeners = {};

export function open(name, focus = false) {
  trouble(null);
  for (const one of names) {
    const chosen = one === name, tab = at(`tab-${one}`);
    at(one).hidden = !chosen;
    tab.setAttribute("aria-selected", String(chosen));
    tab.tabIndex = chosen ? 0 : -1;
    if (chosen && focus) tab.focus();
  }
  (listeners[name] || (() => {}))();
}
export function whenOpened(name, work) { listeners[name] = work; }

export function startTabs() {
  for (const name of names) at(`tab-${name}`).addEventListener("click", () => open(name));
  at("tab-search").parentElement.addEventListener("keydown", (event) => {
    const there = names.filter((name) => !at(`tab-${name}`).hidden);
    const place = there.findIndex((name) => at(`tab-${name}`) === document.activeElement);
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (by && place >= 0) { event.preventDefault(); open(there[(place + by + there.length) % there.length], true); }
  });
}
