// Tables: rows and columns that the choice leaves out, sorting by a column's head, and regions that scroll.

const UNITS = {
  ns: 1, µs: 1e3, ms: 1e6, s: 1e9, min: 60e9,
  B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40,
  k: 1e3, M: 1e6, G: 1e9, ppm: 1e-4,
};
const RATE = /^([kMG]?)(?:frames|bit|B)\/s$/;

// What a cell says first, without what stands small below it.
function mainText(cell) {
  const small = "small, details, .words";
  return [...cell.childNodes]
    .filter((node) => node.nodeType === Node.TEXT_NODE || (node.nodeType === Node.ELEMENT_NODE && !node.matches(small)))
    .map((node) => (node.matches?.("button") ? mainText(node) : node.textContent))
    .join("")
    .trim();
}

// A cell's number in the smallest unit of its kind: `data-value`, else what its text says; null where it says none.
function numberOf(cell) {
  if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
  const found = /^[<>≥≤±~]*\s*([+−-]?[\d.]+)\s*(\S*)(?: (\d+) s$)?/.exec(mainText(cell).replaceAll("\u00a0", " "));
  if (found === null) return null;
  const rate = RATE.exec(found[2]);
  const scale = UNITS[rate === null ? found[2] : rate[1]] ?? 1;
  return Number(found[1].replace("−", "-")) * scale + (found[2] === "min" ? Number(found[3] ?? 0) * 1e9 : 0);
}

function isMissing(cell) {
  return cell === undefined || ["", "–", "not measured", "not recorded"].includes(mainText(cell));
}

// The cells of rows by column: one that spans several rows or columns is in each of them.
function gridOf(rows) {
  const open = [];
  const grid = new Map();
  for (const row of rows) {
    const cells = [];
    const own = [...row.cells];
    while (own.length > 0 || open[cells.length]?.rows > 0) {
      const above = open[cells.length];
      if (above?.rows > 0) {
        above.rows -= 1;
        cells.push(above.cell);
        continue;
      }
      const cell = own.shift();
      for (let across = 0; across < cell.colSpan; across += 1) {
        open[cells.length] = { cell, rows: cell.rowSpan - 1 };
        cells.push(cell);
      }
    }
    grid.set(row, cells);
  }
  return grid;
}

// Rows in the order of a column: numbers where all that is not missing are numbers, else words; missing ones last.
function sortedRows(rows, cells, direction) {
  const missing = rows.filter((row) => isMissing(cells.get(row)));
  const told = rows.filter((row) => !missing.includes(row));
  const numbers = new Map(told.map((row) => [row, cells.get(row).tagName === "TH" ? null : numberOf(cells.get(row))]));
  const numeric = [...numbers.values()].every((value) => value !== null && !Number.isNaN(value));
  const compare = (one, other) =>
    numeric
      ? numbers.get(one) - numbers.get(other)
      : mainText(cells.get(one)).localeCompare(mainText(cells.get(other)), "en", { numeric: true });
  return [...told.sort((one, other) => direction * compare(one, other)), ...missing];
}

function isGroupHead(row) {
  return row.querySelector(":scope > th[scope=rowgroup]") !== null;
}

// A copy of a cell for one of the rows that it spans.
function copyOf(cell) {
  const copy = cell.cloneNode(true);
  copy.removeAttribute("rowspan");
  for (const one of copy.querySelectorAll("[id]")) one.removeAttribute("id");
  return copy;
}

// A part of a table's body that is sorted by itself, below its group's head. While rows are sorted or left out, each
// has cells of its own: one that spans several is copied into all of them.
function bodyOf(body) {
  const rows = [...body.rows].filter((row) => !isGroupHead(row));
  const grid = gridOf(rows);
  const spans = rows.flatMap((row) => [...row.cells]).filter((cell) => cell.rowSpan > 1);
  const heights = new Map(spans.map((cell) => [cell, cell.rowSpan]));
  const made = new Map(rows.map((row) => [row, [...row.cells]]));
  let single = null;
  let sorted = false;
  let apart = false;
  const unfold = (wanted) => {
    if (spans.length === 0 || wanted === apart) return;
    apart = wanted;
    const own = (row) =>
      [...new Set(grid.get(row))].map((cell) => (cell.parentElement === row ? cell : copyOf(cell)));
    single ??= new Map(rows.map((row) => [row, own(row)]));
    for (const cell of spans) cell.rowSpan = apart ? 1 : heights.get(cell);
    for (const row of rows) row.replaceChildren(...(apart ? single : made).get(row));
  };
  const isAnyLeftOut = () => rows.some((row) => row.classList.contains("left-out"));
  return {
    rows,
    // `direction`: 1, -1, or 0 for the order in which it was made.
    sort(column, direction) {
      sorted = direction !== 0;
      unfold(sorted || isAnyLeftOut());
      const cells = new Map(rows.map((row) => [row, grid.get(row)[column]]));
      body.append(...(sorted ? sortedRows(rows, cells, direction) : rows));
    },
    refold() {
      unfold(sorted || isAnyLeftOut());
    },
  };
}

