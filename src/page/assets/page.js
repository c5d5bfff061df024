// Every page begins here. Without scripts it works as well; these make it follow what happens.
import { follow } from "./live.js";
import { tellTimes } from "./times.js";
import { listenToKeys } from "./keys.js";
import { confirmActions } from "./actions.js";

// A choice of colours takes effect at once; its button is for those without scripts.
function takeColoursAtOnce() {
  const select = document.querySelector("#colours");
  select?.form?.classList.add("at-once");
  select?.addEventListener("change", () => select.form.requestSubmit());
}

// A fault leads to its place in the text.
function leadToFaults() {
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[data-line]");
    const text = document.querySelector("#strategy");
    if (!link || !(text instanceof HTMLTextAreaElement)) return;
    event.preventDefault();
    const lines = text.value.split("\n");
    const start = lines.slice(0, link.dataset.line - 1).reduce((sum, line) => sum + line.length + 1, 0);
    text.focus();
    text.setSelectionRange(start + Number(link.dataset.column) - 1, start + (lines[link.dataset.line - 1] ?? "").length);
  });
}

takeColoursAtOnce();
leadToFaults();
tellTimes(document);
listenToKeys();
confirmActions();
follow();
// No other page pays for what maps take.
if (document.querySelector("[data-map]")) import("./map/map.js");
