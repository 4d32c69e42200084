// Shows the codes one of whose words starts with each word typed.
const box = document.getElementById("word"), count = document.getElementById("count");
const codes = [...document.getElementById("codes").children].map((item) => [item, item.dataset.words.split(" ")]);
function search() {
  const typed = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const [item, words] of codes) {
    const fits = typed.every((part) => words.some((word) => (part[0] === "#" ? word === part : word.startsWith(part))));
    item.hidden = !fits;
    shown += fits;
  }
  count.textContent = `${shown} ${shown === 1 ? "code" : "codes"}`;
}
box.addEventListener("input", search);
box.value = decodeURIComponent(location.hash.startsWith("#word=") ? location.hash.slice(6) : "");
search();
