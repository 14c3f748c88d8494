// Score map: queries (down) by keys (across), cut into tiles. Where a tile is folded, the weights that it has now: when
// a later tile raises m or l they fade, which is what the correction does.

import { h as element, plot, size, where } from './dom.js';
import { Pick } from './controls.js';
import { Marks } from './marks.js';
import { patterns, textures } from './texture.js';
import { css, mix } from './colour.js';
import { many, weightText } from './numbers.js';
import { Heat } from './heat.js';
import { Sweep } from './sweep.js';
import { who } from './words.js';
import { drawSquareFrame, drawWideFrame } from './score_frame.js';
import { drawFlying } from './score_flying.js';
import { drawLens, drawReading, word } from './lens.js';

export const isWide = score => score.S_q <= 16 && score.S_kv > 2 * score.S_q;

export class ScoreMap {
  constructor(player, options = {}) {
    this.player = player;
    this.options = options;
    this.plot = plot('Score map');
    this.heads = element('p', { class: 'heads', hidden: true });
    this.el = element('div', {}, this.heads, this.plot.box);
    this.id = `${player.id}-${options.name || 'score'}-`;
    patterns(this.plot.svg, this.id);
    this.marks = new Marks(this.plot.svg);
    this.row = -1;
    const { svg } = this.plot;
    svg.addEventListener('click', event => {
      const { tile } = this.find(event);
      if (tile >= 0 && player.run.tiles.op0[tile] >= 0) player.goTile(tile);
    });
    svg.addEventListener('mousemove', event => this.hover(event));
    svg.addEventListener('mouseleave', () => {
      player.tip.hide();
      this.point(-1);
    });
  }

  // -- geometry ------------------------------------------------------------------------------------------------

  layout(width) {
    const { run, palette } = this.player;
    const { score, params } = run.head;
    const small = this.options.small;
    this.width = width;
    this.wide = isWide(score);
    if (this.run !== run) {
      this.run = run;
      this.sweep = new Sweep(run);
      this.hasValues = run.valuesOf.size > 0;
    }
    const rows = score.heads * score.S_q;
    this.byRow = this.wide && rows <= 72;
    this.rows = this.byRow ? rows : score.S_q;
    this.group = this.byRow && params.h_kv > 1 && params.h_q === score.heads ? rows / params.h_kv : rows;
    if (this.wide) this.layoutWide(width, small, score);
    else this.layoutSquare(width, small, score);
    this.g = size(this.plot, width, this.height);
    this.textures = textures(this.g, palette);
    const ratio = window.devicePixelRatio || 1;
    const columns = Math.max(1, Math.min(score.S_kv, Math.floor(this.w * ratio)));
    const heatRows = this.byRow ? this.rows : Math.max(1, Math.min(score.S_q, Math.floor(this.h * ratio)));
    if (!this.heat || this.heat.run !== run || this.heat.columns !== columns || this.heat.rows !== heatRows) {
      const head = this.heat?.run === run ? this.heat.head : -1;
      this.heat = new Heat(run, { columns, rows: heatRows, byRow: this.byRow });
      this.heat.head = head < this.heat.heads ? head : -1;
    }
    this.offerHeads(score);
    const plain = mix(palette.bg, palette.brand, 0.38);
    this.plain = new Uint32Array(new Uint8ClampedArray([...plain, 255]).buffer)[0];
    this.painted = new Map();
    this.layer = -1;
    this.key = null;
  }

  /** Where several heads share one picture: which of them it shows. Alike in what they skip, they differ in weights. */
  offerHeads(score) {
    const several = this.hasValues && !this.byRow && this.heat.heads > 1;
    this.heads.hidden = !several;
    if (!several) return;
    if (this.picker?.run !== this.run) {
      const names = Array.from({ length: score.heads }, (_, n) => [n, headName(score, n)]);
      const pick = new Pick('Head', [[-1, 'all: the heaviest weight of any'], ...names], head => {
        this.heat.head = head;
        this.painted.clear();
        this.key = null;
        this.player.dirty();
      });
      this.picker = { run: this.run, pick };
      this.heads.replaceChildren('heads ', pick.el);
    }
    this.picker.pick.show(this.heat.head);
  }

