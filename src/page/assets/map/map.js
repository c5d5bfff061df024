// The map of the fleet or of a release. Without it, the page has counts by cell as a drawing and as a table.
//
// <div data-map="API" [data-release="ID"] data-land="FOLDER" [data-child="NUMBER"] [data-box="WEST,SOUTH,EAST,NORTH"] data-states data-texts>, with
// API the path of the API (/ui/api/v1). All that can be read comes from the page. Everything is made within the element, which is the script's own
// from then on: by that the style hides the drawing.
import { STATE, find, readChanges, readLand, readMap } from "./data.js";
import { Ground, Points } from "./draw.js";
import { button, make } from "../make.js";
import { Past } from "./past.js";
import { Stream } from "../stream.js";
import { View } from "./view.js";

// More children are shown as counts by cell, and so are all where there is no WebGL2.
const AREAS_BELOW = 0.004, FINE_LAND_BELOW = 0.08, TAP = 12, REST_MS = 300, AGAIN_MS = 30_000;
// A map isn't loaded again sooner than this after it was; one that doesn't come in the other time doesn't come.
const RELOAD_MS = 5_000, ANSWER_MS = 60_000;

// More is drawn than is seen, by this part of the width and height on each side (as the style has it).
const MARGIN = 0.25;
// Where a picture takes longer, as it does without a graphics card, moves shift and stretch the one there is until they rest.
const FAST_MS = 40, STILL_MS = 120;

