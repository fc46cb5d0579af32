"use strict";
// The grouping diagram: hovering shows the nearest region, selecting one shows its rows. Positions come from
// the page's data, so moving the pointer changes only a few elements, however many regions there are.
// Text from data is only ever set as textContent.

const data = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";
const REACH = 28; // largest distance in pixels from the pointer to a region

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function rateText(value) {
  if (value === null) return "";
  const near = Math.min(value, 1 - value);
  const digits = near > 0 && near < 0.01 ? 1 + Math.ceil(-Math.log10(near)) : 3;
  return value.toFixed(Math.min(digits, 12));
}

function pText(p) {
  if (p === null) return "";
  return p < 1e-4 ? "< 0.0001" : String(p);
}

class Diagram {
  constructor(figure, panel, onPick) {
    this.figure = figure;
    this.panel = panel;
    this.onPick = onPick;
    this.stage = figure.querySelector(".stage");
    this.svg = figure.querySelector("svg.diagram");
    this.shown = -1;
    this.picked = -1;
    this.hover = this.halo("halo");
    this.choice = this.halo("halo picked");
    this.tooltip = element("div", "tooltip");
    this.tooltip.setAttribute("role", "status");
    this.tooltip.hidden = true;
    this.title = element("strong");
    this.facts = new Facts();
    this.tooltip.append(this.title, this.facts.list);
    this.stage.append(this.tooltip);
    this.stage.addEventListener("pointermove", (event) => this.moved(event));
    this.stage.addEventListener("pointerleave", () => this.show(-1));
    this.stage.addEventListener("click", (event) => {
      this.moved(event);
      if (this.shown >= 0) this.pick(this.shown);
    });
    this.stage.addEventListener("keydown", (event) => this.key(event));
    this.stage.addEventListener("focus", () => {
      // Pressing the pointer also sets focus, and the handler of the pointer shows the region.
      if (this.stage.matches(":focus-visible")) this.show(this.picked >= 0 ? this.picked : 0);
    });
    this.stage.addEventListener("blur", () => this.show(-1));
  }

  halo(className) {
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("class", className);
    this.svg.append(path);
    return path;
  }

  nearest(event) {
    const place = new DOMPoint(event.clientX, event.clientY).matrixTransform(this.svg.getScreenCTM().inverse());
    const scale = this.svg.getScreenCTM().a;
    const { x, y } = this.panel;
    let best = -1;
    let least = (REACH / scale) ** 2;
    for (let i = 0; i < x.length; i++) {
      const distance = (x[i] - place.x) ** 2 + (y[i] - place.y) ** 2;
      if (distance < least) {
        least = distance;
        best = i;
      }
    }
    return best;
  }

  moved(event) {
    const i = this.nearest(event);
    if (i !== this.shown) this.show(i);
  }

  show(i) {
    this.shown = i < this.panel.x.length ? i : -1;
    this.tooltip.hidden = this.shown < 0;
    this.put(this.hover, this.shown);
    if (this.shown < 0) return;
    this.title.textContent = ruleOf(this.panel, i);
    this.facts.fill(this.panel, i);
    const wide = this.stage.clientWidth;
    const scale = wide / this.svg.viewBox.baseVal.width;
    const x = this.panel.x[i] * scale;
    const y = this.panel.y[i] * scale;
    const width = this.tooltip.offsetWidth;
    const height = this.tooltip.offsetHeight;
    const room = this.svg.viewBox.baseVal.height * scale - height;
    let left = x + 16 + width > wide ? x - 16 - width : x + 16;
    let top = Math.min(y - height / 2, room);
    if (left < 0) { // no room on either side: show it above, or below, where it may cover the legend
      left = Math.min(Math.max(x - width / 2, 0), wide - width);
      top = y + 16 > room && y > 16 + height ? y - 16 - height : y + 16;
    }
    this.tooltip.style.left = `${left}px`;
    this.tooltip.style.top = `${Math.max(top, 0)}px`;
  }

  // A ring around the region, and the parts of its interval outside the ring.
  put(path, i) {
    if (i < 0) {
      path.setAttribute("d", "");
      return;
    }
    const [x, y] = [this.panel.x[i], this.panel.y[i]];
    const [bottom, top] = [this.panel.low[i], this.panel.high[i]].map((rate) => data.bottom - data.height * Math.min(rate / this.panel.reach, 1));
    const below = bottom > y + 9 ? `M${x} ${y + 9}V${bottom}` : "";
    const above = top < y - 9 ? `M${x} ${y - 9}V${top}` : "";
    path.setAttribute("d", `M${x - 9} ${y}a9 9 0 1 0 18 0a9 9 0 1 0 -18 0${below}${above}`);
  }

  pick(i) {
    this.picked = i;
    this.put(this.choice, i);
    this.onPick(this.panel, i);
  }

  key(event) {
    const at = this.shown >= 0 ? this.shown : Math.max(this.picked, 0);
    const last = this.panel.x.length - 1;
    const next = {
      ArrowRight: Math.min(at + 1, last),
      ArrowLeft: Math.max(at - 1, 0),
      ArrowUp: this.neighbour(at, 1),
      ArrowDown: this.neighbour(at, -1),
      Home: 0,
      End: last,
    }[event.key];
    if (next !== undefined) this.show(next);
    else if ((event.key === "Enter" || event.key === " ") && last >= 0) this.pick(at);
    else if (event.key === "Escape") this.show(-1);
    else return;
    event.preventDefault();
  }

  neighbour(at, step) {
    const { level } = this.panel;
    for (let i = at; i >= 0 && i < level.length; i += step) if (level[i] !== level[at]) return i;
    return at;
  }
}

class Facts {
  constructor() {
    this.list = element("dl", "facts");
    this.values = ["rows", "mean score", "rate", "expected", "adjusted p"].map((name) => {
      const value = element("dd");
      this.list.append(element("dt", "", name), value);
      return value;
    });
  }

  fill(panel, i) {
    const interval = `[${rateText(panel.low[i])}, ${rateText(panel.high[i])}]`;
    const texts = [
      panel.n[i].toLocaleString("en"),
      rateText(panel.score[i]),
      `${rateText(panel.rate[i])} ${interval}`,
      rateText(panel.expected[i]),
      pText(panel.p[i]),
    ];
    texts.forEach((text, k) => { this.values[k].textContent = text; });
  }
}

function ruleOf(panel, i) {
  return panel.rule[i].map((code) => data.conditions[code]).join(" and ");
}
