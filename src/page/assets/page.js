"use strict";
// Keeps the page current: the server sends the parts that changed, and each replaces the one that is
// shown. A hidden page is not kept current.
const live = document.getElementById("live");
let source = null;

function show(event) {
  const sent = document.createElement("template");
  sent.innerHTML = event.data;
  for (const part of sent.content.querySelectorAll("[data-part]")) {
    const shown = document.getElementById(part.id);
    if (shown && shown.innerHTML !== part.innerHTML) replace(shown, part);
  }
}

// Replaces what a part holds; the link that had the focus has it afterwards.
function replace(shown, part) {
  const focused = shown.contains(document.activeElement) ? document.activeElement : null;
  shown.replaceChildren(...part.childNodes);
  if (focused === null || shown.contains(focused)) return;
  const href = focused.getAttribute("href");
  const again = [...shown.querySelectorAll("a, [tabindex]")].find((one) => one.getAttribute("href") === href);
  if (again) again.focus({ preventScroll: true });
}

function tell(text) {
  if (live.textContent !== text) live.textContent = text;
}

function connect() {
  if (source || document.hidden) return;
  source = new EventSource(location.href);
  source.addEventListener("open", () => tell("live"));
  source.addEventListener("page", show);
  source.addEventListener("error", () => {
    tell("not connected, trying again");
    if (source && source.readyState === EventSource.CLOSED) {
      source = null;
      setTimeout(connect, 10000);
    }
  });
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden && source) {
    source.close();
    source = null;
  }
  connect();
});
connect();
