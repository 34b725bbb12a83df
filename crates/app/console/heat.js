// The heat map: drives by seconds.

import { quantile, span, total } from "./latency.js";

/** Seconds shown. */
export const COLUMNS = 120;
/** Below the first all is well, above the last a request is lost: colours are in between. */
const LEAST = 1e5, MOST = 1e9;
/** From quiet to alarm; also apart in lightness, for those who see no hues. */
const COLOURS = {
  light: ["#d8ecf7", "#9fd0e8", "#f6d55c", "#ed8a3d", "#c62828", "#6a0d24"],
  dark: ["#10344a", "#1f6f96", "#c9a400", "#e8772e", "#ff5252", "#ffd0d8"],
};

function dark() {
  return getComputedStyle(document.documentElement).colorScheme.includes("dark");
}

export function colour(nanos) {
  const colours = COLOURS[dark() ? "dark" : "light"];
  const place = Math.log(Math.max(nanos, LEAST) / LEAST) / Math.log(MOST / LEAST);
  return colours[Math.min(colours.length - 1, Math.floor(place * colours.length))];
}

/** Draws at the device's resolution. Returns context, width and height in CSS pixels. */
export function prepare(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}

export function variable(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

const LEFT = 90;

/** Dark on bright, so that it is seen on every colour. */
function hatching(context) {
  const size = 8, tile = document.createElement("canvas");
  tile.width = size;
  tile.height = size;
  const pen = tile.getContext("2d");
  for (const [kind, width] of [["--ground", 3.5], ["--text", 1.8]]) {
    pen.strokeStyle = variable(kind);
    pen.lineWidth = width;
    pen.beginPath();
    for (const at of [-size, 0, size]) {
      pen.moveTo(at - 1, size + 1);
      pen.lineTo(at + size + 1, -1);
    }
    pen.stroke();
  }
  return context.createPattern(tile, "repeat");
}

/** One cell: what a drive did in one second. */
function say(cell, name, ago) {
  if (!cell) return `${name}, ${ago} s ago: nothing known`;
  const when = ago === 0 ? "now" : `${ago} s ago`;
  const round = cell.shunned ? `; ${cell.shunned}, the others go round it` : "";
  const count = total(cell.histogram);
  if (count === 0) return `${name}, ${when}: no requests${round}`;
  const p50 = span(quantile(cell.histogram, 0.5));
  const p99 = span(quantile(cell.histogram, 0.99));
  return `${name}, ${when}: median ${p50}, 99th percentile ${p99}, ${count} requests${round}`;
}

export class HeatMap {
  /** @param spoken element that says what the cursor is on */
  constructor(canvas, key, spoken) {
    this.canvas = canvas;
    this.spoken = spoken;
    this.rows = [];
    this.cursor = null;
    const count = COLOURS.light.length;
    // Just above where each colour begins.
    const steps = COLOURS.light.map((_, at) => 1.001 * LEAST * (MOST / LEAST) ** (at / count));
    const entry = (kind, text, colour) => {
      const item = document.createElement("span");
      const swatch = document.createElement("i");
      swatch.className = kind;
      if (colour) swatch.style.background = colour;
      item.append(swatch, `${text}  `);
      return item;
    };
    this.legend = () => key.replaceChildren(
      ...steps.map((step) => entry("swatch", `${span(step)} and more`, colour(step))),
      entry("swatch hatched", "unresponsive, avoided, suspect or sitting out"));
    canvas.addEventListener("keydown", (event) => this.#key(event));
    canvas.addEventListener("pointermove", (event) => this.#point(event));
    canvas.addEventListener("blur", () => { this.cursor = null; this.draw(); });
  }

  /** @param rows of `{ name, cells }`, the newest cell last */
  show(rows) {
    this.rows = rows;
    this.canvas.style.height = `${Math.max(120, rows.length * 20)}px`;
    this.draw();
  }

  #key(event) {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, 1], ArrowRight: [0, -1] };
    const move = moves[event.key];
    if (!move || this.rows.length === 0) return;
    event.preventDefault();
    const [row, ago] = this.cursor ?? [0, 0];
    const first = this.cursor === null;
    const clamp = (value, most) => Math.min(Math.max(value, 0), most);
    this.#select(clamp(row + (first ? 0 : move[0]), this.rows.length - 1),
      clamp(ago + (first ? 0 : move[1]), COLUMNS - 1));
  }

  #point(event) {
    const { width, height } = this.canvas.getBoundingClientRect();
    const column = Math.floor(((event.offsetX - LEFT) / (width - LEFT)) * COLUMNS);
    const row = Math.floor((event.offsetY / height) * this.rows.length);
    if (column >= 0 && this.rows[row]) this.#select(row, COLUMNS - 1 - column);
  }

  #select(row, ago) {
    this.cursor = [row, ago];
    const { name, cells } = this.rows[row];
    this.spoken.textContent = say(cells[cells.length - 1 - ago], name, ago);
    this.draw();
  }

  draw() {
    const { context, width, height } = prepare(this.canvas);
    const cell = { width: (width - LEFT) / COLUMNS, height: height / Math.max(1, this.rows.length) };
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    const hatch = hatching(context);
    this.rows.forEach(({ name, cells }, row) => {
      const y = row * cell.height;
      context.fillStyle = variable("--text");
      context.fillText(name.length > 13 ? `…${name.slice(-12)}` : name, 0, y + cell.height / 2);
      for (let ago = 0; ago < COLUMNS; ago += 1) {
        const own = cells[cells.length - 1 - ago];
        const x = width - (ago + 1) * cell.width;
        this.#cell(context, own, x, y, cell, hatch);
      }
    });
    if (this.cursor) {
      const [row, ago] = this.cursor;
      context.strokeStyle = variable("--mark");
      context.lineWidth = 2;
      context.strokeRect(width - (ago + 1) * cell.width, row * cell.height, cell.width, cell.height);
    }
  }

  #cell(context, own, x, y, { width, height }, hatch) {
    const slow = own && quantile(own.histogram, 0.99);
    const area = [x, y, Math.max(1, width - 0.5), height - 1];
    context.fillStyle = slow ? colour(slow) : variable("--empty");
    context.fillRect(...area);
    if (!own?.shunned) return;
    context.fillStyle = hatch;
    context.fillRect(...area);
  }
}