// Its bodies, each of which is sorted by the heads of the table's columns.
function makeSortable(table) {
  const heads = table.tHead ? [...table.tHead.rows[0].cells] : [];
  const bodies = [...table.tBodies].map(bodyOf);
  if (bodies.every((body) => body.rows.length < 2) || table.tHead?.querySelector("[rowspan], [colspan]")) return bodies;
  for (const [column, head] of heads.entries()) {
    if (head.textContent.trim() === "") continue;
    const button = element("button", { type: "button", class: "sort", title: "Sort by this column" });
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const was = head.getAttribute("aria-sort");
      const now = { null: "ascending", ascending: "descending", descending: null }[was];
      for (const one of heads) one.removeAttribute("aria-sort");
      if (now !== null) head.setAttribute("aria-sort", now);
      for (const body of bodies) body.sort(column, { ascending: 1, descending: -1, null: 0 }[now]);
    });
  }
  return bodies;
}

function namesIn(place, kind) {
  return [...place.querySelectorAll(`[data-${kind}]`)].map((one) => one.dataset[kind]);
}

// What a row is of: said by its head, or by the cell that has the class for it.
function headOf(row) {
  return row.querySelector(":scope > td.of") ?? row.querySelector(":scope > th[scope=row]");
}

// Everything that is of certain platforms or workloads: [kind, names, elements], hidden once all names are left out.
// The head of a group of rows is of all that these are of.
function partsOf(table) {
  const parts = [];
  for (const row of table.querySelectorAll("tbody > tr")) {
    const head = isGroupHead(row) ? row.parentElement : headOf(row);
    for (const kind of KINDS) {
      const names = head === null ? [] : namesIn(head, kind);
      if (names.length > 0) parts.push([kind, names, [row]]);
    }
  }
  if (table.tHead === null || table.querySelector("[rowspan], [colspan]")) return parts;
  for (const [column, head] of [...table.tHead.rows[0].cells].entries()) {
    const names = namesIn(head, "platform");
    if (names.length > 0) parts.push(["platform", names, [...table.rows].map((row) => row.cells[column])]);
  }
  return parts;
}

// What else says of what it is: a place of a ranking, a claim, a paper's figure, a platform's phrases.
function looseParts() {
  const parts = [];
  for (const row of document.querySelectorAll("tr[data-outcome]")) parts.push(["outcome", [row.dataset.outcome], [row]]);
  for (const place of document.querySelectorAll("[data-workloads]")) {
    const names = place.dataset.workloads.split(" ").filter((name) => NAMES.workload.includes(name));
    parts.push(["workload", names, [place]]);
  }
  for (const place of document.querySelectorAll(".place[data-platform]")) {
    parts.push(["platform", [place.dataset.platform], [place]]);
  }
  for (const term of document.querySelectorAll("dl.verdicts > dt")) {
    parts.push(["platform", namesIn(term, "platform"), [term, term.nextElementSibling]]);
  }
  return parts.filter(([, names]) => names.length > 0);
}

// What overflows is a region of its own that the keyboard can scroll; it is named after what stands above it.
function watchOverflow() {
  const headings = [...document.querySelectorAll("h1, h2, h3, h4, summary")];
  const watcher = new ResizeObserver((entries) => {
    for (const { target } of entries) nameRegion(target, headings);
  });
  for (const place of document.querySelectorAll(".scroll, pre, .plate")) watcher.observe(place);
}

const regionNames = new Map();

function nameRegion(place, headings) {
  if (place.scrollWidth <= place.clientWidth + 1) {
    for (const name of ["tabindex", "role", "aria-label"]) place.removeAttribute(name);
    return;
  }
  if (!regionNames.has(place)) {
    const above = headings.filter((one) => one.compareDocumentPosition(place) & Node.DOCUMENT_POSITION_FOLLOWING);
    const heading = above.at(-1)?.textContent.trim() ?? "Table";
    const same = [...regionNames.values()].filter((name) => name === heading || name.startsWith(`${heading}, `)).length;
    regionNames.set(place, same === 0 ? heading : `${heading}, ${same + 1}`);
  }
  place.setAttribute("tabindex", "0");
  place.setAttribute("role", "region");
  place.setAttribute("aria-label", `${regionNames.get(place)} (scrolls)`);
}

function startTables() {
  const tables = [...document.querySelectorAll("main table")];
  const parts = [...tables.flatMap(partsOf), ...looseParts()];
  const bodies = tables.flatMap(makeSortable);
  const places = new Map();
  for (const place of document.querySelectorAll("main [data-platform]")) {
    const name = place.dataset.platform;
    const whole = place.closest("th[scope=row], td.of")?.parentElement ?? place.closest("th, td, dt") ?? place;
    if (!places.has(name)) places.set(name, new Set());
    places.get(name).add(place.matches(".place") ? place : whole);
  }
  onChoice(() => {
    const hidden = new Set(
      parts.filter(([kind, names]) => names.every((name) => isLeftOut(kind, name))).flatMap(([, , found]) => found),
    );
    for (const [, , found] of parts) for (const one of found) one?.classList.toggle("left-out", hidden.has(one));
    for (const body of bodies) body.refold();
  });
  let before = [];
  onLight((name) => {
    for (const place of before) place.classList.remove("lit");
    before = [...(places.get(name) ?? [])];
    for (const place of before) place.classList.add("lit");
  });
  watchOverflow();
}
