// Figures: each one's specification drawn by Vega (`library/`) when it comes into view, as wide as the page lets it be.
//
// The SVG that stands in the page is what is printed, and what is seen until the drawing is there. A mark's datum has
// `platform`, `workload` and `said`, the words for it (`report/figures/base.py`).

const NARROW = window.matchMedia("(max-width: 44rem)");
const SILENT = { level: () => SILENT, error: () => SILENT, warn: () => SILENT, info: () => SILENT, debug: () => SILENT };
const drawings = new Map();
const tip = element("div", { class: "tip", "aria-hidden": "true", hidden: "" });
const spoken = element("p", { class: "unseen", "aria-live": "polite" });

function showTip(text, x, y) {
  tip.textContent = text;
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const left = Math.min(Math.max(8, x + 14), document.documentElement.clientWidth - width - 8);
  const above = y - height - 14;
  tip.style.left = `${left}px`;
  tip.style.top = `${above < 8 ? y + 18 : above}px`;
}

function hideTip() {
  tip.hidden = true;
}

// A copy of a specification without the data that the choice leaves out. What has no `said` is a legend's or a line's.
function chosenOf(part) {
  if (Array.isArray(part)) {
    return part
      .filter((one) => !(one !== null && typeof one === "object" && "said" in one && isDatumLeftOut(one)))
      .map(chosenOf);
  }
  if (part === null || typeof part !== "object") return part;
  return Object.fromEntries(Object.entries(part).map(([name, value]) => [name, chosenOf(value)]));
}

// How many data with words a specification has.
function countSaid(part) {
  if (part === null || typeof part !== "object") return 0;
  const own = !Array.isArray(part) && typeof part.said === "string" ? 1 : 0;
  return own + Object.values(part).reduce((sum, one) => sum + countSaid(one), 0);
}

// The datum of a drawing's element. A line is of many: of theirs it has what is the same, its platform and workload.
function datumOf(mark) {
  const item = mark.__data__;
  if (item?.datum === undefined) return {};
  const { platform, workload, said } = item.datum;
  return item.mark.marktype === "line" ? { platform, workload } : { platform, workload, said };
}

// The elements of a drawing that are of data, in the order drawn: [{ mark, datum }].
function marksOf(svg) {
  return [...svg.querySelectorAll("path, line, rect, text, circle")]
    .map((mark) => ({ mark, datum: datumOf(mark) }))
    .filter(({ datum }) => datum.platform !== undefined || datum.said !== undefined);
}

// What `browser.packed` has made of a text.
async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

let library = null;

// Vega, Vega-Lite and the interpreter, run at the first figure; the page's policy knows their texts.
function loadLibrary() {
  library ??= Promise.all([...document.querySelectorAll("script.library")].map((one) => unpacked(one.textContent))).then(
    (texts) => {
      for (const text of texts) {
        const script = element("script");
        script.textContent = text;
        document.head.append(script);
      }
    },
  );
  return library;
}

// One drawing of a figure at a time: what is asked for while it is drawn is drawn after it. Where that fails, the SVG
// of the page is what is seen.
async function drawFigure(figure) {
  const drawing = drawings.get(figure);
  if (drawing.busy) return;
  drawing.busy = true;
  try {
    while (drawing.stale && drawing.inView) {
      drawing.stale = false;
      await drawOnce(figure, drawing);
    }
  } catch (error) {
    figure.classList.remove("drawn");
    throw error;
  } finally {
    drawing.busy = false;
  }
}

async function drawOnce(figure, drawing) {
  const width = NARROW.matches && drawing.packed.column !== undefined ? "column" : "page";
  await loadLibrary();
  drawing.specs[width] ??= JSON.parse(await unpacked(drawing.packed[width]));
  const specification = chosenOf(drawing.specs[width]);
  drawing.view?.finalize();
  drawing.place.replaceChildren();
  if (countSaid(drawing.specs[width]) > 0 && countSaid(specification) === 0) {
    drawing.place.append(element("p", { class: "meta" }, "The filter leaves out everything that this figure shows."));
    drawing.marks = drawing.told = [];
    figure.classList.add("drawn");
    return;
  }
  const compiled = vegaLite.compile(specification, { config: PAGE.config[width], logger: SILENT }).spec;
  drawing.view = new vega.View(vega.parse(compiled, null, { ast: true }), {
    container: drawing.place,
    expr: expressionInterpreter,
    renderer: "svg",
    logger: SILENT,
    loader: { load: () => Promise.reject(new Error("a page loads nothing")), sanitize: () => Promise.reject() },
  });
  drawing.view.tooltip(() => undefined);
  await drawing.view.runAsync();
  finishDrawing(figure, drawing);
}

