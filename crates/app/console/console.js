// The console: asks once a second, keeps two minutes, draws.

import { between, bytes, quantile, span, together, total } from "./latency.js";
import { COLUMNS, HeatMap, prepare, variable } from "./heat.js";

const PERIOD = 1000;
const EVENTS_MAX = 200;
/** Shorter spikes than this, in nanoseconds, nobody sees in a second. */
const NOTICED = 1e6;
const at = (id) => document.getElementById(id);

const heat = new HeatMap(at("heat"), at("heat-key"), at("heat-cell"));
/** By pool: what it said last, and what followed from it each second. */
const pools = new Map();
let chosen = null;
/** The last event known, by pool. */
const lastEvent = {};

function element(name, text, ...classes) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  made.classList.add(...classes.filter(Boolean));
  return made;
}

async function ask(target) {
  const answer = await fetch(target, { cache: "no-store" });
  const document = await answer.json();
  if (document.error) throw new Error(`${document.error.object}: ${document.error.what}`);
  return document;
}

/** What happened between two answers. */
function second(before, now) {
  const drives = now.drives.map((drive) => {
    const old = before?.drives.find((own) => own.uuid === drive.uuid);
    const kinds = ["reads", "writes"];
    const histograms = kinds.map((kind) =>
      between(old?.latency[kind].buckets, drive.latency[kind].buckets));
    return {
      uuid: drive.uuid,
      histogram: before ? together(histograms) : new Map(),
      unresponsive: drive.spikes.unresponsive
        || (old !== undefined && drive.spikes.spike_nanos - old.spikes.spike_nanos >= NOTICED),
    };
  });
  const volumes = now.volumes.map((volume) => {
    const old = before?.volumes.find((own) => own.name === volume.name);
    const of = (kind) => before
      ? between(old?.latency[kind].buckets, volume.latency[kind].buckets) : new Map();
    return { name: volume.name, reads: of("reads"), writes: of("writes") };
  });
  const names = ["redirected_reads", "redirected_writes", "hedged_reads", "hedged_writes"];
  const sum = (counters) => names.reduce((all, name) => all + counters[name], 0);
  const around = before ? Math.max(0, sum(now.counters) - sum(before.counters)) : 0;
  return { drives, volumes, around };
}

function take(view) {
  const kept = pools.get(view.name) ?? { seconds: [] };
  kept.seconds.push(second(kept.view, view));
  if (kept.seconds.length > COLUMNS) kept.seconds.shift();
  kept.view = view;
  pools.set(view.name, kept);
}

function options(select, names) {
  const known = [...select.options].map((option) => option.value);
  if (known.length === names.length && known.every((name, index) => name === names[index])) return;
  const value = select.value;
  select.replaceChildren(...names.map((name) => new Option(name, name)));
  if (names.includes(value)) select.value = value;
}

function label(drive) {
  return drive.name ? drive.name.split("/").at(-1) : `drive ${drive.index}`;
}

function showHealth(view) {
  const [state, reason] = at("state").children;
  if (state.textContent !== view.state) {
    state.textContent = view.state;
    state.className = `state ${view.state}`;
  }
  reason.textContent = view.reason ?? "";
  at("action").textContent = view.action ? `To do: ${view.action}` : "";
  const active = view.drives.filter((drive) => drive.state === "active").length;
  const facts = [
    ["drives active", `${active} of ${view.drives.length}`],
    ["may still be lost", `${view.redundancy_margin}`],
    ["scheme", view.scheme],
    ["layout", view.layout],
    ["used", `${bytes(view.space.used)} of ${bytes(view.space.usable)}`],
    ["journal", `${view.journal_fill_percent} %`],
    ["checksums", view.checksums ? "on" : "off"],
  ];
  at("facts").replaceChildren(...facts.map(([name, value]) => {
    const pair = element("div");
    pair.append(element("dt", name), element("dd", value || "–"));
    return pair;
  }));
}

function table(of, headings, rows) {
  const head = element("tr");
  headings.forEach((text) => {
    const cell = element("th", text);
    cell.scope = "col";
    head.append(cell);
  });
  const lines = rows.map((cells) => {
    const line = element("tr");
    cells.forEach((cell) => {
      const [text, kind] = Array.isArray(cell) ? cell : [cell];
      line.append(element("td", text, kind));
    });
    return line;
  });
  const top = element("thead");
  top.append(head);
  const body = element("tbody");
  body.append(...lines);
  of.replaceChildren(top, body);
}

