// Takes the pictures for the documents; see `make`.
import { chromium } from "playwright-core";

const { ADDRESS: address, CHROMIUM: executablePath, OUT: folder } = process.env;
// Changes that came in since the start, so that the page has something to show.
const CHANGES = 30;
const ask = async (path) => (await fetch(new URL(path, address))).json();
const found = await (await fetch(new URL("/find?q=pickup", address))).text();
const [, repair] = /record\?route=jobs&amp;id=(\d+)/.exec(found);
const PICTURES = [
  ["home", "/?range=this-week", 930],
  ["report", "/report?name=payments&range=this-month", 880],
  ["repair", `/record?route=jobs&id=${repair}`, 880],
  ["system", "/system", 880],
];
const DEVICES = [["", 1280, 1], ["phone-", 390, 1.5]];

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] });
const seen = async () => {
  const status = await ask("/api/status");
  const home = await (await fetch(new URL("/", address))).text();
  const unread = status.pollers.filter((poller) => poller.last_success_age_s === null).length;
  return { changes: status.last_seq, isNamed: home.includes("Repair (sandbox)"), unread };
};
const first = await seen();
for (let now = first; now.unread > 0 || !now.isNamed || now.changes < first.changes + CHANGES; now = await seen()) {
  await new Promise((done) => setTimeout(done, 500));
}
for (const colorScheme of ["light", "dark"]) {
  for (const [device, width, deviceScaleFactor] of DEVICES) {
    for (const [name, path, height] of PICTURES) {
      const page = await browser.newPage({ colorScheme, deviceScaleFactor, viewport: { width, height } });
      await page.goto(new URL(path, address).href, { waitUntil: "load" });
      await page.screenshot({ path: `${folder}/${name}-${device}${colorScheme}.png` });
      await page.close();
    }
  }
}
await browser.close();
