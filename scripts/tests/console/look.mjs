// Looks at the console of a running server, as people do: by eye, by keyboard, by screen reader.
//
//   node look.mjs URL PICTURES
//
// The pool `gc` has one drive that is slow in spikes and is under load, `r5` is in-place, `calm` has
// nothing to do; while this runs, the script that started it does what it is asked for on standard
// output: drives sit out and fail, the server stops and comes back.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const [url, pictures] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** Asks the script to do something, and waits until it is done. */
async function please(what) {
  console.log(`please ${what}`);
  const { value } = await answers.next();
  assert.equal(value, "done", `${what} failed`);
}

function step(text) {
  console.log(`== ${text}`);
}

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox"],
});

/** Everything the page asks for, and everything it complains about. */
async function open(colorScheme, prepare = async () => {}) {
  const context = await browser.newContext({ colorScheme, viewport: { width: 1280, height: 1500 } });
  const page = await context.newPage();
  const asked = [], complaints = [];
  page.on("request", (request) => asked.push(request.url()));
  page.on("console", (message) => {
    if (message.type() === "error") complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  await prepare(page);
  await page.goto(url);
  await page.waitForSelector("#state :is(.online, .degraded, .failed)");
  return { context, page, asked, complaints };
}

/** No request left the daemon, and nothing went wrong. */
function check({ asked, complaints }) {
  const strangers = asked.filter((address) => !address.startsWith(url) && !address.startsWith("data:"));
  assert.deepEqual(strangers, []);
  assert.deepEqual(complaints, []);
}

/** A pool that the server could not open: nothing is known of its drives and volumes. */
async function withLost(page) {
  await page.route("**/api/v1/pools", async (route) => {
    const answer = await route.fetch();
    const document = await answer.json();
    document.pools.push({ name: "lost", uuid: "-", state: "failed", reason: "2 drives are missing",
      action: "give these drives too", drives: [], volumes: [] });
    await route.fulfill({ response: answer, json: document });
  });
}

/** Whether what a screen reader may stand on is there still, once the page has said more. */
async function staysAttached(page) {
  const kinds = ["#drive-table tbody tr", "#drive-table th", "#volume-table tbody tr", "#facts div",
    "#work-list li", "#space-key li", "#pool option", "#volume option"];
  const handles = [];
  for (const kind of kinds) handles.push([kind, await page.$(kind)]);
  await page.evaluate(() => {
    globalThis.said = 0;
    const observer = new MutationObserver((changes) => { globalThis.said += changes.length; });
    for (const node of document.querySelectorAll("[role=status]")) {
      observer.observe(node, { subtree: true, childList: true, characterData: true });
    }
  });
  const text = async () => `${await page.textContent("#drive-table tbody")}`;
  const [before, clock] = [await text(), await page.textContent("#clock")];
  await page.waitForTimeout(4000);
  assert.notEqual(await text(), before, "the table of drives goes on");
  assert.notEqual(await page.textContent("#clock"), clock, "the clock goes on");
  for (const [kind, handle] of handles) {
    assert.ok(await handle.evaluate((node) => node.isConnected), `${kind} was replaced`);
  }
  assert.equal(await page.evaluate(() => globalThis.said), 0, "announced without need");
}

/** Whether the newest second of a row of the heat map is hatched: only hatching has this colour. */
function hatched(page, row, rows) {
  return page.evaluate(([row, rows]) => {
    const canvas = document.getElementById("heat");
    const [width, height] = [Math.ceil((canvas.width - 90) / 120), canvas.height / rows];
    const { data } = canvas.getContext("2d").getImageData(
      canvas.width - width, Math.ceil(row * height), width, Math.floor(height) - 2);
    for (let at = 0; at < data.length; at += 4) {
      if (Math.max(data[at], data[at + 1], data[at + 2]) < 80) return true;
    }
    return false;
  }, [row, rows]);
}

async function accessible(page) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, {
    runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "best-practice"],
  }));
  const said = violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html).join(" | ")}`);
  assert.deepEqual(said.map((one) => one.slice(0, 300)), []);
}

try {
  step("it shows a pool that is well, and latencies as they come");
  const light = await open("light");
  const { page } = light;
  assert.equal(await page.textContent("#state strong"), "online");
  assert.equal(await page.textContent("#pools"), "3 pools: 3 online");
  await page.selectOption("#pool", "gc");
  // Half a minute of a drive that collects garbage.
  await page.waitForTimeout(30_000);
  const rows = await page.locator("#drive-table tbody tr").count();
  assert.equal(rows, 8);
  const medians = await page.locator("#volume-table tbody td:nth-child(6)").allTextContents();
  assert.match(medians[0], /\d (µs|ms)$/, "a median is shown");

  step("a spike is seen, and that requests go round it");
  const spikes = await page.locator("#drive-table tbody td:nth-child(8)").allTextContents();
  // On a busy machine it is slow all the time, which is no spike: it is avoided then.
  const avoided = / is gone round/.test(await page.textContent("#event-list"));
  assert.ok(avoided || spikes.some((count) => Number(count) > 0), `spikes by drive: ${spikes}`);
  const around = await page.textContent("#around-now");
  assert.ok(Number(around.match(/at most (\d+)/)[1]) > 0, around);
  const painted = await page.evaluate(() => {
    const canvas = document.getElementById("heat");
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const colours = new Set();
    for (let at = 0; at < data.length; at += 4) colours.add(data.slice(at, at + 3).join());
    return colours.size;
  });
  assert.ok(painted > 5, `${painted} colours in the heat map`);

  step("by keyboard");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
  await page.focus("#heat");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("ArrowLeft");
  assert.match(await page.textContent("#heat-cell"), /, 2 s ago: (median|no requests)/);

  step("a reader is not disturbed by what has not changed");
  await staysAttached(page);

  step("a drive that others go round is hatched, whyever they do");
  await please("let drive 4 sit out");
  await page.waitForTimeout(2500);
  assert.ok(await hatched(page, 4, 8), "a drive that sits out is not hatched");
  await page.focus("#heat");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  for (let row = 1; row < 4; row += 1) await page.keyboard.press("ArrowDown");
  assert.match(await page.textContent("#heat-cell"), /sits out, the others go round it/);
  assert.match(await page.textContent("#heat-key"), /unresponsive, avoided, suspect or sitting out/);
  await please("let drive 4 be used");

  step("the layout of a stripe");
  const roles = () => page.locator("#stripe-table tbody td").allTextContents();
  const first = await roles();
  assert.equal(first.filter((role) => role === "parity").length, 1, `${first}`);
  await page.fill("#stripe-number", "1");
  await page.waitForFunction((before) => [...document.querySelectorAll("#stripe-table tbody td")]
    .map((cell) => cell.textContent).join() !== before, first.join());

  step("for screen readers, in light and dark");
  await accessible(page);
  await page.screenshot({ path: `${pictures}/console-light.png`, fullPage: true });
  await page.click("#theme");
  await accessible(page);
  await page.click("#theme");
  const dark = await open("dark");
  await dark.page.selectOption("#pool", "gc");
  await dark.page.waitForSelector("#stripe-table .parity");
  await accessible(dark.page);

  step("trouble in another pool is seen, and a page opened now begins with it");
  await please("fail a drive of calm");
  await page.waitForFunction(() => document.getElementById("pools").textContent
    === "3 pools: 1 degraded (calm), 2 online");
  assert.equal(await page.inputValue("#pool"), "gc", "whoever looks at a pool goes on");
  assert.equal(await page.textContent("#state strong"), "online");
  const choices = await page.locator("#pool option").allTextContents();
  assert.deepEqual(choices, ["r5 – online", "gc – online", "calm – degraded"]);
  assert.match(await page.title(), /^1 degraded \(calm\)/);
  const late = await open("light");
  assert.equal(await late.page.inputValue("#pool"), "calm");
  assert.equal(await late.page.textContent("#state strong"), "degraded");

  step("a pool of another scheme: its space, and no stripes");
  await late.page.selectOption("#pool", "r5");
  await late.page.waitForFunction(() => document.getElementById("stripe-why").textContent !== "");
  assert.match(await late.page.textContent("#stripe-why"), /^Stripes of raid5 pools lie where/);
  assert.ok(await late.page.locator("#stripe-table").isHidden());
  assert.match(await late.page.textContent("#space-key"), /in use: [1-9]/);
  const used = await late.page.locator("#space-bar .raid").evaluate((part) => part.clientWidth);
  assert.ok(used > 10, `${used} pixels are in use`);
  const facts = await late.page.textContent("#facts");
  assert.doesNotMatch(facts + await late.page.textContent("#work-list"), /journal|rebalance|copies/);
  await late.page.selectOption("#pool", "gc");
  await late.page.waitForSelector("#stripe-table .parity");
  assert.doesNotMatch(await late.page.textContent("#work-list"), /rebalance/, "nobody asked for one");
  check(late);

  step("a pool that could not be opened");
  const lost = await open("light", withLost);
  assert.equal(await lost.page.inputValue("#pool"), "lost");
  assert.equal(await lost.page.textContent("#state"), "failed 2 drives are missing");
  assert.match(await lost.page.textContent("#pools"), /^4 pools: 1 failed \(lost\), 1 degraded/);
  await accessible(lost.page);
  await lost.page.selectOption("#pool", "gc");
  await lost.page.waitForSelector("#drive-table tbody tr");
  await lost.page.selectOption("#pool", "lost");
  await lost.page.waitForSelector("#drive-table tbody tr", { state: "detached" });
  check(lost);
  for (const { context } of [late, lost]) await context.close();

  step("a drive fails: the page says so by itself");
  await please("fail a drive");
  await page.waitForSelector("#state .degraded");
  assert.match(await page.textContent("#action"), /To do: /);
  assert.match(await page.textContent("#event-list"), /drive/);
  await dark.page.waitForSelector("#state .degraded");
  await dark.page.waitForTimeout(20_000);
  await dark.page.screenshot({ path: `${pictures}/console-dark.png`, fullPage: true });

  check(light);
  check(dark);
  const connection = (text) => page.waitForFunction((text) =>
    document.getElementById("connection").textContent.startsWith(text), text);
  // To the microsecond: within a second a drive may well be slow twice, and equally.
  const told = () => page.locator("#event-list li").evaluateAll((items) =>
    items.map((item) => `${item.querySelector("time").dateTime} ${item.textContent}`));

  step("the page loses its server, and finds it again: nothing is told twice");
  await light.context.setOffline(true);
  await connection("no answer");
  await light.context.setOffline(false);
  await connection("connected");
  await page.waitForTimeout(3000);
  const once = await told();
  assert.equal(new Set(once).size, once.length, `${once.join("\n")}`);

  step("the server stops and comes back: what happens from then on is told");
  await please("stop the server");
  await connection("no answer");
  const before = await told();
  assert.ok(before.length > 3, `numbers of events have to fall: ${before}`);
  await please("start the server");
  await connection("connected");
  await please("fail another drive");
  // Of a list that may be full of spikes: what comes pushes out what is old.
  const fails = / gc: drive mem:3 is not used /;
  assert.ok(!before.some((text) => fails.test(text)));
  await page.waitForFunction((fails) => [...document.querySelectorAll("#event-list li")]
    .some((event) => new RegExp(fails).test(event.textContent)), fails.source);
  // But not what somebody has to know of.
  const alarms = before.filter((text) => /(warning|error) gc: /.test(text));
  const after = new Set(await told());
  assert.ok(alarms.length > 0 && alarms.every((text) => after.has(text)), alarms.join("\n"));
  console.log("ok");
} finally {
  await browser.close();
  // Open, it would be waited for.
  process.stdin.destroy();
}
