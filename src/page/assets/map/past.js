// What a release was for each child at any moment since its start, by a slider.
import { STATE, find, readHistory } from "./data.js";
import { button, make } from "../make.js";

export class Past {
  constructor(map) {
    const { text } = map;
    // The states of then, while somebody looks at them.
    Object.assign(this, { map, history: null, states: null, until: 0 });
    this.slider = make("input", { type: "range", min: "0", max: "0", value: "0", step: "any", "aria-label": text.moment, hidden: "" });
    this.slider.addEventListener("input", () => this.show(Number(this.slider.value)));
    this.moment = make("output", { hidden: "" });
    this.now = button(text.now, () => this.end());
    this.now.hidden = true;
    this.begin = button(text.replay, () => this.start().catch(() => map.setStale(true)));
    this.controls = [this.begin, this.now, this.slider, this.moment];
  }
  async start() {
    const { map } = this;
    this.history = readHistory(await (await map.fetch(`${map.base}/history`)).arrayBuffer());
    const { groups, cut, length } = this.history;
    const said = groups.length > 0 ? (cut ? map.text.cut : "") : cut ? map.text.tooMany : map.text.noPast;
    map.note.textContent = map.points ? said : `${map.text.noPastPicture} ${said}`;
    if (groups.length === 0 || !map.map) return;
    this.place();
    this.slider.max = String(length);
    this.slider.value = "0";
    for (const control of [this.now, this.slider, this.moment]) control.hidden = false;
    this.show(0);
    this.slider.focus();
  }
  // Looks up once where each child of the history is in the columns.
  place() {
    const { numbers } = this.map.map;
    for (const group of this.history.groups) group.places = Int32Array.from(group.numbers, (number) => find(numbers, number));
  }
  // The columns are others now.
  reload() {
    if (!this.states) return;
    this.place();
    this.states = null;
    this.fold(this.until);
  }
  fold(until) {
    const now = this.map.map.states;
    // From the start again, unless it only goes on.
    if (!this.states || until < this.until) {
      this.states = now.map((state) => state & ~STATE);
      this.next = 0;
    }
    const { states, history: { groups } } = this;
    for (; this.next < groups.length && groups[this.next].ms <= until; this.next++) {
      const { state, places } = groups[this.next];
      for (const at of places) if (at >= 0) states[at] = (states[at] & ~STATE) | state;
    }
    this.until = until;
  }
  show(until) {
    const { map, history } = this;
    this.fold(until);
    if (map.points) map.points.update(this.states, 0, this.states.length);
    else map.ground.setCells(null);
    map.changed(true);
    map.tell();
    const time = new Date(history.started + until).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" });
    this.moment.textContent = `${map.text.at} ${time}`;
    this.slider.setAttribute("aria-valuetext", time);
  }
  end() {
    const { map } = this;
    this.states = null;
    const hadFocus = [this.now, this.slider].includes(document.activeElement);
    for (const control of [this.now, this.slider, this.moment]) control.hidden = true;
    if (hadFocus) this.begin.focus();
    if (map.points) map.points.update(map.map.states, 0, map.map.states.length);
    else map.cells();
    map.changed(true);
    map.tell();
  }
}
