// What the keyboard does beside what browsers do by themselves. Whoever speaks to a computer, or hits keys by chance, can turn keys of a
// single character off, where they are explained.

const OFF = "choirmaster-keys-off";

// Browsers that keep nothing throw.
function kept() {
  try {
    return localStorage.getItem(OFF) !== null;
  } catch {
    return false;
  }
}

function keep(isOff) {
  try {
    if (isOff) localStorage.setItem(OFF, "yes");
    else localStorage.removeItem(OFF);
  } catch {
    // Then it holds for this page.
  }
}

let isOff = kept();

function lines() {
  return [...document.querySelectorAll("#main a[data-open]")];
}

function move(by) {
  const all = lines();
  if (all.length === 0) return;
  const at = all.indexOf(document.activeElement);
  const next = at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + by, 0), all.length - 1);
  all[next].focus();
}

function explain() {
  const dialog = document.querySelector("#keys");
  if (dialog && !dialog.open) dialog.showModal();
}

const KEYS = new Map([
  ["/", () => document.querySelector("#main [role=search] input:not([type=hidden])")?.focus()],
  ["j", () => move(1)],
  ["k", () => move(-1)],
  ["?", explain],
]);

function isTyping(target) {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

// A field that a search fills empties itself at Esc first.
function leave(event) {
  if (event.target.value && event.target.type === "search") return;
  event.target.blur();
  document.querySelector("#main")?.focus();
}

function listenToChoice() {
  const box = document.querySelector("#keys-on");
  if (!box) return;
  box.checked = !isOff;
  box.addEventListener("change", () => {
    isOff = !box.checked;
    keep(isOff);
  });
  const button = document.querySelector("#show-keys");
  button.hidden = false;
  button.addEventListener("click", explain);
}

/** Listens from now on. */
export function listenToKeys() {
  listenToChoice();
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (isTyping(event.target)) {
      if (event.key === "Escape") leave(event);
      return;
    }
    const act = isOff ? undefined : KEYS.get(event.key);
    if (!act) return;
    event.preventDefault();
    act();
  });
}
