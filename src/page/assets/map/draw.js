// Draws land, areas and cells on one canvas, and children as points with WebGL2 on another above it. What states look like, the page says.
import { STATE } from "./data.js";

// Sprites lie in two lines, the larger ones of managers below.
const MANAGER_SIZE = 1.8;

const VERTEX = `#version 300 es
layout(location=0) in vec2 at; layout(location=1) in float state;
uniform vec4 view; uniform float turn, size, large; uniform float ranks[64];
flat out vec3 sprite;
void main() {
  int bits = int(state), kind = bits & 63;
  bool is_manager = (bits & 128) != 0;
  gl_Position = vec4((at.x + turn - view.x) * view.z, (at.y - view.y) * view.w, 0.9 - ranks[kind] / 64.0, 1.0);
  gl_PointSize = is_manager ? large : size;
  sprite = vec3(float(kind) * large, is_manager ? size : 0.0, gl_PointSize);
  if (!(at.x == at.x)) gl_Position = vec4(9.0);
}`;
const FRAGMENT = `#version 300 es
precision mediump float;
uniform sampler2D sprites;
flat in vec3 sprite; out vec4 colour;
void main() {
  colour = texelFetch(sprites, ivec2(sprite.xy + min(floor(gl_PointCoord * sprite.z), sprite.z - 1.0)), 0);
  if (colour.a < 0.5) discard;
  colour.a = 1.0;
}`;

export class Points {
  // Throws where there is no WebGL2.
  constructor(canvas, looks) {
    const gl = canvas.getContext("webgl2", { antialias: false, premultipliedAlpha: false });
    if (!gl) throw new Error("no WebGL2");
    const program = gl.createProgram();
    for (const [kind, text] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, text);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(program) ?? "no program");
    gl.useProgram(program);
    gl.enable(gl.DEPTH_TEST);
    gl.depthFunc(gl.LEQUAL);
    const places = {};
    this.uniform = (name) => (places[name] ??= gl.getUniformLocation(program, name));
    const ranks = new Float32Array(64);
    looks.forEach(({ rank }, i) => (ranks[i] = rank));
    gl.uniform1fv(this.uniform("ranks"), ranks);
    const sprites = gl.createTexture();
    gl.bindTexture(gl.TEXTURE_2D, sprites);
    for (const filter of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER]) gl.texParameteri(gl.TEXTURE_2D, filter, gl.NEAREST);
    Object.assign(this, { gl, canvas, looks, count: 0, size: 0, at: gl.createBuffer(), kinds: gl.createBuffer() });
  }
  load(at, states) {
    const { gl } = this;
    this.count = states.length;
    gl.bindBuffer(gl.ARRAY_BUFFER, this.at);
    gl.bufferData(gl.ARRAY_BUFFER, at, gl.STATIC_DRAW);
    gl.enableVertexAttribArray(0);
    gl.vertexAttribPointer(0, 2, gl.FLOAT, false, 0, 0);
    gl.bindBuffer(gl.ARRAY_BUFFER, this.kinds);
    gl.bufferData(gl.ARRAY_BUFFER, states, gl.DYNAMIC_DRAW);
    gl.enableVertexAttribArray(1);
    gl.vertexAttribPointer(1, 1, gl.UNSIGNED_BYTE, false, 0, 0);
  }
  update(states, from, to) {
    this.gl.bindBuffer(this.gl.ARRAY_BUFFER, this.kinds);
    this.gl.bufferSubData(this.gl.ARRAY_BUFFER, from, states, from, to - from);
  }
  // Colours are others now.
  recolour() { this.size = 0; }
  // Draws the sprites anew where points have another size now.
  sized(size) {
    if (this.size === size) return;
    this.size = size;
    const { gl, looks } = this, wide = Math.floor(size * MANAGER_SIZE), canvas = document.createElement("canvas");
    canvas.width = wide * looks.length;
    canvas.height = size + wide;
    const context = canvas.getContext("2d");
    looks.forEach(({ colour, path }, i) => {
      context.fillStyle = colour();
      for (const [y, side] of [[0, size], [size, wide]]) {
        context.setTransform(side / 16, 0, 0, side / 16, i * wide, y);
        context.fill(path, "evenodd");
      }
    });
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, gl.RGBA, gl.UNSIGNED_BYTE, canvas);
    gl.uniform1f(this.uniform("size"), size);
    gl.uniform1f(this.uniform("large"), wide);
  }
  // Says how long it took, once it is drawn, in milliseconds.
  draw(view, said) {
    const { gl, canvas } = this, ratio = canvas.width / view.width, begun = performance.now();
    gl.viewport(0, 0, canvas.width, canvas.height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    const [west, , east] = view.box;
    gl.uniform4f(this.uniform("view"), view.x, view.y, 2 / (view.width * view.scale), 2 / (view.height * view.scale));
    this.sized(Math.round(ratio * Math.min(16, Math.max(7, 6 - Math.log2(view.scale)))));
    for (const turn of [-360, 0, 360]) {
      if (turn + 180 <= west || turn - 180 >= east) continue;
      gl.uniform1f(this.uniform("turn"), turn);
      gl.drawArrays(gl.POINTS, 0, this.count);
    }
    const drawn = gl.fenceSync(gl.SYNC_GPU_COMMANDS_COMPLETE, 0);
    gl.flush();
    const look = () => {
      if (gl.isContextLost()) return;
      if (gl.getSyncParameter(drawn, gl.SYNC_STATUS) !== gl.SIGNALED) return setTimeout(look, 5);
      gl.deleteSync(drawn);
      said(performance.now() - begun);
    };
    setTimeout(look);
  }
}

