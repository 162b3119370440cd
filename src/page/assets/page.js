"use strict";
// Keeps the page current: the server sends all parts once per second, and a part that changed
// replaces the one that is shown. A hidden page is not kept current.
const live = document.getElementById("live");
let source = null;

function show(event) {
  const sent = new DOMParser().parseFromString(event.data, "text/html");
  document.title = sent.title;
  for (const part of sent.querySelectorAll("[data-part]")) {
    const shown = document.getElementById(part.id);
    if (shown && shown.innerHTML !== part.innerHTML) shown.replaceChildren(...part.childNodes);
  }
}

function tell(text) {
  if (live.textContent !== text) live.textContent = text;
}

function connect() {
  if (source || document.hidden) return;
  source = new EventSource("live");
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
