// Maps, histories and changes as the API sends them, read by their descriptions (GET /openapi.json).

// Of the byte of a state.
export const STATE = 0x3f;
const NOWHERE = -0x80000000;

class Reader {
  constructor(buffer, magic) {
    this.bytes = new Uint8Array(buffer);
    this.view = new DataView(buffer);
    this.at = 4;
    if (String.fromCharCode(...this.bytes.subarray(0, 4)) !== magic) throw new Error(`no ${magic}`);
  }
  leb() {
    let number = 0, factor = 1, byte;
    do {
      byte = this.bytes[this.at++];
      number += (byte & 127) * factor;
      factor *= 128;
    } while (byte > 127);
    return number;
  }
  signed() {
    const n = this.leb();
    return n % 2 ? -(n + 1) / 2 : n / 2;
  }
}

export function readMap(buffer) {
  const reader = new Reader(buffer, "CHMP"), { view } = reader;
  const count = view.getUint32(8, true), first = 32 + view.getUint32(28, true);
  const numbers = new Uint32Array(count), at = new Float32Array(2 * count), waves = new Uint32Array(count);
  reader.at = 32;
  for (let i = 0, number = 0; i < count; i++) numbers[i] = number += reader.leb();
  const x = new Int32Array(buffer, first, count), y = new Int32Array(buffer, first + 4 * count, count);
  for (let i = 0; i < count; i++) {
    // Who is nowhere is drawn nowhere.
    at[2 * i] = x[i] === NOWHERE ? NaN : x[i] / 1e7;
    at[2 * i + 1] = y[i] / 1e7;
  }
  const states = new Uint8Array(buffer.slice(first + 8 * count, first + 9 * count));
  reader.at = first + 9 * count;
  for (let i = 0; i < count; i++) waves[i] = reader.leb();
  const place = `${view.getBigUint64(16, true)}-${view.getUint32(12, true)}`;
  return { count, numbers, at, states, waves, place };
}

// Where a child is in the columns; -1: nowhere.
export function find(numbers, number) {
  let low = 0, high = numbers.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] === number) return middle;
    if (numbers[middle] < number) low = middle + 1;
    else high = middle - 1;
  }
  return -1;
}

// Calls `each` with the place, the state and the wave of each child that changed; false: one isn't on the map.
export function readChanges(text, numbers, each) {
  let known = true;
  for (const [state, wave, differences] of JSON.parse(text)) {
    let number = 0;
    for (const difference of differences) {
      const at = find(numbers, (number += difference));
      if (at < 0) known = false;
      else each(at, state, wave);
    }
  }
  return known;
}

export function readHistory(buffer) {
  const reader = new Reader(buffer, "CHMH"), { view } = reader, groups = [];
  reader.at = 32;
  for (let left = view.getUint32(8, true), ms = 0; left > 0; left--) {
    ms += reader.leb();
    const state = reader.bytes[reader.at++], numbers = new Uint32Array(reader.leb());
    for (let i = 0, number = 0; i < numbers.length; i++) numbers[i] = number += reader.signed();
    groups.push({ ms, state, numbers });
  }
  return { groups, cut: (view.getUint16(6, true) & 1) === 1, started: Number(view.getBigInt64(16, true)),
    length: Number(view.getBigUint64(24, true)) };
}

export function readLand(buffer) {
  const reader = new Reader(buffer, "CHML"), rings = [];
  for (let left = reader.leb(); left > 0; left--) {
    const ring = new Float32Array(2 * reader.leb());
    for (let i = 0, x = 0, y = 0; i < ring.length; i += 2) {
      ring[i] = (x += reader.signed()) / 100;
      ring[i + 1] = (y += reader.signed()) / 100;
    }
    rings.push(ring);
  }
  return rings;
}
