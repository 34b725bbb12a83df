// The console: asks once a second, keeps two minutes, draws.

import { between, bytes, quantile, span, together, total } from "./latency.js";
import { COLUMNS, HeatMap, prepare, variable } from "./heat.js";

const PERIOD = 1000;
const EVENTS_MAX = 200;
/** Names of pools in trouble, at most, in the summary. */
const NAMED = 5;
/** Shorter spikes than this, in nanoseconds, nobody sees in a second. */
const NOTICED = 1e6;
const at = (id) => document.getElementById(id);

const heat = new HeatMap(at("heat"), at("heat-key"), at("heat-cell"));
/** By pool: what it said last, and what followed from it each second. */
const pools = new Map();
let chosen = null;
const STATES = ["online", "degraded", "failed"];
/** The last event known, by pool. */
const lastEvent = new Map();
/** Set when the numbers of events may have begun again: the server may have been. */
let doubtful = false;
/** Ends the request that waits for events. */
let following = new AbortController();

function element(name, text, ...classes) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  made.classList.add(...classes.filter(Boolean));
  return made;
}

/** Says what is new only: the same, said again, would be read out again. */
function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function be(node, kind) {
  if (node.className !== kind) node.className = kind;
}

/** Children as `items` say. Those of a key known stay where they are, and whoever reads them. */
function keyed(parent, items, key, make, update) {
  const keys = new Set(items.map((item) => `${key(item)}`));
  [...parent.children].filter((child) => !keys.has(child.dataset.key))
    .forEach((child) => child.remove());
  const known = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let place = parent.firstElementChild;
  for (const item of items) {
    const name = `${key(item)}`;
    const child = known.get(name) ?? make(item);
    child.dataset.key = name;
    update(child, item);
    if (child === place) place = place.nextElementSibling;
    else parent.insertBefore(child, place);
  }
}

async function ask(target, signal) {
  const answer = await fetch(target, { cache: "no-store", signal });
  const document = await answer.json();
  if (document.error) throw new Error(`${document.error.object}: ${document.error.what}`);
  return document;
}

/** A pool as the page takes it: one that could not be opened says little of itself. */
function whole(view) {
  const list = (value) => (Array.isArray(value) ? value : []);
  return {
    ...view, drives: list(view.drives), volumes: list(view.volumes), space: view.space ?? {},
    counters: view.counters ?? {}, scrub: view.scrub ?? { state: "never" },
    rebuild: view.rebuild ?? { drives: [] }, rebalance: view.rebalance ?? { zones_left: 0 },
    backlog: view.backlog ?? { tuples: 0 },
  };
}

/** Pools of other schemes have neither a journal nor copies that become stripes. */
function isFusion(view) {
  return ["fusion", "fusion-nd"].includes(view.scheme);
}

/** Why others go round a drive, if they do. */
function shunned(drive, old) {
  if (drive.decided === "sit-out") return "sits out";
  if (["slow", "avoided", "suspect"].includes(drive.health)) return drive.health;
  const slow = drive.spikes.unresponsive
    || (old !== undefined && drive.spikes.spike_nanos - old.spikes.spike_nanos >= NOTICED);
  return slow ? "unresponsive" : "";
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
      shunned: shunned(drive, old),
    };
  });
  const volumes = now.volumes.map((volume) => {
    const old = before?.volumes.find((own) => own.name === volume.name);
    const of = (kind) => before
      ? between(old?.latency[kind].buckets, volume.latency[kind].buckets) : new Map();
    return { name: volume.name, reads: of("reads"), writes: of("writes") };
  });
  const names = ["redirected_reads", "redirected_writes", "hedged_reads", "hedged_writes"];
  const sum = (counters) => names.reduce((all, name) => all + (counters[name] ?? 0), 0);
  const around = before ? Math.max(0, sum(now.counters) - sum(before.counters)) : 0;
  return { drives, volumes, around };
}

/** Another each time a pool is opened. */
function opening({ uuid, recovery }) {
  return `${uuid} ${recovery?.load_nanos} ${recovery?.replay_nanos}`;
}

function take(view) {
  const kept = pools.get(view.name) ?? { seconds: [] };
  if (kept.view && opening(kept.view) !== opening(view)) doubt();
  kept.seconds.push(second(kept.view, view));
  if (kept.seconds.length > COLUMNS) kept.seconds.shift();
  kept.view = view;
  pools.set(view.name, kept);
}