function showDrives({ view, seconds }) {
  const cells = (drive) => seconds.map((second) =>
    second.drives.find((own) => own.uuid === drive.uuid));
  heat.show(view.drives.map((drive) => ({ name: label(drive), cells: cells(drive) })));
  const rows = view.drives.map((drive) => {
    const now = cells(drive).at(-1)?.histogram ?? new Map();
    const { spikes, counters } = drive;
    return [
      label(drive), [drive.state, drive.state], [drive.health, drive.health],
      `${total(now)}`, span(quantile(now, 0.5)), span(quantile(now, 0.99)), `${spikes.stragglers}`,
      `${spikes.spikes}`, `${counters.read_errors + counters.write_errors}`,
    ];
  });
  const headings =
    ["drive", "state", "health", "requests/s", "median", "p99", "late now", "spikes", "errors"];
  table(at("drive-table"), headings, rows);
  showAround(seconds);
}

function showAround(seconds) {
  const { context, width, height } = prepare(at("around"));
  const most = Math.max(1, ...seconds.map((second) => second.around));
  const left = 90, step = (width - left) / COLUMNS;
  context.fillStyle = variable("--mark");
  seconds.forEach((second, index) => {
    const ago = seconds.length - 1 - index;
    const size = (second.around / most) * (height - 14);
    context.fillRect(width - (ago + 1) * step, height - size, Math.max(1, step - 0.5), size);
  });
  context.fillStyle = variable("--weak");
  context.font = "12px system-ui, sans-serif";
  context.fillText("sent round", 0, height / 2);
  const now = seconds.at(-1)?.around ?? 0;
  at("around-now").textContent =
    `Requests sent round slow drives or a second way: ${now} in the last second, at most ${most}.`;
}

const PERCENTILES = [[0.5, "median", "--good"], [0.99, "p99", "--warn"], [0.999, "p99.9", "--bad"]];

function showVolumes({ view, seconds }) {
  options(at("volume"), view.volumes.map((volume) => volume.name));
  const rows = view.volumes.map((volume) => {
    const now = seconds.at(-1)?.volumes.find((own) => own.name === volume.name);
    const of = (kind) => now?.[kind] ?? new Map();
    const all = together([of("reads"), of("writes")]);
    return [
      volume.name, bytes(volume.size), bytes(volume.mapped_bytes), `${total(of("reads"))}`,
      `${total(of("writes"))}`, ...PERCENTILES.map(([part]) => span(quantile(all, part))),
    ];
  });
  const headings = ["volume", "size", "holds", "reads/s", "writes/s", "median", "p99", "p99.9"];
  table(at("volume-table"), headings, rows);
  showPercentiles(seconds, at("volume").value);
}

/** Lines on a logarithmic scale from 10 µs to 10 s. */
function showPercentiles(seconds, name) {
  const { context, width, height } = prepare(at("percentiles"));
  const left = 60, step = (width - left) / COLUMNS;
  const y = (nanos) =>
    height - (Math.log10(Math.min(Math.max(nanos, 1e4), 1e10) / 1e4) / 6) * (height - 12) - 2;
  context.font = "12px system-ui, sans-serif";
  for (let power = 4; power <= 10; power += 1) {
    context.fillStyle = variable("--weak");
    context.fillText(span(10 ** power), 0, y(10 ** power));
    context.fillStyle = variable("--line");
    context.fillRect(left, y(10 ** power), width - left, 0.5);
  }
  for (const [part, , kind] of PERCENTILES) {
    context.strokeStyle = variable(kind);
    context.lineWidth = 1.5;
    context.beginPath();
    let drawing = false;
    seconds.forEach((second, index) => {
      const own = second.volumes.find((volume) => volume.name === name);
      const value = own && quantile(together([own.reads, own.writes]), part);
      const x = width - (seconds.length - 1 - index) * step;
      if (value) context[drawing ? "lineTo" : "moveTo"](x, y(value));
      drawing = Boolean(value);
    });
    context.stroke();
  }
  at("percentiles-key").replaceChildren(...PERCENTILES.map(([, text, kind]) => {
    const item = element("span");
    const swatch = element("i", undefined, "swatch");
    swatch.style.background = `var(${kind})`;
    item.append(swatch, `${text}  `);
    return item;
  }));
}

function showSpace({ space }) {
  const areas = [
    ["replicated", "copies, not yet RAID"], ["raid", "RAID stripes"],
    ["limbo", "dead, soon free"], ["free", "free"],
  ];
  const all = areas.reduce((sum, [name]) => sum + space[name], 0);
  const bar = at("space-bar");
  bar.replaceChildren(...areas.map(([name]) => {
    const part = element("div", undefined, name);
    part.style.width = `${all ? (space[name] / all) * 100 : 0}%`;
    return part;
  }));
  const said = areas.map(([name, text]) => `${text} ${bytes(space[name])}`);
  bar.setAttribute("aria-label", said.join(", "));
  at("space-key").replaceChildren(...areas.map(([name, text]) => {
    const item = element("li");
    item.append(element("i", undefined, "swatch", name), `${text}: ${bytes(space[name])}`);
    return item;
  }));
}

