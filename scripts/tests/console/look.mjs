// Looks at the console of a running server, as people do: by eye, by keyboard, by screen reader.
//
//   node look.mjs URL PICTURES
//
// The pool has one drive that is slow in spikes and is under load; while this runs, the script
// that started it fails a drive when it is told so on standard output.

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
async function open(colorScheme) {
  const context = await browser.newContext({ colorScheme, viewport: { width: 1280, height: 1500 } });
  const page = await context.newPage();
  const asked = [], complaints = [];
  page.on("request", (request) => asked.push(request.url()));
  page.on("console", (message) => {
    if (message.type() === "error") complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  await page.goto(url);
  await page.waitForSelector("#state .online, #state .degraded");
  return { context, page, asked, complaints };
}

/** No request left the daemon, and nothing went wrong. */
function check({ asked, complaints }) {
  const strangers = asked.filter((address) => !address.startsWith(url) && !address.startsWith("data:"));
  assert.deepEqual(strangers, []);
  assert.deepEqual(complaints, []);
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
  // Half a minute of a drive that collects garbage.
  await page.waitForTimeout(30_000);
  const rows = await page.locator("#drive-table tbody tr").count();
  assert.equal(rows, 8);
  const medians = await page.locator("#volume-table tbody td:nth-child(6)").allTextContents();
  assert.match(medians[0], /\d (µs|ms)$/, "a median is shown");

  step("a spike is seen, and that requests go round it");
  const spikes = await page.locator("#drive-table tbody td:nth-child(8)").allTextContents();
  assert.ok(spikes.some((count) => Number(count) > 0), `spikes by drive: ${spikes}`);
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
  await accessible(dark.page);

  step("a drive fails: the page says so by itself");
  await please("fail a drive");
  await page.waitForSelector("#state .degraded");
  assert.match(await page.textContent("#action"), /To do: /);
  assert.match(await page.textContent("#event-list"), /drive/);
  await dark.page.waitForSelector("#state .degraded");
  await dark.page.waitForTimeout(20_000);
  await dark.page.screenshot({ path: `${pictures}/console-dark.png`, fullPage: true });

  step("the server stops and comes back");
  check(light);
  check(dark);
  await please("stop the server");
  await page.waitForFunction(() =>
    document.getElementById("connection").textContent.startsWith("no answer"));
  console.log("ok");
} finally {
  await browser.close();
  // Open, it would be waited for.
  process.stdin.destroy();
}
