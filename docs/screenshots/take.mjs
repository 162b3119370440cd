// Takes the pictures for the documents; see `make`.
import { chromium } from "playwright-core";

const { ADDRESS: address, CHROMIUM: executablePath, OUT: folder } = process.env;
// Changes that came in since the start, so that the page has something to show.
const CHANGES = 30;
const PICTURES = [
  ["status", "/", 900],
  ["report", "/report?name=open-repairs", 640],
];

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] });
const seen = async () => {
  const status = await (await fetch(new URL("/api/status", address))).json();
  return { changes: status.last_seq, unread: status.pollers.filter((poller) => poller.last_success_age_s === null).length };
};
const first = await seen();
for (let now = first; now.unread > 0 || now.changes < first.changes + CHANGES; now = await seen()) {
  await new Promise((done) => setTimeout(done, 500));
}
for (const colorScheme of ["light", "dark"]) {
  for (const [name, path, height] of PICTURES) {
    const page = await browser.newPage({ colorScheme, viewport: { width: 1000, height } });
    await page.goto(new URL(path, address).href, { waitUntil: "load" });
    await page.screenshot({ path: `${folder}/${name}-${colorScheme}.png` });
    await page.close();
  }
}
await browser.close();