  layoutWide(width, small, score) {
    this.x0 = 58;
    this.w = width - this.x0 - 1;
    this.y0 = this.player.run.pes.length > 1 ? 26 : 16;
    this.gap = this.rows > this.group ? 4 : 0;
    const groups = Math.ceil(this.rows / this.group);
    this.rowHeight = Math.max(
      2,
      Math.min(this.rows <= 2 ? 26 : this.rows <= 4 ? 18 : small ? 9 : 12, 132 / this.rows),
    );
    this.h = this.rows * this.rowHeight + (groups - 1) * this.gap;
    this.lensY = this.y0 + this.h + 16;
    this.hasLens = Boolean(score.tokens) && this.hasValues && !small;
    this.height = this.hasLens ? this.lensY + 42 : this.y0 + this.h + 8;
  }

  layoutSquare(width, small, score) {
    const several = this.player.run.pes.length > 1 && this.player.run.pes.length <= 32;
    this.x0 = several ? 62 : 36;
    this.y0 = 20;
    const most = Math.min(width - this.x0 - 2, small ? 280 : 348);
    const aspect = Math.max(0.25, Math.min(2, score.S_q / score.S_kv));
    this.w = aspect > 1 ? most / aspect : most;
    this.h = this.w * aspect;
    this.gap = 0;
    this.reads = Boolean(score.tokens) && this.hasValues && !small && score.S_q === score.S_kv;
    this.beside = width - this.x0 - this.w > 230;
    this.height = Math.ceil(this.y0 + this.h + (this.reads && !this.beside ? 60 : 20));
  }

  x(k) {
    return this.x0 + (k / this.player.run.head.score.S_kv) * this.w;
  }

  /** Top of a query token, or in a wide map of a state's row. */
  y(q) {
    if (!this.wide) return this.y0 + (q / this.player.run.head.score.S_q) * this.h;
    return this.y0 + q * this.rowHeight + Math.floor(q / this.group) * this.gap;
  }

  /** A tile as [x, y, width, height]. */
  box(t) {
    const { tiles } = this.player.run;
    const [a, b] = [this.x(tiles.k0[t]), this.x(tiles.k1[t])];
    if (this.wide) return [a, this.y0, b - a, this.h];
    const [c, d] = [this.y(tiles.q0[t]), this.y(tiles.q1[t])];
    return [a, c, b - a, d - c];
  }

  // -- pointer -------------------------------------------------------------------------------------------------

  find(event) {
    const { run } = this.player;
    const { score } = run.head;
    const [x, y] = where(event, this.plot.svg);
    const key = Math.floor(((x - this.x0) / this.w) * score.S_kv);
    const row = this.wide
      ? Math.max(0, Math.min(this.rows - 1, Math.floor(((y - this.y0) / this.h) * this.rows)))
      : Math.floor(((y - this.y0) / this.h) * score.S_q);
    const out = { key, row, tile: -1 };
    if (key < 0 || key >= score.S_kv || y < this.y0 - 8 || y > this.y0 + this.h + 4) return out;
    const { tiles } = run;
    const token = this.wide ? (this.byRow ? row % score.S_q : row) : row;
    const holds = t => key >= tiles.k0[t] && key < tiles.k1[t] && token >= tiles.q0[t] && token < tiles.q1[t];
    const near = list => list.find(t => tiles.layer[t] === this.layer && holds(t));
    for (const band of this.sweep.bands) {
      if (band.layer !== this.layer || token < band.q0 || token >= band.q1) continue;
      const n = band.byKeys.find(m => holds(band.tiles[m]));
      if (n !== undefined) return { ...out, tile: band.tiles[n] };
    }
    const other = near(this.sweep.skipped) ?? near(this.sweep.never);
    return other === undefined ? out : { ...out, tile: other };
  }

  point(row) {
    if (this.row === row) return;
    this.row = row;
    this.key = null;
    this.player.dirty();
  }