function path(rings) {
  const out = new Path2D();
  for (const ring of rings) {
    const flat = ring.flat ? ring.flat() : ring;
    for (let i = 0; i < flat.length; i += 2) out[i ? "lineTo" : "moveTo"](flat[i], flat[i + 1]);
    out.closePath();
  }
  return out;
}

const sumOf = (counts) => Object.values(counts).reduce((a, b) => a + b, 0);

export class Ground {
  // `colour(CLASS)` is the colour of a class of the style; `looks` are those of states by number.
  constructor(canvas, colour, looks) {
    Object.assign(this, { canvas, colour, looks, context: canvas.getContext("2d"), land: null, target: null, areas: [], cells: null });
    this.drawn = null;
  }
  setLand(rings) { this.land = path(rings); this.stale(); }
  setAreas({ areas, target }, kindOf) {
    this.areas = areas.map(({ number, rings }) => ({ kind: kindOf(number), path: path(rings) }));
    if (target) this.target = path(target);
    this.stale();
  }
  setCells(cells) { this.cells = cells; this.stale(); }
  // What is drawn doesn't hold any more.
  stale() { this.drawn = null; }
  draw(view) {
    const { context, canvas } = this, ratio = canvas.width / view.width, per = ratio / view.scale;
    const { width, height } = canvas, reach = width / per / 2, drawn = [view.x, view.y, per, width, height].join();
    if (this.drawn === drawn) return;
    this.drawn = drawn;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = this.colour("sea");
    context.fillRect(0, 0, width, height);
    const turns = [-720, -360, 0, 360, 720].filter((turn) => Math.abs(turn - view.x) < reach + 200);
    const placed = (draw) => {
      for (const turn of turns) {
        context.setTransform(per, 0, 0, -per, width / 2 + (turn - view.x) * per, height / 2 + view.y * per);
        draw();
      }
    };
    context.fillStyle = this.colour("land");
    // What lies beyond the antimeridian belongs to the next turn: all land first, and outlines above it.
    placed(() => this.land && context.fill(this.land, "evenodd"));
    placed(() => {
      context.lineWidth = 1.5 * ratio / per;
      context.strokeStyle = this.colour("going");
      if (this.target) context.stroke(this.target);
      for (const area of this.areas) {
        context.strokeStyle = this.looks[area.kind & STATE].colour();
        context.stroke(area.path);
      }
    });
    if (this.cells) this.paintCells(context, view, per, ratio);
    context.setTransform(1, 0, 0, 1, 0, 0);
  }
  // As the drawing of the page without scripts has them.
  paintCells(context, view, per, ratio) {
    const { width, height } = this.canvas, most = Math.max(1, ...this.cells.map(({ counts }) => sumOf(counts)));
    context.textAlign = "center";
    for (const { west, south, east, north, counts } of this.cells) {
      const look = this.lookOf(counts), sum = sumOf(counts), w = (east - west) * per, h = (north - south) * per;
      if (!look) continue;
      // A view at the antimeridian is within a turn of its middle.
      const turn = 360 * Math.round((view.x - (west + east) / 2) / 360), side = Math.min(w, h);
      context.setTransform(1, 0, 0, 1, width / 2 + (west + turn - view.x) * per, height / 2 + (view.y - north) * per);
      context.fillStyle = look.colour();
      context.globalAlpha = 0.08 + 0.25 * Math.log1p(sum) / Math.log1p(most);
      context.fillRect(0, 0, w - 1, h - 1);
      context.globalAlpha = 1;
      const place = context.getTransform();
      context.transform(side * 0.44 / 16, 0, 0, side * 0.44 / 16, side * 0.28, side * 0.06);
      context.fill(look.path, "evenodd");
      context.setTransform(place);
      if (side < 26 * ratio) continue;
      context.font = `${Math.min(side * 0.36, 14 * ratio)}px system-ui, sans-serif`;
      context.fillStyle = this.colour("map-text");
      context.fillText(sum < 1e4 ? String(sum) : sum < 1e6 ? `${Math.floor(sum / 1e3)}k` : `${Math.floor(sum / 1e6)}M`, w / 2, side * 0.9);
    }
  }
  lookOf(counts) {
    const score = (look) => (look.fails ? 1e12 : 0) + counts[look.name];
    return this.looks.filter(({ name }) => counts[name]).sort((a, b) => score(b) - score(a))[0];
  }
}
