// What the reader has chosen: which platforms, workloads and outcomes of claims are left out, and which platform is lit.
//
// Tables, figures and the bar register with `onChoice` and `onLight`, and change what they show when they are called.
// All files of this folder stand in one function on the page, in the order that `browser` has.

const PAGE = JSON.parse(document.getElementById("page-facts").textContent);
const KINDS = ["platform", "workload", "outcome"];
const NAMES = { platform: PAGE.platforms.map((one) => one.name), workload: PAGE.workloads, outcome: PAGE.outcomes };
const leftOut = { platform: new Set(), workload: new Set(), outcome: new Set() };
const choiceListeners = [];
const lightListeners = [];
let theme = null; // "light", "dark", or null: as the system has it
let lit = null;
let pinned = null;

function onChoice(listener) {
  choiceListeners.push(listener);
}

function onLight(listener) {
  lightListeners.push(listener);
}

function isLeftOut(kind, name) {
  return leftOut[kind].has(name);
}

// Of a datum of a figure, or of anything else with `platform` and `workload`: whether the choice leaves it out.
function isDatumLeftOut(datum) {
  return KINDS.some((kind) => datum[kind] !== undefined && leftOut[kind].has(datum[kind]));
}

function choose(kind, names, shown) {
  for (const name of names) {
    if (shown) leftOut[kind].delete(name);
    else leftOut[kind].add(name);
  }
  remember();
  for (const listener of choiceListeners) listener();
}

function setTheme(wanted) {
  theme = wanted;
  if (theme === null) delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

// `name`: the platform to light, or null. What is pinned by a click stays lit when the pointer goes.
function light(name) {
  const wanted = name ?? pinned;
  if (wanted === lit) return;
  lit = wanted;
  for (const listener of lightListeners) listener(lit);
}

function pin(name) {
  pinned = pinned === name ? null : name;
  light(pinned);
}

// A page that is renewed while its run goes on keeps the choice; a browser that stores nothing just forgets it.
function remember() {
  const kept = Object.fromEntries([...KINDS.map((kind) => [kind, [...leftOut[kind]]]), ["theme", theme]]);
  try {
    sessionStorage.setItem(`virtoll ${PAGE.run}`, JSON.stringify(kept));
  } catch {
    return;
  }
}

function recall() {
  let kept = null;
  try {
    kept = JSON.parse(sessionStorage.getItem(`virtoll ${PAGE.run}`));
  } catch {
    return;
  }
  setTheme(["light", "dark"].includes(kept?.theme) ? kept.theme : null);
  for (const kind of KINDS) {
    for (const name of kept?.[kind] ?? []) if (NAMES[kind].includes(name)) leftOut[kind].add(name);
  }
}

// An element with attributes and children; a string is a text, never markup.
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function svgElement(tag, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

// A platform is lit while the pointer or the focus is on anything that has its name; Escape ends it.
function followNames() {
  const named = (event) => event.target.closest?.("[data-platform]")?.dataset.platform ?? null;
  const focused = (event) => event.target.querySelector?.("[data-platform]")?.dataset.platform ?? named(event);
  document.addEventListener("pointerover", (event) => {
    if (event.target.closest?.(".drawing") == null) light(named(event));
  });
  document.addEventListener("focusin", (event) => light(focused(event)));
  document.addEventListener("focusout", () => light(null));
  document.addEventListener("click", (event) => {
    const name = event.target.closest?.("button, summary, a") ? null : named(event);
    if (name !== null) pin(name);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    pinned = null;
    light(null);
    hideTip();
  });
}
