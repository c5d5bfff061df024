// What part of the world is seen: a middle, and how many degrees a pixel is. Moved by pointer, wheel, touch and keys.

const CLOSEST = 1e-5;

export class View {
  constructor(element, changed) {
    Object.assign(this, { element, changed, x: 0, y: 20, scale: 0.3, pointers: new Map() });
    element.addEventListener("pointerdown", (event) => this.down(event));
    element.addEventListener("pointermove", (event) => this.move(event));
    for (const end of ["pointerup", "pointercancel"]) element.addEventListener(end, (event) => this.pointers.delete(event.pointerId));
    element.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(2 ** (event.deltaY / 300), event.offsetX, event.offsetY);
    }, { passive: false });
    element.addEventListener("keydown", (event) => this.key(event));
  }
  get width() { return this.element.clientWidth; }
  get height() { return this.element.clientHeight; }
  // Degrees; east may be beyond 180.
  get box() {
    const right = Math.min(this.width * this.scale, 360) / 2, up = this.height * this.scale / 2;
    return [this.x - right, Math.max(-90, this.y - up), this.x + right, Math.min(90, this.y + up)];
  }
  set(x, y, scale) {
    const widest = Math.max(360 / this.width, 180 / this.height);
    this.scale = Math.min(Math.max(scale, CLOSEST), widest);
    this.x = ((x + 540) % 360 + 360) % 360 - 180;
    this.y = Math.min(90, Math.max(-90, y));
    this.changed();
  }
  // Shows west, south, east and north.
  show([west, south, east, north]) {
    this.set((west + east) / 2, (south + north) / 2, Math.max((east - west) / this.width, (north - south) / this.height));
  }
  zoom(factor, px = this.width / 2, py = this.height / 2) {
    const dx = px - this.width / 2, dy = this.height / 2 - py, before = this.scale;
    const widest = Math.max(360 / this.width, 180 / this.height);
    const scale = Math.min(Math.max(before * factor, CLOSEST), widest);
    this.set(this.x + dx * (before - scale), this.y + dy * (before - scale), scale);
  }
  // Shows all these positions. Across the antimeridian the shorter way around is taken.
  fit(positions) {
    const all = positions.filter(([x]) => !Number.isNaN(x));
    if (!all.length) return false;
    const xs = all.map(([x]) => x).sort((a, b) => a - b), ys = all.map(([, y]) => y);
    let gap = xs[0] + 360 - xs.at(-1), west = xs[0];
    for (let i = 1; i < xs.length; i++) if (xs[i] - xs[i - 1] > gap) [gap, west] = [xs[i] - xs[i - 1], xs[i]];
    const low = ys.reduce((a, b) => Math.min(a, b)), high = ys.reduce((a, b) => Math.max(a, b));
    const scale = Math.max((360 - gap) / this.width, (high - low) / this.height) * 1.2;
    this.set(west + (360 - gap) / 2, (low + high) / 2, Math.max(scale, 0.002));
    return true;
  }
  down(event) {
    this.element.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
  }
  move(event) {
    const last = this.pointers.get(event.pointerId);
    if (!last) return;
    const now = [event.offsetX, event.offsetY];
    this.pointers.set(event.pointerId, now);
    if (this.pointers.size === 1) {
      this.set(this.x - (now[0] - last[0]) * this.scale, this.y + (now[1] - last[1]) * this.scale, this.scale);
    } else {
      const other = [...this.pointers].find(([id]) => id !== event.pointerId)[1];
      const far = (from) => Math.hypot(from[0] - other[0], from[1] - other[1]) || 1;
      this.zoom(far(last) / far(now), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
    }
  }
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = 60 * this.scale;
    const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
    if (moves[event.key]) this.set(this.x + moves[event.key][0], this.y + moves[event.key][1], this.scale);
    else if (event.key === "+" || event.key === "=") this.zoom(0.5);
    else if (event.key === "-") this.zoom(2);
    else return;
    event.preventDefault();
  }
}