  hover(event) {
    const { run, tip } = this.player;
    const { score } = run.head;
    const { key, row, tile } = this.find(event);
    if (!this.wide && row >= 0 && row < score.S_q) this.point(row);
    if (tile < 0) return tip.hide();
    const { tiles } = run;
    const token = this.wide ? row % score.S_q : row;
    const state = this.stateText(tile);
    const s = this.isFolded(tile) ? run.recorded(tile)?.s : null;
    const at = this.byRow ? row : token - tiles.q0[tile];
    const line =
      this.byRow && score.row_labels
        ? `row ${score.row_labels[row]}`
        : `query ${token}${word(score, token, true)}`;
    tip.show(event, [
      `${run.pes.length > 1 ? `${who(run, tiles.pe[tile])} · ` : ''}${run.tileLabel(tile) || run.kind(tile)}: ${state}`,
      line,
      `key ${key}${word(score, key, true)}`,
      s ? `score ${s.x[at * s.cols + key - tiles.k0[tile]].toFixed(2).replace('-', '−')}` : null,
      s ? this.weightSaid(tile, at, key) : null,
    ]);
  }

  /** "weight 0.39 so far" of one row of a tile's state and one key: what its colour says. */
  weightSaid(tile, at, key) {
    const { run, p, i } = this.player;
    const band = this.sweep.bands.find(b => b.tiles.includes(tile));
    if (!band || !run.recorded(tile).m) return null;
    const { done, norm } = this.sweep.state(band, this.sweep.rowsAt(p, i));
    const weight = this.heat.weightOf(band, done, norm, tile, at, key);
    return weight === null ? null : `weight ${weightText(weight)} so far`;
  }

  /** Whether the weights of a tile are there at the time at which one stands. */
  isFolded(t) {
    const { run, p, i } = this.player;
    const kind = run.kind(t);
    const row = this.sweep.rowsAt(p, i)[run.tiles.pe[t]];
    return kind !== 'skip' && kind !== 'never' && this.sweep.ready(t) <= row;
  }

  stateText(t) {
    const { run, i } = this.player;
    const kind = run.kind(t);
    if (kind === 'skip') return 'skipped, wholly above the causal diagonal';
    if (kind === 'never') return 'never reached';
    const row = this.sweep.rowsAt(this.player.p, i)[run.tiles.pe[t]];
    // of another PE too, whose tile is framed in dashes
    if (t === run.tile(i) || (row >= run.pes[run.tiles.pe[t]].op0 && t === run.tile(row))) return 'current';
    return this.sweep.ready(t) <= row ? 'done' : 'to come';
  }

  // -- a step --------------------------------------------------------------------------------------------------

  draw({ run, p, i }) {
    const { sweep } = this;
    const now = run.tile(i);
    const layer = run.tiles.layer[now];
    if (layer >= 0 && run.tiles.k0[now] >= 0) this.show(layer);
    else if (this.layer < 0) this.show(0);
    const rows = sweep.rowsAt(p, i);
    const bands = sweep.bands.filter(b => b.layer === this.layer);
    const states = bands.map(b => sweep.state(b, rows));
    const others = run.pes.map((_, q) => (q === p || rows[q] < run.pes[q].op0 ? -1 : run.tile(rows[q])));
    const flying = this.player.messages.underWay(run.ops.clock[i]);
    const error = run.head.error && run.head.error.op >= 0 && i >= run.head.error.op;
    const key = [
      p,
      now,
      error,
      sweep.ready(now) <= i,
      states.map(s => `${s.done}.${s.norm}`),
      others,
      flying.map(m => m.send),
      this.layer,
    ].join();
    if (key === this.key) return;
    this.key = key;
    const at = { run, p, i, now, rows, bands, states, others, flying, error, m: this.marks.begin() };
    this.drawHeat(at);
    this.drawTiles(at);
    if (this.wide) drawWideFrame(this, at);
    else drawSquareFrame(this, at);
    this.drawOthers(at);
    this.drawNow(at);
    drawFlying(this, at);
    if (this.hasLens) drawLens(this, at);
    else if (this.reads) drawReading(this, at);
    at.m.end();
    this.said = this.sentence(at);
    this.plot.svg.setAttribute('aria-label', `Score map. ${this.said}`);
  }

  show(layer) {
    if (this.layer === layer) return;
    this.layer = layer;
    this.painted.clear();
    this.heat.pixels.fill(0);
  }

  sentence({ run, bands, states, now }) {
    const all = bands.reduce((sum, b) => sum + b.tiles.length, 0);
    const done = states.reduce((sum, s) => sum + s.done, 0);
    const skipped = this.sweep.skipped.filter(t => run.tiles.layer[t] === this.layer).length;
    const layer = this.layerText(run);
    return `${layer ? `${layer}: ` : ''}${done} of ${many(all, 'tile')} folded${skipped ? `, ${skipped} skipped` : ''}. Now: ${run.tileLabel(now) || run.kind(now)}.`;
  }

