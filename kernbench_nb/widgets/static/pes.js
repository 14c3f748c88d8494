// All PEs over simulated time: tiles as bars, waits as gaps, messages as lines from sender to receiver. A ring's blocks
// move down a row a step; a chain's states climb to the root.

import { plot, size, where } from './dom.js';
import { Marks } from './marks.js';
import { patterns, textures } from './texture.js';
import { css, mix } from './colour.js';
import { group, many, niceStep, time } from './numbers.js';
import { BOLD, fit, textWidth } from './place.js';
import { shortLabel } from './scratch.js';
import { who } from './words.js';

const MOST_HEIGHT = 300;

export class Pes {
  constructor(player) {
    this.player = player;
    this.plot = plot('PEs over time');
    this.el = this.plot.box;
    this.id = `${player.id}-pes-`;
    patterns(this.plot.svg, this.id);
    this.marks = new Marks(this.plot.svg);
    const { svg } = this.plot;
    const go = event => {
      const [x, y] = where(event, svg);
      const q = Math.floor((y - this.top) / this.rowHeight);
      if (q < 0 || q >= player.run.pes.length || x < this.x0) return;
      player.goTime(q, this.time(x));
    };
    svg.addEventListener('click', go);
    svg.addEventListener('mousemove', event => this.hover(event));
    svg.addEventListener('mouseleave', () => player.tip.hide());
  }

  layout(width) {
    const { run, palette } = this.player;
    const n = run.pes.length;
    this.width = width;
    this.rowHeight = Math.max(1.5, Math.min(24, MOST_HEIGHT / n));
    this.top = 4;
    this.height = Math.ceil(this.top + n * this.rowHeight + 24);
    this.labels = this.rowHeight >= 11;
    this.x0 = 20 + Math.max(30, ...run.pes.slice(0, 40).map(pe => textWidth(pe.label, BOLD)));
    this.nowWidth = this.labels && width > 620 ? 150 : 0;
    this.x1 = width - this.nowWidth - 2;
    this.range(run);
    this.ring = isRing(run);
    this.g = size(this.plot, width, this.height);
    this.textures = textures(this.g, palette);
    this.paint();
  }

  /** Times shown: those of the launch that the step is in, of several. */
  range(run) {
    const { parts } = run;
    const launch = this.launchOf(run);
    this.launch = launch;
    this.launches = Math.max(...parts.launch) + 1;
    [this.from, this.end] = [Infinity, 1];
    for (let n = 0; n < parts.n; n++) {
      if (parts.launch[n] !== launch || parts.op1[n] <= parts.op0[n]) continue;
      this.from = Math.min(this.from, launch ? run.ops.start[parts.op0[n]] : 0);
      this.end = Math.max(this.end, parts.end[n]);
    }
    if (!Number.isFinite(this.from)) this.from = 0;
  }

  launchOf(run) {
    return run.parts.launch[run.scopes.part[run.ops.scope[this.player.i]]];
  }

  x(ps) {
    return this.x0 + ((ps - this.from) / (this.end - this.from)) * (this.x1 - this.x0);
  }

  time(x) {
    return this.from + ((x - this.x0) / (this.x1 - this.x0)) * (this.end - this.from);
  }

  y(q) {
    return this.top + q * this.rowHeight;
  }

  paint() {
    const { run, palette } = this.player;
    const { tiles } = run;
    const g = this.g;
    g.clearRect(0, 0, this.width, this.height);
    g.save();
    g.beginPath();
    g.rect(this.x0 - 1, 0, this.x1 - this.x0 + 2, this.height);
    g.clip();
    const shades = [0.16, 0.32].map(t => css(mix(palette.bg, palette.ink2, t)));
    const ends = css(mix(palette.bg, palette.ink2, 0.85));
    const bar = Math.max(1, this.rowHeight - (this.rowHeight > 8 ? 5 : this.rowHeight > 3 ? 1 : 0));
    // a merge begins with waiting: its bar begins when all of the other state has arrived
    const arrivals = (this.arrivals = new Map());
    for (const { recv, end } of this.player.messages.list) {
      if (recv >= 0) arrivals.set(run.tile(recv), Math.max(end, arrivals.get(run.tile(recv)) || 0));
    }
    run.pes.forEach((_, q) => {
      for (const t of run.tilesOf[q]) {
        if (run.parts.launch[tiles.part[t]] !== this.launch) continue;
        const kind = run.kind(t);
        const a = this.x(tiles.start[t]);
        const w = Math.max(0.6, this.x(tiles.end[t]) - a - 0.5);
        if (kind === 'recv' || kind === 'setup' || kind === 'other') continue;
        const arrived = kind === 'merge' ? arrivals.get(t) : undefined;
        if (arrived > tiles.start[t]) {
          this.paintWait(g, a, this.x(arrived), this.y(q) + this.rowHeight / 2, palette);
          g.fillStyle = this.rowHeight > 8 ? this.textures.ipc : css(palette.line.ipc);
          g.fillRect(this.x(arrived), this.y(q) + 1, Math.max(0.6, a + w - this.x(arrived)), bar);
          continue;
        }
        if (kind === 'merge' || kind === 'send')
          g.fillStyle = this.rowHeight > 8 && w > 3 ? this.textures.ipc : css(palette.line.ipc);
        else if (kind === 'finish') g.fillStyle = ends;
        else
          g.fillStyle =
            shades[(this.ring ? this.ring.get(tiles.k0[t]) || 0 : tiles.place[t]) % shades.length];
        g.fillRect(a, this.y(q) + 1, w, bar);
      }
    });
    const { list } = this.player.messages;
    g.strokeStyle = css(palette.line.ipc, list.length > 400 ? 0.35 : 0.8);
    g.lineWidth = list.length > 400 ? 0.5 : 1;
    g.beginPath();
    for (const m of list) {
      if (m.recv < 0 || m.from === m.to || m.start < this.from || m.start > this.end) continue;
      g.moveTo(this.x(m.start), this.y(m.from) + this.rowHeight / 2);
      g.lineTo(this.x(m.end), this.y(m.to) + this.rowHeight / 2);
    }
    g.stroke();
    g.restore();
  }

