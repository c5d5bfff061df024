// Makes land-110.bin and land-50.bin of the files of the npm package world-atlas 2.0.2, once: node convert.mjs IN.json OUT.bin
//
// OUT: "CHML", then LEB128 numbers: rings; for each ring its positions, then for each of them longitude and latitude in hundredths of
// a degree, as the difference to the position before in zigzag form (the first to 0, 0). Holes are rings among the others: fill by "evenodd".
import { readFileSync, writeFileSync } from "node:fs";

const [input, output] = process.argv.slice(2);
const { arcs, transform: { scale, translate }, objects: { land } } = JSON.parse(readFileSync(input));
const lines = arcs.map((arc) => {
  let x = 0, y = 0;
  return arc.map(([dx, dy]) => [(x += dx) * scale[0] + translate[0], (y += dy) * scale[1] + translate[1]]);
});
const line = (at) => (at < 0 ? [...lines[~at]].reverse() : lines[at]);
const rings = [];
for (const geometry of land.geometries ?? [land]) {
  const polygons = geometry.type === "Polygon" ? [geometry.arcs] : geometry.arcs;
  for (const ring of polygons.flat()) {
    const all = ring.flatMap((at, i) => line(at).slice(i ? 1 : 0)).map((p) => p.map((d) => Math.round(d * 100)));
    // Across the antimeridian a ring goes on beyond ±180, and one around a pole is closed along it.
    for (let i = 1, turn = 0; i < all.length; i++) {
      const step = all[i][0] + turn - all[i - 1][0];
      turn -= 36000 * Math.round(step / 36000);
      all[i][0] += turn;
    }
    if (Math.abs(all.at(-1)[0] - all[0][0]) > 18000) {
      const pole = all[0][1] < 0 ? -9000 : 9000;
      all.push([all.at(-1)[0], pole], [all[0][0], pole]);
    }
    const kept = all.filter((p, i) => !i || p[0] !== all[i - 1][0] || p[1] !== all[i - 1][1]);
    if (kept.length > 3) rings.push(kept);
  }
}
const out = [...Buffer.from("CHML")];
const number = (n) => { for (; n > 127; n = Math.floor(n / 128)) out.push((n % 128) + 128); out.push(n); };
const signed = (n) => number(n < 0 ? -2 * n - 1 : 2 * n);
number(rings.length);
for (const ring of rings) {
  number(ring.length);
  let before = [0, 0];
  for (const p of ring) { signed(p[0] - before[0]); signed(p[1] - before[1]); before = p; }
}
writeFileSync(output, Buffer.from(out));