  heading({ run }) {
    return this.layerText(run);
  }

  summary() {
    return (this.said || '').replace(/ Now:.*/, '');
  }

  drawHeat({ bands, states }) {
    const { heat, g, painted } = this;
    const table = this.player.palette.heat;
    let changed = false;
    bands.forEach((band, n) => {
      const { done, norm } = states[n];
      const key = `${done}.${norm}`;
      if (painted.get(band.key) === key) return;
      painted.set(band.key, key);
      heat.paint(band, done, norm, table, this.plain);
      changed = true;
    });
    if (changed) heat.flush();
    g.clearRect(0, 0, this.width, this.height);
    if (!this.wide || !this.byRow) return heat.blit(g, 0, heat.rows, this.x0, this.y0, this.w, this.h);
    for (let r = 0; r < this.rows; r += this.group) {
      heat.blit(g, r, this.group, this.x0, this.y(r), this.w, this.group * this.rowHeight);
    }
  }

  /** What is not heat: to come, skipped, never reached; and the grid, where it can be seen. */
  drawTiles({ run, bands, states, now, i, error, m }) {
    const { g, sweep } = this;
    const { palette } = this.player;
    const { tiles } = run;
    g.fillStyle = this.textures.todo;
    bands.forEach((band, n) => {
      const { done } = states[n];
      for (const [from, to] of spans(band.byKeys, at => at >= done && band.tiles[at] !== now, band, tiles))
        this.fill(from, to);
    });
    g.fillStyle = this.textures.skip;
    for (const [from, to] of runs(
      sweep.skipped.filter(t => tiles.layer[t] === this.layer),
      tiles,
    ))
      this.fill(from, to);
    const never = sweep.never.filter(t => tiles.layer[t] === this.layer);
    const small =
      never.length &&
      this.box(never[0])
        .slice(2)
        .some(side => side < 14);
    g.fillStyle = error && small ? this.textures.never : this.textures.todo;
    for (const [from, to] of runs(never, tiles)) this.fill(from, to);
    this.drawGrid(tiles, bands);
    if (error && small) this.nameNever(m, never);
    else if (error) {
      g.strokeStyle = css(palette.error);
      g.lineWidth = 1.3;
      g.beginPath();
      for (const t of never) cross(g, this.box(t));
      g.stroke();
    }
    if (run.counted(now) && tiles.k0[now] >= 0 && sweep.ready(now) > i && !error) {
      const [x, y, w, h] = this.box(now);
      g.fillStyle = css(palette.bg);
      g.fillRect(x, y, w, h);
    }
  }

  /** Tiles too small for a cross of their own are hatched, and named once. */
  nameNever(m, never) {
    const boxes = never.map(t => this.box(t));
    const left = Math.min(...boxes.map(b => b[0]));
    const right = Math.max(...boxes.map(b => b[0] + b[2]));
    const top = Math.min(...boxes.map(b => b[1]));
    const bottom = Math.max(...boxes.map(b => b[1] + b[3]));
    if (right - left > 90)
      m.text((left + right) / 2, (top + bottom) / 2 + 4, 'never reached', 't lim b mid halo');
  }

  fill(from, to) {
    const [x, y, , h] = this.box(from);
    const [x2, , w2] = this.box(to);
    this.g.fillRect(x, y, x2 + w2 - x, h);
  }

  drawGrid(tiles, bands) {
    const { g } = this;
    const first = bands[0];
    if (!first) return;
    const t = first.tiles[0];
    const [, , w, h] = this.box(t);
    g.strokeStyle = css(this.player.palette.rule2);
    g.lineWidth = 1;
    g.beginPath();
    if (!this.wide || w >= 4) {
      const xs = new Set();
      const ys = new Set();
      for (const band of bands) {
        for (const u of band.tiles) xs.add(tiles.k0[u]);
        ys.add(band.q0);
      }
      for (const list of [this.sweep.skipped, this.sweep.never]) {
        for (const u of list) {
          xs.add(tiles.k0[u]);
          ys.add(tiles.q0[u]);
        }
      }
      if (w >= 4) for (const k of xs) line(g, this.x(k), this.y0, this.x(k), this.y0 + this.h);
      if (!this.wide && h >= 4) for (const q of ys) line(g, this.x0, this.y(q), this.x0 + this.w, this.y(q));
    }
    g.rect(this.x0 + 0.5, this.y0 + 0.5, this.w - 1, this.h - 1);
    g.stroke();
  }