  /** When a merge has all of the other state. */
  arrived(t) {
    return Math.max(this.player.run.tiles.start[t], this.arrivals.get(t) || 0);
  }

  paintWait(g, from, to, y, palette) {
    g.strokeStyle = css(palette.line.ipc);
    g.lineWidth = this.rowHeight > 8 ? 1.5 : 0.7;
    g.setLineDash([2, 3]);
    g.beginPath();
    g.moveTo(from, y);
    g.lineTo(to, y);
    g.stroke();
    g.setLineDash([]);
  }

  hover(event) {
    const { run, tip } = this.player;
    const [x, y] = where(event, this.plot.svg);
    const q = Math.floor((y - this.top) / this.rowHeight);
    if (q < 0 || q >= run.pes.length || x < this.x0 || x > this.x1) return tip.hide();
    const ps = this.time(x);
    const row = this.rowAt(run, q, ps);
    const t = row >= run.pes[q].op0 ? this.tileAt(run, q, row, ps) : -1;
    const keys = t >= 0 && run.counted(t) && run.tiles.k0[t] >= 0;
    tip.show(event, [
      run.pes[q].label,
      `${this.doing(run, q, row, ps)}${keys && ps < run.pes[q].end ? `, keys ${run.tiles.k0[t]}–${run.tiles.k1[t] - 1}` : ''}`,
      time(ps),
    ]);
  }

  draw({ run, p, i }) {
    if (this.launchOf(run) !== this.launch) {
      this.range(run);
      this.paint();
    }
    const m = this.marks.begin();
    const now = run.ops.clock[i];
    const left = this.labels ? 1 : this.x0 - 6; // a thin row's frame would strike its name through
    m.rect(left, this.y(p), this.x1 - left, this.rowHeight, 'pe-now');
    this.drawNames(m, run, p);
    this.drawBarNames(m, run);
    const x = this.x(now);
    const bottom = this.y(run.pes.length);
    m.rect(x, this.top - 2, Math.max(0, this.x1 - x), bottom - this.top + 2, 'veil');
    const flying = this.player.messages.underWay(now);
    for (const msg of flying) {
      const part = (now - msg.start) / (msg.end - msg.start || 1);
      const [y1, y2] = [this.y(msg.from) + this.rowHeight / 2, this.y(msg.to) + this.rowHeight / 2];
      m.line(this.x(msg.start), y1, this.x(msg.end), y2, 'fly-path');
      m.circle(x, y1 + (y2 - y1) * part, Math.min(4, Math.max(2, this.rowHeight / 4)), 'fly-dot');
    }
    m.line(x, this.top - 4, x, bottom + 3, 'play');
    this.drawTimes(m, bottom);
    const doing = run.pes.map((_, q) => this.doing(run, q, q === p ? i : this.rowAt(run, q, now), now));
    if (this.nowWidth)
      doing.forEach((text, q) =>
        m.text(
          this.x1 + 10,
          this.y(q) + this.rowHeight / 2 + 4,
          fit(text, this.nowWidth - 10),
          q === p ? 't lab0 b' : 't lab2',
        ),
      );
    m.end();
    this.plot.svg.setAttribute(
      'aria-label',
      `PEs at ${time(now)}: ${this.summary({ run, i })}. ${run.pes.length <= 16 ? doing.map((d, q) => `${who(run, q)}: ${d}`).join('; ') : ''}`,
    );
  }