function finishDrawing(figure, drawing) {
  const svg = drawing.place.querySelector("svg");
  const { width, height } = svg.getBoundingClientRect();
  if (!svg.hasAttribute("viewBox")) svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", figure.querySelector("figcaption b").textContent);
  svg.setAttribute("aria-describedby", figure.querySelector("figcaption").id);
  for (const inner of svg.querySelectorAll("[role], [aria-roledescription]")) {
    for (const name of ["role", "aria-roledescription", "aria-label"]) inner.removeAttribute(name);
  }
  drawing.marks = marksOf(svg);
  const told = drawing.marks.filter(({ datum }) => datum.said !== undefined);
  drawing.told = [...new Map(told.map((one) => [one.datum.said, one])).values()]; // a bar and its interval say the same
  drawing.at = -1;
  figure.classList.add("drawn");
  shade(drawing);
}

// Marks of other platforms than the lit one step back; so do those in a legend that the choice leaves out.
function shade(drawing) {
  for (const { mark, datum } of drawing.marks) {
    const other = lit !== null && datum.platform !== undefined && datum.platform !== lit;
    mark.classList.toggle("back", other || isDatumLeftOut(datum));
  }
}

function tell(drawing, place) {
  const told = drawing.told ?? [];
  if (told.length === 0) return;
  drawing.at = Math.min(Math.max(place, 0), told.length - 1);
  const { mark, datum } = told[drawing.at];
  const { left, right, top } = mark.getBoundingClientRect();
  light(datum.platform ?? null);
  showTip(datum.said, (left + right) / 2, top);
  spoken.textContent = datum.said;
}

const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

function listenTo(drawing) {
  drawing.place.addEventListener("pointermove", (event) => {
    const datum = datumOf(event.target);
    light(datum.platform ?? null);
    if (datum.said === undefined) hideTip();
    else showTip(datum.said, event.clientX, event.clientY);
  });
  drawing.place.addEventListener("pointerleave", () => {
    hideTip();
    light(null);
  });
  drawing.place.addEventListener("click", (event) => {
    const { platform, said } = datumOf(event.target);
    if (platform !== undefined) pin(platform);
    if (said !== undefined) showTip(said, event.clientX, event.clientY); // a finger does not hover
  });
  drawing.place.addEventListener("keydown", (event) => {
    const last = (drawing.told?.length ?? 0) - 1;
    const next = { Home: 0, End: last }[event.key] ?? (event.key in STEPS ? drawing.at + STEPS[event.key] : null);
    if (next === null) return;
    event.preventDefault();
    tell(drawing, next);
  });
  drawing.place.addEventListener("blur", hideTip);
}

function startFigures() {
  const seen = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        drawings.get(target).inView = isIntersecting;
        drawFigure(target);
      }
    },
    { rootMargin: "300px" },
  );
  for (const figure of document.querySelectorAll("figure")) {
    const found = [...figure.querySelectorAll("script.specification")];
    if (found.length === 0) continue;
    const packed = Object.fromEntries(found.map((one) => [one.dataset.width, one.textContent]));
    const title = figure.querySelector("figcaption b").textContent;
    const label = `${title} Arrow keys tell its values.`;
    const place = element("div", { class: "drawing", tabindex: "0", role: "group", "aria-label": label });
    figure.querySelector(".plate").append(place);
    drawings.set(figure, { place, packed, specs: {}, stale: true, inView: false, marks: [] });
    listenTo(drawings.get(figure));
    seen.observe(figure);
  }
  document.body.append(tip, spoken);
  document.addEventListener("pointerdown", hideTip);
  const renew = () => {
    for (const [figure, drawing] of drawings) {
      drawing.stale = true;
      drawFigure(figure);
    }
  };
  onChoice(renew);
  NARROW.addEventListener("change", renew);
  onLight(() => {
    for (const drawing of drawings.values()) shade(drawing);
  });
}
