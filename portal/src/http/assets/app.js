// Keeps the page live: on every change it fetches itself again and replaces what has changed. Works without: reload by hand.
"use strict";

const live = document.getElementById("live");
let pending = false;
let again = false;

async function refresh() {
  if (pending) {
    again = true;
    return;
  }
  pending = true;
  try {
    const answer = await fetch("/", { headers: { accept: "text/html" } });
    if (answer.status === 401) {
      location.reload();
      return;
    }
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const id of ["environments", "workers"]) {
      const [old, fresh] = [document.getElementById(id), page.getElementById(id)];
      if (old && fresh && old.innerHTML !== fresh.innerHTML) {
        old.replaceWith(document.adoptNode(fresh));
      }
    }
  } catch {
    show("lost");
  } finally {
    pending = false;
    if (again) {
      again = false;
      setTimeout(refresh, 250);
    }
  }
}

function show(state) {
  live.dataset.state = state;
  live.textContent = state === "live" ? "live" : "not connected; trying again";
}

if (live) {
  const events = new EventSource("/api/v1/events");
  events.addEventListener("open", () => {
    show("live");
    refresh();
  });
  events.addEventListener("error", () => show("lost"));
  events.addEventListener("change", refresh);
  // Pod counts change without an event.
  setInterval(refresh, 5000);
}
