// The rest of the page: the selected region, the switches, sortable tables and the theme.

const selection = document.getElementById("selection");
const figures = [...document.querySelectorAll("figure.panel")];
const diagrams = figures.map((figure) => new Diagram(figure, data.panels[Number(figure.dataset.panel)], showSelection));
const state = {
  view: data.panels.length ? data.panels[0].view : null,
  class: data.panels.length ? data.panels[0].class : null,
};

function showSelection(panel, i) {
  const facts = new Facts();
  facts.fill(panel, i);
  selection.replaceChildren(element("strong", "", ruleOf(panel, i)), facts.list, rowsOf(panel.rows[i]));
  for (const row of document.querySelectorAll("tr[data-place]")) {
    row.classList.toggle("chosen", panel.view === "all" && Number(row.dataset.place) === panel.place[i]);
  }
}

function rowsOf(rows) {
  if (rows === null) {
    const text = "Rows are available only for the costliest regions, and not for audits that were read from JSON.";
    return element("p", "note", text);
  }
  const [numbers, scores, outcomes] = rows;
  const withImages = numbers.some((row) => row in data.images);
  const table = element("table", "rows");
  table.append(element("caption", "", "Typical rows, nearest to the centre of the region first"));
  const head = element("tr");
  const titles = [...(withImages ? ["image"] : []), "row", "score", "outcome"];
  for (const title of [...titles, ...(data.columns.length ? ["shown"] : [])]) {
    const cell = element("th", titles.slice(-3).includes(title) ? "number" : "", title);
    cell.scope = "col";
    head.append(cell);
  }
  const body = element("tbody");
  numbers.forEach((row, k) => {
    const line = element("tr");
    if (withImages) line.append(imageOf(row));
    line.append(element("td", "number", String(row)));
    line.append(element("td", "number", rateText(scores[k])));
    line.append(element("td", "number", outcomes[k] === null ? "" : String(outcomes[k])));
    if (data.columns.length) line.append(textsOf(row));
    body.append(line);
  });
  const top = element("thead");
  top.append(head);
  table.append(top, body);
  const frame = element("div", "scroll");
  frame.append(table);
  return frame;
}

function textsOf(row) {
  const cell = element("td", "text");
  (data.texts[row] || []).forEach((text, k) => {
    const line = element("div");
    if (data.columns[k]) line.append(element("span", "hint", `${data.columns[k]} `));
    line.append(text);
    cell.append(line);
  });
  return cell;
}

function imageOf(row) {
  const cell = element("td");
  const address = data.images[row];
  if (typeof address === "string" && address.startsWith("data:image/jpeg;base64,")) {
    const image = element("img");
    image.alt = `row ${row}`;
    image.src = address;
    cell.append(image);
  }
  return cell;
}

function current() {
  return diagrams.find(({ panel }) => panel.view === state.view && panel.class === state.class);
}

function refresh() {
  for (const one of diagrams) one.figure.hidden = one !== current();
  for (const radio of document.querySelectorAll("input[name=view]")) radio.checked = radio.value === state.view;
  const chooser = document.getElementById("class");
  if (chooser === null) return;
  chooser.value = state.class;
  for (const one of document.querySelectorAll("tr[data-place], figure.by-class")) {
    one.hidden = Number(one.dataset.class) !== state.class;
  }
}

function pickSomething() {
  const diagram = current();
  if (diagram && diagram.panel.x.length) diagram.pick(diagram.picked >= 0 ? diagram.picked : diagram.panel.costliest);
}

function pickPlace(place) {
  state.view = "all";
  refresh();
  const diagram = current();
  const i = diagram.panel.place.indexOf(place);
  if (i >= 0) diagram.pick(i);
}

for (const radio of document.querySelectorAll("input[name=view]")) {
  radio.addEventListener("change", () => {
    state.view = radio.value;
    refresh();
    pickSomething();
  });
}

const chooser = document.getElementById("class");
if (chooser !== null) {
  chooser.addEventListener("change", () => {
    state.class = Number(chooser.value);
    refresh();
    pickSomething();
  });
}

for (const row of document.querySelectorAll("tr[data-place]")) {
  row.addEventListener("click", () => pickPlace(Number(row.dataset.place)));
}

function sortBy(table, column, direction) {
  const value = (row) => row.cells[column].dataset.value;
  const isText = table.tHead.rows[0].cells[column].classList.contains("text");
  const compare = isText
    ? (a, b) => value(a).localeCompare(value(b), "en")
    : (a, b) => Number(value(a)) - Number(value(b)) || 0; // the difference of two infinite values is NaN
  const rows = [...table.tBodies[0].rows].sort((a, b) => direction * compare(a, b));
  table.tBodies[0].append(...rows);
}

for (const table of document.querySelectorAll("table.sortable")) {
  const headers = [...table.tHead.rows[0].cells];
  headers.forEach((header, column) => {
    header.querySelector("button").addEventListener("click", () => {
      const ascending = header.getAttribute("aria-sort") === "descending";
      for (const other of headers) other.setAttribute("aria-sort", "none");
      header.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      sortBy(table, column, ascending ? 1 : -1);
    });
  });
}

const theme = document.getElementById("theme");
const isDark = () => getComputedStyle(document.documentElement).colorScheme === "dark"
  || (document.documentElement.dataset.theme === undefined && matchMedia("(prefers-color-scheme: dark)").matches);

function nameTheme() {
  theme.textContent = isDark() ? "Light" : "Dark";
  theme.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} theme`);
}

theme.addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  nameTheme();
});

// Folded sections cannot be opened in print.
addEventListener("beforeprint", () => {
  for (const one of document.querySelectorAll("details")) one.open = true;
});

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", nameTheme);
nameTheme();
refresh();
pickSomething();