  drawNames(m, run, p) {
    const every = Math.max(1, Math.ceil(11 / this.rowHeight));
    run.pes.forEach((pe, q) => {
      if (q !== p && (q % every || Math.abs(q - p) * this.rowHeight < 11)) return;
      m.text(
        this.x0 - 10,
        this.y(q) + this.rowHeight / 2 + 4,
        pe.label,
        `t end ${q === p ? 'lab0 b' : 'lab1'}`,
      );
    });
  }

  /** Which tile, or in a ring which block, a bar is. */
  drawBarNames(m, run) {
    if (!this.labels) return;
    const { tiles } = run;
    let drawn = 0;
    run.pes.forEach((_, q) => {
      for (const t of run.tilesOf[q]) {
        if (!run.counted(t) && run.kind(t) !== 'merge') continue;
        if (run.parts.launch[tiles.part[t]] !== this.launch) continue;
        const [a, b] = [this.x(run.counted(t) ? tiles.start[t] : this.arrived(t)), this.x(tiles.end[t])];
        const block = this.ring && run.counted(t) ? this.ring.get(tiles.k0[t]) : undefined;
        const text = block !== undefined ? `KV ${block}` : shortLabel(run, t);
        if (b - a < textWidth(text) + 3 || drawn > 240) continue;
        drawn++;
        m.text((a + b) / 2, this.y(q) + this.rowHeight / 2 + 3, text, 't mid lab0 halo-bar');
      }
    });
  }

  drawTimes(m, bottom) {
    const step = niceStep((this.end - this.from) / 1000, (this.x1 - this.x0) / 90);
    m.line(this.x0, bottom + 2, this.x1, bottom + 2, 'axis');
    for (let v = Math.ceil(this.from / 1000 / step) * step; v * 1000 <= this.end; v += step) {
      const x = this.x(v * 1000);
      m.line(x, bottom + 2, x, bottom + 5, 'axis');
      if (x < this.x1 - 34) m.text(x, bottom + 17, group(v), `t lab2 num ${v ? 'mid' : ''}`);
    }
    m.text(this.x1, bottom + 17, 'ns', 't lab2 end');
  }

  /** The last operation that a PE has done at a time; scopes that open and close at that very time come after it. */
  rowAt(run, q, now) {
    const first = run.pes[q].op0;
    let row = run.rowAt(q, now);
    while (row > first && run.engine(row) === 4 && run.ops.clock[row - 1] === now) row--;
    return row;
  }

  /** The row that a PE is at: the one that it has just done, or while time goes on after it, the next one. */
  under(run, q, row, now) {
    const last = run.pes[q].op1 - 1;
    if (run.ops.clock[row] >= now) return row;
    let next = Math.min(row + 1, last);
    // what is no operation takes no time: the one after it says what the PE is about
    for (let n = 0; n < 3 && run.engine(next) === 4 && next < last; n++) next++;
    return next;
  }

  tileAt(run, q, row, now) {
    return run.tile(this.under(run, q, row, now));
  }

  /** What a PE does at a time, `row` being the last that it has done by then. */
  doing(run, q, row, now) {
    if (row < run.pes[q].op0) return 'not begun';
    if (run.isLast(q, row) && now >= run.ops.clock[row]) return 'done';
    const at = this.under(run, q, row, now);
    if (run.op(at) === 'ipc_recv' && at > row)
      return `waits for ${who(run, run.kinds.peer[run.ops.kind[at]])}`;
    const t = run.tile(at);
    const block = this.ring && run.counted(t) ? this.ring.get(run.tiles.k0[t]) : undefined;
    return block !== undefined ? `folds KV ${block}` : run.tileLabel(t) || run.kind(t);
  }

  heading() {
    return this.launches > 1 ? `launch ${this.launch + 1} of ${this.launches}` : '';
  }

  summary({ run, i }) {
    const flying = this.player.messages.underWay(run.ops.clock[i]);
    const pairs = [...new Set(flying.map(m => `${who(run, m.from)} to ${who(run, m.to)}`))];
    return `${many(flying.length, 'message')} under way${pairs.length && pairs.length <= 4 ? ` (${pairs.join(', ')})` : ''}`;
  }
}

/** In a ring several PEs fold the same keys: number the blocks by their first key. Null where every key has one PE. */
function isRing(run) {
  const { tiles } = run;
  const first = new Map();
  let shared = false;
  for (let t = 0; t < tiles.n; t++) {
    if (tiles.k0[t] < 0 || !run.counted(t)) continue;
    const known = first.get(tiles.k0[t]);
    if (known === undefined) first.set(tiles.k0[t], tiles.pe[t]);
    else if (known !== tiles.pe[t]) shared = true;
  }
  if (!shared) return null;
  return new Map([...first.keys()].sort((a, b) => a - b).map((k, n) => [k, n]));
}
