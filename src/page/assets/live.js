// Follows what happens. An event says that the page is old; then the same page is fetched again, and what differs is put in place. What
// is shown is marked as old from the moment on at which it isn't known whether it still holds.
import { make } from "./make.js";
import { morph } from "./morph.js";
import { sayChanges } from "./said.js";
import { Stream } from "./stream.js";
import { texts } from "./texts.js";
import { tellTimes } from "./times.js";

const REFRESH_MS = 1_000;
const TICK_MS = 5_000;
const MAX_PAUSE_MS = 30_000;
// A page that doesn't come in this time doesn't come.
const ANSWER_MS = 15_000;

const policy = globalThis.trustedTypes?.createPolicy("choirmaster", { createHTML: (text) => text });
const parser = new DOMParser();

// The server has escaped whatever somebody chose.
function parsed(text) {
  return parser.parseFromString(policy ? policy.createHTML(text) : text, "text/html");
}

// What somebody had written where nothing can be written any more, so that it isn't lost.
function giveBack(written) {
  if (written.length === 0) return;
  const place = document.querySelector("#given-back");
  const text = make("textarea", { readonly: "", rows: "2", "aria-label": texts.kept });
  text.value = written.join("\n");
  place.replaceChildren(make("p", {}, texts.kept), text);
}

class Following {
  constructor(main) {
    Object.assign(this, { main, state: document.querySelector("#live-state"), isAsking: false, isDue: false, timer: null, pause: REFRESH_MS });
    this.isOld = false;
    this.isOver = false;
  }

  start() {
    // The answer to a form is the page of another address, which is the one to be asked for from now on.
    if (this.here !== location.pathname + location.search) history.replaceState(history.state, "", this.here);
    sayChanges(this.main);
    this.stream = new Stream({
      url: () => this.eventsUrl(),
      on: { message: () => this.refreshSoon() },
      // What was missed meanwhile has to be there first.
      opened: () => (this.isOld ? this.refreshSoon(0) : this.show("live", "live")),
      lost: (why) => this.show("old", why),
    });
    setInterval(() => !document.hidden && this.main.dataset.ticks && this.refreshSoon(this.pause), TICK_MS);
    document.addEventListener("refresh-wanted", () => this.refreshSoon(0));
  }

  get here() {
    return this.main.dataset.here;
  }

  eventsUrl() {
    const asked = new URLSearchParams({ beat: "true", news: "true", after: this.main.dataset.after });
    if (this.main.dataset.release) asked.set("release", this.main.dataset.release);
    return `/ui/api/events?${asked}`;
  }

  refreshSoon(wait = REFRESH_MS) {
    if (this.isOver) return;
    if (this.isAsking) this.isDue = true;
    else this.timer ??= setTimeout(() => this.refresh(), wait);
  }

  async refresh() {
    this.timer = null;
    this.isAsking = true;
    try {
      await this.fetchMiddle();
      this.pause = REFRESH_MS;
    } catch {
      this.show("old", "silent");
      this.isDue = true;
      this.pause = Math.min(this.pause * 2, MAX_PAUSE_MS);
    }
    this.isAsking = false;
    if (this.isDue) {
      this.isDue = false;
      this.refreshSoon(this.pause);
    }
  }

  async fetchMiddle() {
    const answer = await fetch(this.here, { headers: { "x-choirmaster-middle": "1" }, cache: "no-store", signal: AbortSignal.timeout(ANSWER_MS) });
    if (answer.status === 401) return this.end();
    if (!answer.ok) throw new Error(String(answer.status));
    const middle = parsed(await answer.text()).querySelector("#main");
    if (!middle) throw new Error("no middle");
    giveBack(morph(this.main, middle));
    this.main.toggleAttribute("data-old", this.isOld);
    tellTimes(this.main);
    sayChanges(this.main);
    document.dispatchEvent(new Event("refreshed"));
    if (this.stream.isOpen) this.show("live", "live");
  }

  // Nothing comes any more before somebody signs in.
  end() {
    this.isOver = true;
    this.stream.end();
    this.show("old", "over");
    const next = new URLSearchParams({ next: this.here });
    this.state.append(" ", make("a", { href: `/ui/sign-in?${next}` }, texts.signIn));
    document.dispatchEvent(new Event("session-over"));
  }

  show(kind, name) {
    this.isOld = kind === "old";
    this.main.toggleAttribute("data-old", this.isOld);
    const text = texts[name];
    if (!this.state || this.state.textContent === text) return;
    this.state.dataset.kind = kind;
    this.state.textContent = text;
  }
}

/** Follows, where the page says something that changes. */
export function follow() {
  const main = document.querySelector("#main");
  if (main?.dataset.after) new Following(main).start();
}