/** A choice: `name`, or `name` with more about it. */
function options(select, choices) {
  keyed(select, choices, ({ name }) => name, ({ name }) => new Option(name, name),
    (option, { text, name }) => put(option, text ?? name));
}

/** How all pools are, whichever is looked at. */
function showPools(views) {
  options(at("pool"), views.map(({ name, state }) => ({ name, text: `${name} – ${state}` })));
  if (at("pool").value !== chosen) at("pool").value = chosen;
  const badly = STATES.slice(1).reverse().map((state) => {
    const names = views.filter((view) => view.state === state).map((view) => view.name);
    const more = names.length > NAMED ? " …" : "";
    return [names.length, `${names.length} ${state} (${names.slice(0, NAMED).join(", ")}${more})`];
  }).filter(([count]) => count > 0).map(([, text]) => text);
  const well = views.filter((view) => view.state === "online").length;
  const all = views.length === 1 ? "1 pool" : `${views.length} pools`;
  const said = well > 0 || badly.length === 0 ? [...badly, `${well} online`] : badly;
  put(at("pools"), `${all}: ${said.join(", ")}`);
  be(at("pools"), `state ${worst(views)?.state ?? "online"}`);
  const title = badly.length > 0 ? `${badly.join(", ")} – SteadyRAID` : "SteadyRAID";
  if (document.title !== title) document.title = title;
}

/** The pool that needs somebody most; of equals the first. */
function worst(views) {
  const rank = (view) => STATES.indexOf(view.state);
  return views.reduce((found, view) => (found && rank(found) >= rank(view) ? found : view), null);
}

function label(drive) {
  return drive.name ? drive.name.split("/").at(-1) : `drive ${drive.index}`;
}

function showHealth(view) {
  const [state, reason] = at("state").children;
  put(state, view.state);
  be(state, `state ${view.state}`);
  put(reason, view.reason ?? "");
  put(at("action"), view.action ? `To do: ${view.action}` : "");
  const active = view.drives.filter((drive) => drive.state === "active").length;
  const facts = view.drives.length === 0 ? [] : [
    ["drives active", `${active} of ${view.drives.length}`],
    ["may still be lost", `${view.redundancy_margin}`],
    ["scheme", view.scheme],
    ["layout", view.layout],
    ["users' data", bytes(view.space.used)],
    ["can still be written", bytes(view.space.available)],
    ...(isFusion(view) ? [["journal", `${view.journal_fill_percent} %`]] : []),
    ["checksums", view.checksums ? "on" : "off"],
  ];
  const pair = ([name]) => {
    const made = element("div");
    made.append(element("dt", name), element("dd"));
    return made;
  };
  keyed(at("facts"), facts, ([name]) => name, pair,
    (made, [, value]) => put(made.lastChild, value || "–"));
}

/** @param rows of `[key, cells]`; a cell is a text, or a text and its kind */
function table(of, headings, rows) {
  const top = of.tHead ?? of.createTHead();
  const body = of.tBodies[0] ?? of.createTBody();
  const heading = () => {
    const cell = element("th");
    cell.scope = "col";
    return cell;
  };
  const places = headings.map((text, place) => ({ text, place }));
  keyed(top.rows[0] ?? top.insertRow(), places, ({ place }) => place, heading,
    (cell, { text }) => put(cell, text));
  keyed(body, rows, ([key]) => key, () => element("tr"), (line, [, cells]) => {
    while (line.cells.length > cells.length) line.lastChild.remove();
    while (line.cells.length < cells.length) line.append(element("td"));
    cells.forEach((cell, place) => {
      const [text, kind] = Array.isArray(cell) ? cell : [cell];
      put(line.cells[place], text);
      be(line.cells[place], kind ?? "");
    });
  });
}