class ChildMap {
  constructor(root) {
    const { map: api, release, states, texts } = root.dataset;
    Object.assign(this, { root, api, release, text: JSON.parse(texts), map: null, live: null, past: null, turns: {} });
    this.base = release ? `${api}/releases/${encodeURIComponent(release)}/map` : `${api}/map`;
    this.probe = make("span", { hidden: "" });
    this.stage = make("div", { class: "map-stage", tabindex: "0", role: "application", "aria-label": this.text.stage }, this.probe);
    this.colours = new Map();
    this.looks = JSON.parse(states).map(([words, kind, shape, fails, rank, name]) =>
      ({ words, fails, rank, name, path: new Path2D(shape), colour: () => this.colour(kind) }));
    this.below = make("canvas", { class: "map-ground" });
    this.above = make("canvas", { class: "map-points" });
    this.layer = make("div", { class: "map-layer" }, this.below, this.above);
    this.stage.append(this.layer);
    this.told = make("p", { class: "map-told" });
    this.note = make("p", { class: "map-note", role: "status" });
    this.stale = make("p", { class: "map-stale", role: "status" });
    this.bar = make("div", { class: "map-bar", role: "group", "aria-label": this.text.controls });
    root.append(this.bar, this.stage, this.stale, this.told, this.note);
    root.setAttribute("data-own", "");
    this.ground = new Ground(this.below, (kind) => this.colour(kind), this.looks);
    this.view = new View(this.stage, () => this.changed());
    this.controls();
    this.listen();
  }
  controls() {
    const { text, bar } = this;
    bar.append(button(text.zoomIn, () => this.view.zoom(0.5)), button(text.zoomOut, () => this.view.zoom(2)),
      button(text.all, () => this.to(() => true)), button(text.failures, () => this.to((i) => this.looks[this.states[i] & STATE].fails)));
    if (!this.release) return;
    this.wavePick = make("select", { "aria-label": text.toWave });
    this.wavePick.addEventListener("change", () => this.toWave(Number(this.wavePick.value)));
    this.past = new Past(this);
    bar.append(this.wavePick, ...this.past.controls);
  }
  listen() {
    this.stage.addEventListener("click", (event) => this.tap(event));
    new ResizeObserver(() => this.sized()).observe(this.stage);
    for (const media of ["(prefers-color-scheme: dark)", "(forced-colors: active)"]) {
      matchMedia(media).addEventListener("change", () => this.recolour());
    }
    this.above.addEventListener("webglcontextlost", (event) => {
      event.preventDefault();
      Object.assign(this, { points: null, isDrawing: false });
      // Browsers may show what has lost its graphics as a white sheet over the counts.
      this.above.style.visibility = "hidden";
      this.cells();
    });
    this.above.addEventListener("webglcontextrestored", () => this.map && this.shown());
    // The page has been brought up to date: so are the counts.
    document.addEventListener("refreshed", () => !this.points && this.count !== undefined && this.cells());
    document.addEventListener("session-over", () => {
      this.isOver = true;
      this.live?.end();
    });
    document.addEventListener("visibilitychange", () => this.live?.isEnded && this.again());
    // Nobody tells what changes of more children than can be followed.
    setInterval(() => {
      if (this.map || document.hidden) return;
      document.dispatchEvent(new Event("refresh-wanted"));
      this.again();
    }, AGAIN_MS);
  }
  // Colours of the style, by its classes, as they are now.
  colour(kind) {
    if (!this.colours.has(kind)) {
      this.probe.className = kind;
      this.colours.set(kind, getComputedStyle(this.probe).color);
    }
    return this.colours.get(kind);
  }
  recolour() {
    this.colours.clear();
    this.points?.recolour();
    this.ground.stale();
    this.changed(true);
  }
  get states() { return this.past?.states ?? this.map.states; }
  async fetch(path) {
    const answer = await fetch(path, { credentials: "same-origin", signal: AbortSignal.timeout(ANSWER_MS) });
    if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
    return answer;
  }
  async start() {
    this.sized();
    const box = this.root.dataset.box?.split(",").map(Number);
    if (box) this.view.show(box);
    this.land("land-110.bin").catch(() => (this.note.textContent = this.text.failed));
    // Counts are there at once, whatever there is to load.
    await this.cells();
    await this.load();
    if (this.root.dataset.child) this.to((i) => this.map?.numbers[i] === Number(this.root.dataset.child));
  }
  async again() {
    if (document.hidden || this.isOver) return;
    try {
      await this.cells(false);
      await this.load();
      this.setStale(false);
    } catch {
      this.setStale(true);
      this.loadedAt = performance.now();
      this.reload();
    }
  }
  async land(file) {
    if (this.loaded === file) return;
    this.loaded = file;
    const answer = await this.fetch(`${this.root.dataset.land}/${file}`);
    this.ground.setLand(readLand(await answer.arrayBuffer()));
    this.changed(true);
  }
  async load() {
    this.live?.end();
    if (this.count > Number(this.root.dataset.most)) return this.counted();
    this.map = readMap(await (await this.fetch(this.base)).arrayBuffer());
    this.loadedAt = performance.now();
    this.past?.reload();
    this.shown();
    this.follow();
    if (!this.release) return;
    const waves = this.map.waves.reduce((a, b) => Math.max(a, b), 0) + 1;
    this.wavePick.replaceChildren(make("option", { value: "-1" }, this.text.toWave),
      ...Array.from({ length: waves }, (_, i) => make("option", { value: String(i) }, `${this.text.wave} ${i + 1}`)));
  }
  // There are too many children to draw each: what was drawn of them would grow old.
  async counted() {
    if (this.past?.states) this.past.end();
    Object.assign(this, { map: null, points: null, isDrawing: false });
    this.sized();
    this.note.textContent = this.text.counted;
    await this.cells();
  }
  shown() {
    try {
      this.points ??= new Points(this.above, this.looks);
      this.points.load(this.map.at, this.states);
      this.ground.setCells(null);
      this.above.style.visibility = "";
      if (this.note.textContent === this.text.noGraphics) this.note.textContent = "";
    } catch {
      this.points = null;
      this.above.style.visibility = "hidden";
      this.note.textContent = this.text.noGraphics;
    }
    this.changed();
    this.tell();
  }
  // From the place of the map that is shown on.
  follow() {
    if (this.live) return this.live.restart();
    this.live = new Stream({
      url: () => `${this.base}/changes?beat=true&after=${this.map.place}`,
      on: { load: () => this.reload(), changes: (event) => this.take(event) },
      opened: () => this.setStale(false),
      lost: () => this.setStale(true),
    });
  }
  // What changes can't say: the whole map again, not too often where much comes and goes.
  reload() {
    this.live?.end();
    clearTimeout(this.reloading);
    if (this.isOver) return;
    this.reloading = setTimeout(() => this.again(), Math.max(0, RELOAD_MS - (performance.now() - this.loadedAt)));
  }
  take({ data, lastEventId }) {
    let [from, to] = [Infinity, 0];
    const known = readChanges(data, this.map.numbers, (at, state, wave) => {
      this.map.states[at] = state;
      this.map.waves[at] = wave;
      from = Math.min(from, at);
      to = Math.max(to, at + 1);
    });
    if (!known) return this.reload();
    this.map.place = lastEventId;
    // Who looks at the past goes on to do so.
    if (this.past?.states || from >= to) return;
    // What the page fetched may be from before these changes: what counts are asked for now is not.
    if (this.points) this.points.update(this.map.states, from, to);
    else this.cells().catch(() => this.setStale(true));
    this.changed(true);
    this.tell();
  }
  withdraw() {
    this.root.removeAttribute("data-own");
    for (const made of [this.bar, this.stage]) made.hidden = true;
  }
  setStale(is) {
    this.stale.textContent = is ? this.text.stale : "";
    this.root.toggleAttribute("data-stale", is);
  }
  // An answer may overtake the one to an earlier question of its kind, which is then none any more: null.
  async newest(kind, path) {
    const turn = (this.turns[kind] ??= { asked: 0, answered: 0 }), asked = ++turn.asked;
    const answer = await (await this.fetch(path)).json();
    if (asked < turn.answered) return null;
    turn.answered = asked;
    return answer;
  }
  async cells(shows = true) {
    const box = this.view.box.map((degrees) => degrees.toFixed(4)).join(",");
    const cells = await this.newest("cells", `${this.base}/cells?columns=40&box=${box}`);
    if (!cells) return;
    this.count = Object.values(cells.total).reduce((a, b) => a + b, 0);
    if (!shows || this.points) return;
    this.ground.setCells(cells.cells);
    this.changed(true);
    if (!this.map) this.tellCounts(new Map(Object.entries(cells.total)));
  }
  async areas() {
    const box = this.view.box.map((degrees) => degrees.toFixed(6)).join(",");
    const areas = await this.newest("areas", `${this.base}/areas?box=${box}`);
    if (!areas) return;
    if (this.view.scale >= AREAS_BELOW) areas.areas = [];
    this.ground.setAreas(areas, (number) => this.states[find(this.map.numbers, number)] ?? 0);
    this.changed(true);
  }
  sized() {
    const ratio = devicePixelRatio || 1;
    for (const canvas of [this.below, this.above]) {
      canvas.width = Math.max(1, Math.round(this.layer.clientWidth * ratio));
      canvas.height = Math.max(1, Math.round(this.layer.clientHeight * ratio));
    }
    this.drawn = null;
    this.ground.stale();
    this.changed();
  }
  // One frame for however many reasons; what depends on the view is asked for once it rests. Quiet: the view is as it was, and what it shows isn't.
  changed(quiet = false) {
    this.frame ??= requestAnimationFrame(() => this.show());
    if (quiet) return;
    this.movedAt = performance.now();
    clearTimeout(this.still);
    this.still = setTimeout(() => this.changed(true), STILL_MS);
    clearTimeout(this.rest);
    this.rest = setTimeout(() => this.rested().catch(() => this.setStale(true)), REST_MS);
  }
  show() {
    this.frame = null;
    const { view, drawn, layer } = this, moves = performance.now() - (this.movedAt ?? 0) < STILL_MS - 20;
    const isSlow = this.took > FAST_MS || this.isDrawing;
    if (drawn && isSlow && moves) {
      const x = (drawn.x - view.x) / view.scale, y = (view.y - drawn.y) / view.scale, turn = 360 / view.scale;
      layer.style.transform = `translate(${x - turn * Math.round(x / turn)}px, ${y}px) scale(${drawn.scale / view.scale})`;
      return;
    }
    // One picture at a time: what comes meanwhile is in the next.
    this.isDue = Boolean(this.isDrawing);
    if (this.isDue) return;
    const { x, y, scale } = view, part = 1 + 2 * MARGIN, width = view.width * part, height = view.height * part;
    this.drawn = { x, y, scale, width, height, box: [x - width * scale / 2, 0, x + width * scale / 2] };
    layer.style.transform = "";
    this.ground.draw(this.drawn);
    this.isDrawing = Boolean(this.points);
    this.points?.draw(this.drawn, (took) => {
      Object.assign(this, { took, isDrawing: false });
      if (this.isDue) this.changed(true);
    });
  }
  async rested() {
    const box = this.view.box.join();
    if (this.asked === box || this.count === undefined) return;
    this.asked = box;
    if (this.view.scale < FINE_LAND_BELOW) await this.land("land-50.bin");
    if (!this.points) await this.cells();
    if (this.map && (this.release || this.view.scale < AREAS_BELOW)) await this.areas();
  }
  // Zooms to those of whom this is so.
  to(wanted) {
    const found = [];
    for (let i = 0; i < (this.map?.count ?? 0); i++) {
      if (wanted(i) && !Number.isNaN(this.map.at[2 * i])) found.push([this.map.at[2 * i], this.map.at[2 * i + 1]]);
    }
    this.note.textContent = this.view.fit(found) ? "" : this.text.none;
  }
  toWave(wave) {
    if (wave >= 0) this.to((i) => this.map.waves[i] === wave && (this.map.states[i] & STATE) !== 0);
  }
  async tap({ offsetX, offsetY }) {
    if (!this.map) return;
    const { at, count, numbers } = this.map, { view } = this;
    const x = view.x + (offsetX - view.width / 2) * view.scale, y = view.y - (offsetY - view.height / 2) * view.scale;
    let best = -1, near = TAP * view.scale;
    for (let i = 0; i < count; i++) {
      const east = Math.abs(at[2 * i] - x) % 360, far = Math.hypot(Math.min(east, 360 - east), at[2 * i + 1] - y);
      if (far < near) [best, near] = [i, far];
    }
    if (best < 0) return;
    const query = this.release ? `?release=${encodeURIComponent(this.release)}` : "";
    const child = await (await this.fetch(`${this.api}/map/children/${numbers[best]}${query}`)).json();
    // Text alone: names are a child's to choose.
    const who = make("bdi", {}, child.name ?? child.id), wave = child.wave ? `, ${this.text.inWave} ${child.wave}` : "";
    this.note.replaceChildren(who, ` (${child.place ?? this.text.nowhere}): ${child.says}${wave}; `, make("bdi", {}, child.doing));
  }
  tell() {
    const counts = new Uint32Array(64);
    for (const state of this.states) counts[state & STATE]++;
    this.tellCounts(new Map(this.looks.map(({ name }, i) => [name, counts[i]])));
  }
  tellCounts(counts) {
    const line = this.looks.map(({ name, words }) => [words, counts.get(name) ?? 0]).filter(([, count]) => count);
    this.told.textContent = line.map(([words, count]) => `${count.toLocaleString("en")} ${words}`).join(", ");
  }
}

for (const root of document.querySelectorAll("[data-map]")) {
  const map = new ChildMap(root);
  map.start().catch((why) => {
    map.setStale(true);
    map.note.textContent = map.text.failed;
    // Without a picture of its own it leaves the page the drawing.
    if (map.count === undefined) map.withdraw();
    console.error(why);
  });
}
