// What a browser sees of the demo's page. Each test opens a page of its own and fails on an error in
// the console, on a request to another host, and on a serious finding of axe-core.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import assert from "node:assert/strict";
import { chromium } from "playwright-core";

const address = process.env.ADDRESS;
const host = new URL(address).host;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const LIMIT = 60000;
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
});
let failures = 0;

async function test(name, options, body) {
  const faults = [];
  // The checks are run from outside the page: its policy would refuse the script of axe-core.
  const context = await browser.newContext({ ...options, bypassCSP: false });
  context.setDefaultTimeout(LIMIT);
  const page = await context.newPage();
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") faults.push(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => faults.push(`error: ${error}`));
  page.on("request", (request) => {
    if (new URL(request.url()).host !== host) faults.push(`request to ${request.url()}`);
  });
  try {
    await body(page);
    assert.deepEqual(faults, []);
    console.log(`ok      ${name}`);
  } catch (error) {
    failures += 1;
    console.log(`FAILED  ${name}\n${error.stack ?? error}`);
  }
  await context.close();
}

const open = (page, path) => page.goto(new URL(path, address).href, { waitUntil: "load" });

// axe-core is evaluated by the debugger, which a page's policy does not bind.
async function accessible(page, rules) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate((rules) => window.axe.run({ resultTypes: ["violations"], ...(rules && { runOnly: rules }) }), rules);
  const serious = violations.filter(({ id, impact }) => id === "landmark-unique" || impact === "serious" || impact === "critical");
  const told = serious.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).slice(0, 3).join(" | ")}`);
  assert.deepEqual(told, []);
}

async function fits(page) {
  const [content, window] = await page.evaluate(() => [
    document.documentElement.scrollWidth,
    document.documentElement.clientWidth,
  ]);
  assert.ok(content <= window, `${page.url()} is ${content} px wide in a window of ${window} px`);
}

const answer = async (name) => (await fetch(new URL(`report?name=${name}&format=json`, address))).json();

await test("what is new appears without a reload, and the focus stays where it was", {}, async (page) => {
  await open(page, "");
  await page.evaluate(() => { window.loaded = true; });
  const focused = page.locator("#now a").first();
  await focused.focus();
  const href = await focused.getAttribute("href");
  await page.evaluate(() => { window.before = document.querySelector("#now tbody"); });
  await page.waitForFunction(() => !window.before.isConnected);
  assert.equal(await page.evaluate(() => window.loaded), true);
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute("href")), href);
  await page.getByText("live", { exact: true }).waitFor();
});

await test("each report has its table, and each chart has its data", {}, async (page) => {
  await open(page, "reports");
  const links = page.locator("dl.reports a");
  const all = await links.evaluateAll((links) => links.map((link) => ({ href: link.getAttribute("href"), title: link.innerText })));
  assert.ok(all.length >= 14, `${all.length} reports`);
  let charts = 0;
  for (const { href, title } of all) {
    const name = new URL(href, address).searchParams.get("name");
    await open(page, href);
    assert.equal(await page.locator("main h1").first().innerText(), title);
    const { rows } = await answer(name);
    if (rows.length === 0) continue;
    assert.ok(await page.locator("table.report tbody tr").count() > 0, name);
    const chart = page.locator("figure.chart.wide svg");
    if (await chart.count() === 0) continue;
    charts += 1;
    // Every chart draws shapes and writes its labels. A day without a repair has no average.
    const isEmpty = (row) => row.includes(null) && row.slice(1).every((value) => !value);
    const drawn = rows.filter((row) => !isEmpty(row));
    assert.ok(drawn.length > 0, `${name}: no row has a number`);
    assert.ok(await chart.locator("rect, path, circle").count() >= drawn.length, `${name}: the chart is empty`);
    assert.ok(await chart.locator("text").count() > 2, `${name}: the chart has no labels`);
    const box = await chart.boundingBox();
    assert.ok(box.width > 200 && box.height > 80, `${name}: ${JSON.stringify(box)}`);
  }
  assert.ok(charts >= 8, `only ${charts} charts`);
});

await test("the table of a report begins with the newest day, and its chart with the oldest", {}, async (page) => {
  const { columns, rows } = await answer("intake");
  const period = columns.indexOf("period");
  await open(page, "report?name=intake");
  const days = await page.locator("table.report tbody tr td:first-child").allInnerTexts();
  // As the country of the browser writes them: en-US.
  const written = rows.map((row) => row[period].replace(/^(\d+)-(\d+)-(\d+)$/, "$2/$3/$1"));
  assert.deepEqual(days, written.reverse());
  const labels = await page.locator("figure.chart.wide svg text").allTextContents();
  assert.ok(labels.includes(days.at(-1)), `${labels}`);
});

await test("Home has the numbers of each range, and each leads to its report", {}, async (page) => {
  for (const range of ["Today", "This week", "This month", "Last month"]) {
    await open(page, "");
    await page.locator("nav.ranges").getByRole("link", { name: range }).click();
    await page.locator("nav.ranges a[aria-current]", { hasText: range }).waitFor();
    assert.equal(await page.locator(".card").count(), 4);
    assert.equal(await page.locator(".card svg.spark").count(), 4);
  }
  await page.locator("#money-in a").click();
  await page.waitForURL(/records\?route=payments.*created.from=/);
  await page.locator("dl.sums dt", { hasText: "Amount" }).waitFor();
  await open(page, "report?name=payments&range=last-month");
  const total = page.locator("table.report tfoot");
  await total.waitFor();
  await page.locator("nav.steps").getByRole("link", { name: "Previous" }).click();
  await total.waitFor();
  await open(page, "");
  await page.locator("#now tr", { hasText: "Overdue" }).getByRole("link").click();
  await page.locator("h1", { hasText: "Repairs" }).waitFor();
});

await test("the lists of records have pages and lead to each record, which the box finds", {}, async (page) => {
  await open(page, "records?route=jobs");
  const first = await page.locator("table.report tbody a").first().getAttribute("href");
  await page.getByRole("link", { name: "Next page" }).click();
  await page.waitForURL(/after=/);
  assert.notEqual(await page.locator("table.report tbody a").first().getAttribute("href"), first);
  await page.locator("table.report tbody a").first().click();
  await page.getByText("History").waitFor();
  const number = await page.locator("dl.record dt", { hasText: "Job number" }).locator("+ dd").innerText();
  await open(page, "");
  await page.locator("input[name=q]").fill(number);
  await page.keyboard.press("Enter");
  await page.locator("ul.found a", { hasText: number }).first().click();
  await page.locator("h1", { hasText: number }).waitFor();
});

await test("the period of a report can be chosen", {}, async (page) => {
  await open(page, "report?name=payments");
  await page.locator("select[name=by]").selectOption("month");
  await page.getByRole("button", { name: "Show" }).click();
  await page.waitForURL(/by=month/);
  assert.match(await page.locator("table.report tbody td").first().innerText(), /^\d{4}-\d{2}$/);
});

async function somePerson() {
  const listed = await (await fetch(new URL("report?name=technicians", address))).text();
  return /href="(person\?name=[^"]+)"/.exec(listed)[1].replaceAll("&amp;", "&");
}

async function someJob() {
  const listed = await (await fetch(new URL("records?route=jobs", address))).text();
  return /record\?route=jobs&amp;id=(\d+)/.exec(listed)[1];
}

const PATHS = ["", "?range=last-month", "system", "report?name=repairs", "reports", "report?name=intake", "report?name=busiest-hours", "report?name=outstanding",
  "records?route=jobs", "records?route=payments&sort=amount&amount.from=1", "report?name=outstanding&sort=-total&total.from=1", `record?route=jobs&id=${await someJob()}`, await somePerson(), "find?q=apple"];

// These have every colour of the style between them.
const COLOURS = ["", "system", "report?name=intake", "records?route=jobs"];

async function isLight(page) {
  const paper = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  return paper.match(/\d+/g).slice(0, 3).every((part) => Number(part) > 128);
}

await test("no serious fault of accessibility", { colorScheme: "light" }, async (page) => {
  for (const path of PATHS) {
    await open(page, path);
    await accessible(page);
  }
  assert.ok(await isLight(page));
});

const phone = { viewport: { width: 360, height: 740 } };
await test("a dark phone has contrast and shows every page without sideways scrolling", { ...phone, colorScheme: "dark" }, async (page) => {
  for (const path of PATHS) {
    await open(page, path);
    await fits(page);
    if (COLOURS.includes(path)) await accessible(page, ["color-contrast"]);
  }
  assert.ok(!await isLight(page));
});

await test("on a phone a record takes two lines, with its status and its amount in sight", { viewport: { width: 390, height: 740 } }, async (page) => {
  for (const [path, seen] of [["records?route=jobs", ["status", "total amount"]], ["records?route=payments", ["amount"]], ["report?name=outstanding", ["status", "outstanding"]], ["report?name=repairs", ["status"]]]) {
    await open(page, path);
    const rows = await page.locator("table.list tbody tr").evaluateAll((rows) => rows.map((row) => {
      const { top, bottom, left, right } = row.getBoundingClientRect();
      const cells = [...row.querySelectorAll("td")].map((cell) => ({ label: cell.dataset.label.toLowerCase(), text: cell.innerText, box: cell.getBoundingClientRect() }));
      const inSight = cells.filter(({ text, box }) => text && box.top >= top && box.bottom <= bottom + 1 && box.left >= left && box.right <= right + 1);
      return { lines: new Set(inSight.map(({ box }) => Math.round(box.top))).size, labels: inSight.map(({ label }) => label), height: bottom - top };
    }));
    assert.ok(rows.length > 5, path);
    for (const { lines, labels, height } of rows) {
      assert.ok(lines <= 2 && height < 60, `${path}: ${lines} lines, ${height} px`);
      for (const label of seen) assert.ok(labels.includes(label), `${path}: no ${label} among ${labels}`);
    }
  }
});

// Each question of an owner is answered after at most three links, chosen by their words.
await test("three links from Home answer what an owner asks", {}, async (page) => {
  const follow = async (...names) => {
    assert.ok(names.length <= 3);
    await open(page, "");
    for (const name of names) {
      await page.getByRole("link", typeof name === "string" ? { name, exact: true } : { name }).first().click();
      await page.waitForLoadState("load");
    }
  };
  const cells = async (column) => {
    const heads = await page.locator("table.report thead th").allInnerTexts();
    const place = heads.findIndex((head) => head.replace(/[ ↑↓]+$/, "") === column);
    assert.ok(place >= 0, `no ${column} among ${heads}`);
    return page.locator(`table.report tbody td:nth-child(${place + 1})`).allInnerTexts();
  };
  // What is open and oldest: the list begins with it.
  await follow("Reports", "Repairs");
  const ages = (await cells("days open")).map(Number);
  assert.ok(ages.length > 5 && ages[0] === Math.max(...ages), `${ages}`);
  // Who has most.
  await follow("Reports", "Technician load");
  const open_ = (await cells("open")).map((text) => Number(text.replace(/\D+/g, "")));
  assert.ok(open_.length > 1 && open_[0] === Math.max(...open_), `${open_}`);
  // What came in cash yesterday.
  await follow("Reports", "Till by payment method", "Yesterday");
  assert.match(await page.locator("nav.steps strong").innerText(), /Yesterday|\d/);
  assert.ok(await page.locator("table.report tbody tr, main p").count() > 0);
  // Who owes most.
  await follow("Reports", "Outstanding amounts");
  const owed = (await cells("outstanding")).map((text) => Number(text.replace(/[^\d.]/g, "")));
  assert.ok(owed.length > 5 && owed[0] === Math.max(...owed), `${owed}`);
  assert.ok((await cells("customer name"))[0].length > 0);
  // The list for the bookkeeper, as Excel.
  await open(page, "");
  await page.getByRole("link", { name: "Reports", exact: true }).click();
  await page.getByRole("link", { name: "Payments", exact: true }).click();
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "Excel", exact: true }).click()]);
  assert.equal(file.suggestedFilename(), "payments.xlsx");
});

await test("everything works with JavaScript off", { javaScriptEnabled: false }, async (page) => {
  await open(page, "system");
  assert.ok(await page.locator("#pollers tbody tr").count() >= 6);
  await open(page, "");
  assert.equal(await page.locator(".card svg.spark").count(), 4);
  await open(page, "report?name=intake");
  assert.ok(await page.locator("figure.chart.wide svg rect, figure.chart.wide svg path").count() > 2);
  await open(page, "records?route=leads");
  await page.locator("nav.ranges").getByRole("link", { name: "Customers" }).click();
  await page.waitForURL(/route=customers/);
  assert.ok(await page.locator("table.report tbody tr").count() > 0);
  await page.locator("th a", { hasText: "Name" }).click();
  await page.waitForURL(/sort=name/);
  const sorted = page.locator("th[aria-sort=ascending]");
  assert.equal(await sorted.innerText(), "Name");
  const mark = await sorted.locator("a").evaluate((link) => getComputedStyle(link, "::after").content);
  assert.ok(mark.includes("↑"), mark);
  const names = await page.locator("table.report tbody td:first-child").allInnerTexts();
  await page.locator("details.rows summary").click();
  await page.locator("input[name='name.has']").fill(names.at(-1));
  await page.getByRole("button", { name: "Filter" }).click();
  await page.waitForURL(/name.has=/);
  const found = await page.locator("table.report tbody td:first-child").allInnerTexts();
  assert.ok(found.length > 0 && found.every((name) => name === names.at(-1)), `${found}`);
});

// The last one: the page is no longer in order afterwards.
await test("a gap is listed, on a phone as well", phone, async (page) => {
  const config = readFileSync(`${process.env.DEMO}/shopmirror.toml`, "utf8");
  const [, workspace] = /base_url = "([^"]+)"/.exec(config);
  await open(page, "system");
  await page.locator("#gaps h2").waitFor();
  // On a machine that stood still for a while, the demo may have a gap already.
  const rows = page.locator("#gaps tbody tr");
  const before = await rows.count();
  const burst = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ route: "leads", count: 300 }) };
  assert.ok((await fetch(new URL("/_sandbox/burst", workspace), burst)).ok);
  await rows.nth(before).waitFor();
  await fits(page);
  await accessible(page);
});

await browser.close();
console.log(failures === 0 ? "tests/browser: every test passed" : `tests/browser: ${failures} tests FAILED`);
process.exit(failures === 0 ? 0 : 1);
