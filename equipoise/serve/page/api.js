// Asking the server: the token, errors as sentences, pictures that need the token too.
export const at = (id) => document.getElementById(id);

// The token stands behind # in the address, which browsers send nowhere; it is kept for this tab and taken out of sight.
function token() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    history.replaceState(null, "", location.pathname);
    try { sessionStorage.setItem("token", given); } catch { /* then it lasts until the page is loaded again */ }
    return given;
  }
  try { return sessionStorage.getItem("token"); } catch { return null; }
}
const secret = token();
const headers = secret ? { Authorization: "Bearer " + secret } : {};

async function answered(request) {
  let response;
  try {
    response = await request;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer; is it still running?");
  }
  if (response.ok) return response;
  const said = await response.json().catch(() => null);
  throw new Error(said && said.error ? said.error[0].toUpperCase() + said.error.slice(1) : `The server answered ${response.status}.`);
}
export async function get(path, signal) {
  return (await answered(fetch(path, { headers, signal }))).json();
}
export async function post(path, content, signal) {
  const body = JSON.stringify(content);
  return (await answered(fetch(path, { method: "POST", body, signal, headers: { ...headers, "Content-Type": "application/json" } }))).json();
}
export async function upload(file) {
  const body = new FormData();
  body.append("file", file);
  return (await answered(fetch("/api/pictures", { method: "POST", body, headers }))).json();
}

// An img element cannot send a token; where one is needed its bytes are fetched.
export function showPicture(img, path, none) {
  const gone = () => { img.hidden = true; if (none) none(); };
  img.onerror = gone;
  if (!secret) { img.src = path; return; }
  answered(fetch(path, { headers })).then((response) => response.blob()).then((blob) => {
    img.onload = () => URL.revokeObjectURL(img.src);
    img.src = URL.createObjectURL(blob);
  }).catch(gone);
}

export function make(tag, attributes = {}, ...inside) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (value !== false && value !== null) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...inside);
  return element;
}

export function trouble(error) {
  const box = at("trouble");
  box.textContent = error ? error.message || String(error) : "";
  box.hidden = !error;
  if (error) box.scrollIntoView({ block: "nearest" });
}
// Runs what a visitor asked for, and says what went wrong.
export async function attempt(work) {
  trouble(null);
  try {
    return await work();
  } catch (error) {
    if (error.name !== "AbortError") trouble(error);
    return undefined;
  }
}