function work(name, done, all, more) {
  const item = element("li");
  const percent = all > 0 ? Math.floor((done / all) * 100) : 100;
  const text = element("label", `${name}: ${percent} %${more ? `, ${more}` : ""}`);
  const bar = element("progress");
  bar.max = Math.max(all, 1);
  bar.value = all > 0 ? done : 1;
  text.append(bar);
  item.append(text);
  return item;
}

function showWork({ scrub, rebuild, rebalance, backlog, drives, resync_stripes: resync }) {
  const items = [];
  for (const own of rebuild.drives) {
    const eta = own.eta_seconds === undefined ? "" : `about ${own.eta_seconds} s left`;
    items.push(work(`${own.work} of drive ${own.drive}`, own.blocks - own.blocks_left, own.blocks,
      rebuild.paused ? "paused" : eta));
  }
  for (const drive of drives.filter((own) => own.replacing)) {
    const { by, bytes: all, bytes_left: left } = drive.replacing;
    items.push(work(`drive ${drive.index} copied onto ${by}`, all - left, all));
  }
  if (scrub.state !== "never") {
    const found = `${scrub.bad_pages} bad pages, ${scrub.lost_pages} lost`;
    items.push(work(`scrub ${scrub.state}`, scrub.checked_bytes, scrub.total_bytes, found));
  }
  if (rebalance.zones > 0) {
    items.push(work("rebalance", rebalance.zones - rebalance.zones_left, rebalance.zones));
  }
  if (resync > 0) items.push(element("li", `${resync} stripes to look at after a crash`));
  items.push(element("li", backlog.tuples > 0
    ? `${backlog.tuples} groups of copies wait to become RAID stripes`
    : "no copies wait to become RAID stripes"));
  at("work-list").replaceChildren(...items);
}

let stripeShown = "";

async function showStripe(view) {
  const number = at("stripe-number").value || "0";
  const key = `${view.name}/${number}`;
  if (key === stripeShown) return;
  stripeShown = key;
  const shown = at("stripe-table");
  try {
    const target = `/api/v1/pools/${encodeURIComponent(view.name)}/stripe?number=${number}`;
    const { stripe } = await ask(target);
    const roles = view.drives.map((drive) => {
      const block = stripe.blocks.find((own) => own.drive === drive.index);
      return block ? [block.role === "data" ? `D${block.position}` : block.role, block.role] : "";
    });
    table(shown, view.drives.map(label), [roles]);
  } catch (error) {
    shown.replaceChildren(element("caption", error.message));
  }
}

async function followEvents() {
  for (;;) {
    try {
      const after = encodeURIComponent(JSON.stringify(lastEvent));
      const { events } = await ask(`/api/v1/events?after=${after}&wait_millis=15000`);
      for (const event of events) {
        lastEvent[event.pool] = event.sequence;
        const item = element("li");
        const time = element("time", new Date(event.unix_micros / 1000).toLocaleTimeString());
        time.dateTime = event.time;
        item.append(time, element("span", event.severity, event.severity),
          ` ${event.pool}: ${event.text}`);
        at("event-list").prepend(item);
      }
      const list = at("event-list");
      while (list.children.length > EVENTS_MAX) list.lastChild.remove();
    } catch {
      await new Promise((done) => setTimeout(done, 5 * PERIOD));
    }
  }
}

function show() {
  const kept = pools.get(chosen) ?? [...pools.values()][0];
  if (!kept) return;
  chosen = kept.view.name;
  showHealth(kept.view);
  showDrives(kept);
  showVolumes(kept);
  showSpace(kept.view);
  showWork(kept.view);
  showStripe(kept.view);
}

async function poll() {
  try {
    const { pools: views } = await ask("/api/v1/pools");
    views.forEach(take);
    options(at("pool"), views.map((view) => view.name));
    at("connection").textContent = `as of ${new Date().toLocaleTimeString()}`;
    show();
  } catch (error) {
    at("connection").textContent = `no answer from the server (${error.message}); trying again`;
  }
  setTimeout(poll, PERIOD);
}

at("pool").addEventListener("change", (event) => { chosen = event.target.value; show(); });
at("volume").addEventListener("change", show);
at("stripe-number").addEventListener("input", show);
at("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = getComputedStyle(root).colorScheme.includes("dark");
  root.dataset.theme = dark ? "light" : "dark";
  heat.legend();
  show();
});
window.addEventListener("resize", show);
heat.legend();
poll();
followEvents();
