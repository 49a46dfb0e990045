// The bar: filters by platform, workload and outcome of claims, and the choice of light or dark. The last file: it starts all others.

const TITLES = { platform: "Platforms", workload: "Workloads", outcome: "Claims" };
const THEMES = { "as the system": null, light: "light", dark: "dark" };

function swatch(platform) {
  const drawn = svgElement("svg", { viewBox: "-1.4 -1.4 2.8 2.8", class: "swatch", "aria-hidden": "true" });
  drawn.append(svgElement("path", { d: platform.shape, fill: platform.paint }));
  return drawn;
}

function toggles(kind) {
  const group = element("fieldset", {}, element("legend", {}, TITLES[kind]));
  const buttons = new Map();
  for (const name of NAMES[kind]) {
    const button = element("button", { type: "button", "aria-pressed": "true", [`data-${kind}`]: name });
    if (kind === "platform") button.append(swatch(PAGE.platforms.find((one) => one.name === name)));
    button.append(name);
    button.addEventListener("click", () => choose(kind, [name], isLeftOut(kind, name)));
    buttons.set(name, button);
    group.append(button);
  }
  for (const [label, shown] of [["all", true], ["none", false]]) {
    const button = element("button", { type: "button", class: "every", "aria-label": `${label} of the ${kind}s` }, label);
    button.addEventListener("click", () => choose(kind, NAMES[kind], shown));
    group.append(button);
  }
  onChoice(() => {
    for (const [name, button] of buttons) button.setAttribute("aria-pressed", String(!isLeftOut(kind, name)));
  });
  return group;
}

function chosenLine() {
  return KINDS.filter((kind) => NAMES[kind].length > 0)
    .map((kind) => {
      const all = NAMES[kind].length;
      const shown = all - leftOut[kind].size;
      if (all === 1 && shown === 1) return `one ${kind}`;
      return shown === all ? `all ${all} ${kind}s` : `${shown} of ${all} ${kind}s`;
    })
    .join(", ");
}

function themeChoice() {
  const group = element("fieldset", { class: "theme" }, element("legend", {}, "Colours"));
  const buttons = Object.entries(THEMES).map(([label, wanted]) => {
    const button = element("button", { type: "button", "aria-pressed": String(wanted === theme) }, label);
    button.addEventListener("click", () => {
      for (const one of buttons) one.setAttribute("aria-pressed", String(one === button));
      setTheme(wanted);
      remember();
    });
    return button;
  });
  group.append(...buttons);
  return group;
}

function startBar() {
  const line = element("span", { "aria-live": "polite" });
  const summary = element("summary", {}, "Filter: ", line);
  const groups = KINDS.filter((kind) => NAMES[kind].length > 1).map(toggles);
  const help = "A click on a platform's name lights it everywhere until the next click or Escape.";
  const bar = element("details", { class: "filter" }, summary, ...groups, themeChoice(), element("p", { class: "meta" }, help));
  document.querySelector("body > header").after(element("aside", { "aria-label": "Filter" }, bar));
  onChoice(() => {
    line.textContent = chosenLine();
  });
}

recall();
startBar();
startTables();
startFigures();
followNames();
choose("platform", [], true);
