// Tells those who don't see the page what has changed on it: releases that came into another state, once each, several in one sentence.

import { texts } from "./texts.js";

const GATHER_MS = 1_500;
const MOST = 3;

const changed = new Map();
let timer = null;
let known = null;

// The words of each release's state, by its id.
function states(main) {
  const found = new Map();
  for (const badge of main.querySelectorAll("[data-key] > td > .badge[data-state]")) {
    found.set(badge.closest("[data-key]").dataset.key, badge.textContent);
  }
  const one = main.querySelector("header.release .badge[data-state]");
  if (one) found.set(main.dataset.release, one.textContent);
  return found;
}

function say() {
  timer = null;
  const all = [...changed].map(([id, words]) => `${id}: ${words}`);
  changed.clear();
  const rest = all.length - MOST;
  const said = all.slice(0, MOST).join("; ") + (rest > 0 ? `; ${texts.moreChanged.replace("%", rest)}` : "");
  const place = document.querySelector("#said");
  if (place) place.textContent = said;
}

/** Takes note of what the page shows now, and says what is otherwise than when it was called last. */
export function sayChanges(main) {
  const now = states(main);
  for (const [id, words] of now) {
    const before = known?.get(id);
    if (before !== undefined && before !== words) changed.set(id, words);
  }
  known = now;
  if (changed.size > 0) timer ??= setTimeout(say, GATHER_MS);
}