  /** Which of several layers (query heads one after the other, passes of a kernel) is shown; for the panel's head. */
  layerText(run) {
    const { layers, layer_labels: labels } = run.head.score;
    return layers > 1 ? (labels && labels[this.layer]) || `layer ${this.layer + 1} of ${layers}` : '';
  }

  /** Where the other PEs are at the same simulated time. */
  drawOthers({ run, others }) {
    const { g } = this;
    g.strokeStyle = css(this.player.palette.ink1);
    g.lineWidth = 1;
    g.setLineDash([3, 2]);
    for (const t of others) {
      if (t < 0 || !run.counted(t) || run.tiles.k0[t] < 0 || run.tiles.layer[t] !== this.layer) continue;
      const [x, y, w, h] = this.box(t);
      if (w > 3) g.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
    }
    g.setLineDash([]);
  }

  drawNow({ run, now, m, error }) {
    const { tiles } = run;
    const kind = run.kind(now);
    if (run.counted(now)) {
      if (tiles.k0[now] < 0) return;
      const [x, y, w, h] = this.box(now);
      if (w < 5) m.path(`M${x + w / 2} ${y - 1}l-4 -6h8Z`, 'now-mark');
      m.rect(
        x - (this.wide ? 1 : 0),
        y - (this.wide ? 1 : 0),
        w + (this.wide ? 2 : 0),
        h + (this.wide ? 2 : 0),
        error ? 'tile-err' : 'tile-now',
      );
      return;
    }
    const peer = tiles.peer[now];
    const span = this.keysOf(kind === 'send' ? this.player.p : kind === 'merge' ? peer : -1);
    if (kind === 'finish') m.rect(this.x0, this.y0 - 1, this.w, this.h + 2, 'tile-merge');
    else if (span && this.wide)
      m.rect(this.x(span[0]), this.y0 - 1, this.x(span[1]) - this.x(span[0]), this.h + 2, 'tile-merge');
  }

  /** Keys that a PE holds the state of: its own and those of whom it took in. */
  keysOf(q) {
    if (q < 0) return null;
    let out = null;
    const add = pe => {
      for (const band of this.sweep.bands) {
        if (band.pe === pe)
          out = out ? [Math.min(out[0], band.k0), Math.max(out[1], band.k1)] : [band.k0, band.k1];
      }
      for (const [from, { by }] of this.sweep.merged) if (by === pe) add(from);
    };
    add(q);
    return out;
  }
}

/** "head 2": what the rows of one head have in common in their labels. */
const headName = (score, n) => {
  const label = score.row_labels?.[n * (score.row_labels.length / score.heads)] || '';
  return label.replace(/, token.*/, '') || `head ${n}`;
};

/** Neighbouring tiles of a band, by keys, for which something holds: [first tile, last tile]. */
function* spans(order, holds, band, tiles) {
  let from = -1,
    to = -1;
  for (const at of order) {
    const t = band.tiles[at];
    const ok = holds(at);
    if (ok && from >= 0 && tiles.k0[t] === tiles.k1[to]) to = t;
    else {
      if (from >= 0) yield [from, to];
      from = to = ok ? t : -1;
    }
  }
  if (from >= 0) yield [from, to];
}

/** The same for a list of tiles of several rows. */
function* runs(list, tiles) {
  let from = -1,
    to = -1;
  for (const t of list) {
    if (from >= 0 && tiles.q0[t] === tiles.q0[to] && tiles.k0[t] === tiles.k1[to]) to = t;
    else {
      if (from >= 0) yield [from, to];
      from = to = t;
    }
  }
  if (from >= 0) yield [from, to];
}

function cross(g, [x, y, w, h]) {
  const [dx, dy] = [Math.min(8, w * 0.2), Math.min(8, h * 0.2)];
  g.moveTo(x + dx, y + dy);
  g.lineTo(x + w - dx, y + h - dy);
  g.moveTo(x + dx, y + h - dy);
  g.lineTo(x + w - dx, y + dy);
}

function line(g, x1, y1, x2, y2) {
  g.moveTo(x1, y1);
  g.lineTo(x2, y2);
}