function showDrives({ view, seconds }) {
  const cells = (drive) => seconds.map((second) =>
    second.drives.find((own) => own.uuid === drive.uuid));
  heat.show(view.drives.map((drive) => ({ name: label(drive), cells: cells(drive) })));
  const rows = view.drives.map((drive) => {
    const now = cells(drive).at(-1)?.histogram ?? new Map();
    const { spikes, counters } = drive;
    return [drive.uuid, [
      label(drive), [drive.state, drive.state], [drive.health, drive.health],
      `${total(now)}`, span(quantile(now, 0.5)), span(quantile(now, 0.99)), `${spikes.stragglers}`,
      `${spikes.spikes}`, `${counters.read_errors + counters.write_errors}`,
    ]];
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
  put(at("around-now"),
    `Requests sent round slow drives or a second way: ${now} in the last second, at most ${most}.`);
}

const PERCENTILES = [[0.5, "median", "--good"], [0.99, "p99", "--warn"], [0.999, "p99.9", "--bad"]];

function showVolumes({ view, seconds }) {
  options(at("volume"), view.volumes.map(({ name }) => ({ name })));
  const rows = view.volumes.map((volume) => {
    const now = seconds.at(-1)?.volumes.find((own) => own.name === volume.name);
    const of = (kind) => now?.[kind] ?? new Map();
    const all = together([of("reads"), of("writes")]);
    return [volume.name, [
      volume.name, bytes(volume.size), bytes(volume.mapped_bytes), `${total(of("reads"))}`,
      `${total(of("writes"))}`, ...PERCENTILES.map(([part]) => span(quantile(all, part))),
    ]];
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
}

function percentilesLegend() {
  at("percentiles-key").replaceChildren(...PERCENTILES.map(([, text, kind]) => {
    const item = element("span");
    const swatch = element("i", undefined, "swatch");
    swatch.style.background = `var(${kind})`;
    item.append(swatch, `${text}  `);
    return item;
  }));
}

function showSpace(view) {
  const areas = [
    ...(isFusion(view) ? [["replicated", "copies, not yet RAID"]] : []),
    ["raid", isFusion(view) ? "RAID stripes" : "in use"],
    ["limbo", "dead, soon free"], ["free", "free"],
  ].map(([name, text]) => ({ name, text, size: view.space[name] ?? 0 }));
  const all = areas.reduce((sum, { size }) => sum + size, 0);
  const bar = at("space-bar");
  keyed(bar, areas, ({ name }) => name, ({ name }) => element("div", undefined, name),
    (part, { size }) => { part.style.width = `${all ? (size / all) * 100 : 0}%`; });
  const said = areas.map(({ text, size }) => `${text} ${bytes(size)}`).join(", ");
  if (bar.getAttribute("aria-label") !== said) bar.setAttribute("aria-label", said);
  const entry = ({ name }) => {
    const item = element("li");
    item.append(element("i", undefined, "swatch", name), element("span"));
    return item;
  };
  keyed(at("space-key"), areas, ({ name }) => name, entry,
    (item, { text, size }) => put(item.lastChild, `${text}: ${bytes(size)}`));
}

/** Something that goes on, and how far it is. */
function work(name, done, all, more) {
  const percent = all > 0 ? Math.floor((done / all) * 100) : 100;
  const text = `${name}: ${percent} %${more ? `, ${more}` : ""}`;
  return { key: name, text, all: Math.max(all, 1), done: all > 0 ? done : 1 };
}

function note(key, text) {
  return { key, text };
}

function workOf(view) {
  const { scrub, rebuild, rebalance, backlog, drives, resync_stripes: resync } = view;
  if (drives.length === 0) return [note("closed", "nothing: the pool is not open")];
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
  if (rebalance.zones_left > 0) {
    items.push(work("rebalance", rebalance.zones - rebalance.zones_left, rebalance.zones));
  }
  if (resync > 0) items.push(note("resync", `${resync} stripes to look at after a crash`));
  if (isFusion(view)) {
    items.push(note("backlog", backlog.tuples > 0
      ? `${backlog.tuples} groups of copies wait to become RAID stripes`
      : "no copies wait to become RAID stripes"));
  }
  return items.length > 0 ? items : [note("nothing", "nothing")];
}

function showWork(view) {
  const make = ({ all }) => {
    const item = element("li");
    const text = element(all ? "label" : "span");
    text.append(element("span"));
    if (all) text.append(element("progress"));
    item.append(text);
    return item;
  };
  keyed(at("work-list"), workOf(view), ({ key }) => key, make, (item, { text, all, done }) => {
    put(item.querySelector("span span, label span"), text);
    if (all) Object.assign(item.querySelector("progress"), { max: all, value: done });
  });
}

let stripeShown = "";

/** Why a pool's stripes are not shown. */
function stripeless(view) {
  if (view.drives.length === 0) return "The pool is not open.";
  if (isFusion(view)) return "";
  return `Stripes of ${view.scheme} pools lie where the level has them (${view.layout}), and are not `
    + "shown one by one: 'steadyraid schemes' draws them.";
}

async function showStripe(view) {
  const number = at("stripe-number").value || "0";
  const key = `${view.name}/${number}/${view.scheme}/${view.drives.length}`;
  if (key === stripeShown) return;
  stripeShown = key;
  const shown = at("stripe-table");
  let why = stripeless(view);
  at("stripe-number").disabled = why !== "";
  try {
    if (why === "") {
      const target = `/api/v1/pools/${encodeURIComponent(view.name)}/stripe?number=${number}`;
      const { stripe } = await ask(target);
      // Somebody asked for another meanwhile.
      if (key !== stripeShown) return;
      const roles = view.drives.map((drive) => {
        const block = stripe.blocks.find((own) => own.drive === drive.index);
        return block ? [block.role === "data" ? `D${block.position}` : block.role, block.role] : "";
      });
      table(shown, view.drives.map(label), [[key, roles]]);
    }
  } catch (error) {
    why = error.message;
  }
  put(at("stripe-why"), why);
  shown.hidden = why !== "";
}

/** Whether events go on from the last one known is to be seen. */
function doubt() {
  doubtful = true;
  following.abort();
}

/** Events not shown yet. Of `all` there are it is seen whether the last one shown is among them:
 * if not, the server was started anew, and so were their numbers. */
function unseen(events, all) {
  const isLast = (event, last) => event.sequence === last.sequence
    && Math.abs(event.unix_micros - last.unix_micros) < 1e6;
  for (const [pool, last] of all ? [...lastEvent] : []) {
    const known = events.some((event) => event.pool === pool && isLast(event, last));
    if (!known) lastEvent.delete(pool);
  }
  return events.filter(({ pool, sequence }) => sequence > (lastEvent.get(pool)?.sequence ?? 0));
}

function showEvents(events) {
  const list = at("event-list");
  for (const event of events) {
    lastEvent.set(event.pool, event);
    const item = element("li");
    const time = element("time", new Date(event.unix_micros / 1000).toLocaleTimeString());
    time.dateTime = event.time;
    item.append(time, element("span", event.severity, event.severity),
      ` ${event.pool}: ${event.text}`);
    list.prepend(item);
  }
  while (list.children.length > EVENTS_MAX) oldestOf(list).remove();
}

/** What makes room for others. While more than half are only told, the oldest of those: spikes do
 * not push out what has to be known. */
function oldestOf(list) {
  const told = [...list.children].filter((item) => item.querySelector("span.info"));
  return told.length > EVENTS_MAX / 2 ? told.at(-1) : list.lastChild;
}

async function followEvents() {
  for (;;) {
    const all = doubtful;
    try {
      following = new AbortController();
      doubtful = false;
      const numbers = [...lastEvent].map(([pool, { sequence }]) => [pool, sequence]);
      const after = encodeURIComponent(JSON.stringify(all ? {} : Object.fromEntries(numbers)));
      const target = `/api/v1/events?after=${after}&wait_millis=${all ? 0 : 15000}`;
      const { events } = await ask(target, following.signal);
      showEvents(unseen(events, all));
    } catch {
      doubtful = true;
      await new Promise((done) => setTimeout(done, PERIOD));
    }
  }
}

function show() {
  const views = [...pools.values()].map(({ view }) => view);
  // At first, and when the pool is gone. Later somebody reads this one.
  if (!pools.has(chosen)) chosen = worst(views)?.name ?? null;
  showPools(views);
  const kept = pools.get(chosen);
  if (!kept) return;
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
    const names = new Set(views.map((view) => view.name));
    [...pools.keys()].filter((name) => !names.has(name)).forEach((name) => pools.delete(name));
    views.map(whole).forEach(take);
    put(at("connection"), "connected");
    put(at("clock"), `as of ${new Date().toLocaleTimeString()}`);
    show();
  } catch (error) {
    put(at("connection"), `no answer from the server (${error.message}); trying again`);
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
percentilesLegend();
poll();
followEvents();
