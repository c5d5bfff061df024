// A stream of events, as pages and maps follow one. It says when it is cut, also where nobody else does: while nothing happens it carries a
// beat every 5 s, so one that carries none is dead. Browsers keep six connections to a server at most: a page that nobody looks at gives its
// own back, and goes on where it was once it is looked at again.
const DEAF_MS = 16_000;
const TICK_MS = 5_000;
const FIRST_PAUSE_MS = 1_000;
const MAX_PAUSE_MS = 30_000;

export class Stream {
  // `url()` is where to go on from; `on` has what is done at events, by name. `opened` is told when it is followed, and `lost` when not: because it
  // was `cut`, or since somebody is `looking` again.
  constructor({ url, on, opened, lost }) {
    Object.assign(this, { url, on, opened, lost, source: null, isEnded: false, retry: null, pause: FIRST_PAUSE_MS });
    document.addEventListener("visibilitychange", () => (document.hidden ? this.close() : this.again()));
    addEventListener("pagehide", () => this.close());
    addEventListener("pageshow", (event) => event.persisted && this.again());
    setInterval(() => this.tick(), TICK_MS);
    this.open();
  }

  get isOpen() {
    return this.source?.readyState === EventSource.OPEN;
  }

  open() {
    if (this.source || this.isEnded || document.hidden) return;
    const source = (this.source = new EventSource(this.url()));
    this.hear();
    source.onopen = () => {
      this.hear();
      this.pause = FIRST_PAUSE_MS;
      this.opened();
    };
    source.onerror = () => this.cut(source);
    source.addEventListener("beat", () => this.hear());
    for (const [name, act] of Object.entries(this.on)) {
      source.addEventListener(name, (event) => {
        this.hear();
        act(event);
      });
    }
  }

  hear() {
    this.heardAt = performance.now();
  }

  close() {
    clearTimeout(this.retry);
    this.source?.close();
    this.source = null;
  }

  // Where it is closed already, what is shown may be old until it is open.
  again() {
    if (this.source || this.isEnded) return;
    this.lost("looking");
    this.open();
  }

  // Follows anew, from another place.
  restart() {
    this.close();
    this.isEnded = false;
    this.open();
  }

  // Nobody follows it any more.
  end() {
    this.isEnded = true;
    this.close();
  }

  tick() {
    if (!this.source || performance.now() - this.heardAt <= DEAF_MS) return;
    this.close();
    this.again();
  }

  cut(source) {
    if (this.source !== source) return;
    this.lost("cut");
    // The browser tries again by itself, but for an answer that is no stream.
    if (source.readyState !== EventSource.CLOSED) return;
    this.close();
    this.retry = setTimeout(() => this.open(), this.pause);
    this.pause = Math.min(this.pause * 2, MAX_PAUSE_MS);
  }
}
