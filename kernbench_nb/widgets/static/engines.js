// Engines: dma, gemm, math and ipc as lanes around the current tile. Solid while the engine is busy, a whisker while the
// data is still on its way, dotted while the PE waits for a message.

import { plot, size, where } from './dom.js';
import { Marks } from './marks.js';
import { patterns, textures } from './texture.js';
import { css, ENGINES } from './colour.js';
import { group, niceStep, percent, time } from './numbers.js';
import { MONO, textWidth } from './place.js';
import { thing, waited, who } from './words.js';

const LANE = 22;
export const ENGINE_WORDS = {
  dma: 'moves tiles between HBM and scratch',
  gemm: 'products of matrices',
  math: 'element by element, sums and maxima over rows, copies',
  ipc: 'messages between PEs',
};

const FAINT = 0.35; // of what is still to come
const MOST_ROWS = 500; // of a tile with more operations, the lanes show these around the step

export class Engines {
  constructor(player, options = {}) {
    this.player = player;
    this.options = options;
    this.plot = plot('Engines');
    this.el = this.plot.box;
    this.id = `${player.id}-${options.name || 'engines'}-`;
    patterns(this.plot.svg, this.id);
    this.marks = new Marks(this.plot.svg);
    this.hits = [];
    const { svg } = this.plot;
    svg.addEventListener('click', event => {
      const row = this.rowAt(event);
      if (row !== undefined) player.go(row);
    });
    svg.addEventListener('mousemove', event => this.hover(event));
    svg.addEventListener('mouseleave', () => player.tip.hide());
  }

  layout(width) {
    this.width = width;
    this.height = 4 * LANE + 30;
    this.x0 = 46;
    this.x1 = width - (this.options.small ? 64 : 118);
    this.g = size(this.plot, width, this.height);
    this.textures = textures(this.g, this.player.palette);
    this.key = null;
  }

  rowAt(event) {
    const [x, y] = where(event, this.plot.svg);
    const hit = this.hits.find(([a, b, top]) => x >= a - 1 && x <= b + 1 && y >= top && y <= top + 18);
    return hit && hit[3];
  }

  hover(event) {
    const { run, tip } = this.player;
    const [x, y] = where(event, this.plot.svg);
    const lane = ENGINES[Math.floor((y - 2) / LANE)];
    if (lane && (x < this.x0 || x > this.x1)) return tip.show(event, [lane, ENGINE_WORDS[lane]]);
    const row = this.rowAt(event);
    if (row === undefined) return tip.hide();
    const { ops, sites } = run;
    const line = sites.line[ops.site[row]];
    tip.show(event, [
      `${run.op(row)}  ${run.subject(row)}`,
      `${time(ops.start[row])} – ${time(ops.end[row])} (${time(ops.end[row] - ops.start[row])})`,
      line > 0 ? `line ${line}` : null,
    ]);
  }

  /** Rows and times that the lanes show: those of the current tile, with a little of its neighbours. */
  window(run, p, i) {
    const { tiles, ops } = run;
    const t = run.tile(i);
    let [a, b] = [tiles.op0[t], tiles.op1[t] + 1];
    if (b - a > MOST_ROWS) {
      const page = Math.floor((i - a) / (MOST_ROWS / 2));
      const from = Math.max(a, Math.min(b - MOST_ROWS, a + (page - 0.5) * (MOST_ROWS / 2)));
      [a, b] = [Math.floor(from), Math.floor(from) + MOST_ROWS];
    }
    const [first] = run.span(p);
    const t0 = a > first ? ops.clock[a - 1] : 0;
    let t1 = ops.clock[b - 1];
    // a run that stopped left loads under way
    if (run.head.error && run.head.error.tile === t)
      for (let k = a; k < b; k++) t1 = Math.max(t1, ops.end[k]);
    // between tiles the PE goes on while its messages and loads are still under way
    if (!run.counted(t)) for (let k = a; k < b; k++) t1 = Math.max(t1, ops.start[k] + run.busy(k));
    t1 = Math.max(t1, t0 + 1000);
    return { a, b, t0, t1 };
  }

  /** Of the window's time, the part that each engine is busy; what was issued before and runs into it included. */
  shares(run, p, win) {
    const { ops } = run;
    const busy = [0, 0, 0, 0];
    for (const k of this.rows(run, p, win, win.t0, win.t1)) {
      const begin = ops.start[k];
      busy[run.engine(k)] += Math.max(0, Math.min(win.t1, begin + run.busy(k)) - Math.max(win.t0, begin));
    }
    return busy.map(x => Math.min(1, x / (win.t1 - win.t0)));
  }

  draw({ run, p, i }) {
    const { ops } = run;
    const win = this.window(run, p, i);
    const pad = (win.t1 - win.t0) * 0.06;
    const [w0, w1] = [win.t0 - pad, win.t1 + pad];
    const x = v => this.x0 + ((v - w0) / (w1 - w0)) * (this.x1 - this.x0);
    const at = { run, p, i, win, w0, w1, x, shares: this.shares(run, p, win), m: this.marks.begin() };
    const rows = this.rows(run, p, win, w0, w1);
    this.drawFrame(at);
    this.drawBars(at, rows);
    const px = x(ops.clock[i]);
    if (px >= this.x0 && px <= this.x1 + 1) at.m.line(px, 0, px, 94, 'play');
    this.drawTimes(at);
    at.m.end();
    this.plot.svg.setAttribute('aria-label', `Engine lanes. ${this.sentence(at)}`);
  }

  sentence({ run, i, shares }) {
    const most = Math.max(...shares);
    const what = thing(run, run.tile(i));
    if (most <= 0) return `No engine is busy in this ${what}.`;
    return (
      ENGINES.map((e, n) => [e, shares[n]])
        .filter(([, s]) => s > 0)
        .map(([e, s]) => `${e} ${percent(s)}${s === most ? ' (busiest)' : ''}`)
        .join(', ') + ` of this ${what}.`
    );
  }

  summary({ run, p, i }) {
    return this.sentence({ run, i, shares: this.shares(run, p, this.window(run, p, i)) });
  }

  drawFrame({ win, x, shares, m }) {
    const most = Math.max(...shares);
    const g = this.g;
    g.clearRect(0, 0, this.width, this.height);
    g.fillStyle = css(this.player.palette.bg2);
    g.fillRect(x(win.t0), 2, x(win.t1) - x(win.t0), 4 * LANE);
    ENGINES.forEach((name, e) => {
      const y = 4 + e * LANE;
      const longest = most > 0 && shares[e] === most;
      m.line(this.x0, y + 18.5, this.x1, y + 18.5, 'grid');
      m.text(this.x0 - 8, y + 13, name, `t mono end ${longest ? 'lab0 b' : 'lab1'}`);
      m.rect(this.x1 + 10, y + 2, 14, 15, 'barbg');
      const height = 15 * Math.min(1, shares[e]);
      m.rect(this.x1 + 10, y + 17 - height, 14, height, `bl bl-${name}`);
      m.text(
        this.x1 + 62,
        y + 13,
        shares[e] > 0 ? percent(shares[e]) : '–',
        `t num end ${longest ? 'lab0 b' : 'lab1'}`,
      );
      if (longest && !this.options.small) m.text(this.x1 + 68, y + 13, 'busiest', 't lab0');
    });
  }

  /** Rows whose time lies in the window; loads that were issued before and are still under way included. */
  rows(run, p, win, w0, w1) {
    const { ops } = run;
    const [first, stop] = run.span(p);
    let low = win.a;
    for (let n = 0; low > first && n < 60 && ops.clock[low - 1] > w0; n++) low--;
    let high = win.b;
    for (let n = 0; high < stop && n < 60 && ops.start[high] < w1; n++) high++;
    const out = [];
    for (let k = Math.max(first, low - 40); k < low; k++)
      if (run.engine(k) < 4 && ops.end[k] > w0) out.push(k);
    for (let k = low; k < high; k++) if (run.engine(k) < 4) out.push(k);
    return out;
  }

  drawBars({ run, i, w0, w1, x, m }, rows) {
    const { ops } = run;
    const { palette } = this.player;
    const g = this.g;
    this.hits = [];
    const inside = v => Math.max(this.x0, Math.min(this.x1, x(v)));
    const lastText = [-99, -99, -99, -99];
    const now = inside(ops.clock[i]);
    for (const k of rows) {
      const e = run.engine(k);
      const name = ENGINES[e];
      const y = 4 + e * LANE;
      const later = k > i;
      if (ops.end[k] < w0 || ops.start[k] > w1) continue;
      const begin = ops.start[k] + (run.op(k) === 'ipc_recv' ? waited(run, k) : 0);
      if (begin > ops.start[k])
        lastText[e] = this.drawWait(m, run, k, inside(ops.start[k]), inside(begin), y, later, lastText[e]);
      const busy = begin + run.busy(k);
      const [a, b, c] = [inside(begin), inside(busy), inside(Math.max(busy, ops.end[k]))];
      const w = Math.max(1.2, b - a - 0.6);
      const bar = {
        a,
        b,
        c,
        y,
        w,
        fill: w > 4 ? this.textures[name] : css(palette.line[name]),
        line: css(palette.line[name]),
      };
      // what lies behind the playhead has not happened yet, if it was issued before or not
      const split = !later && c > now + 0.5;
      g.globalAlpha = later || split ? FAINT : 1;
      paintBar(g, bar);
      g.globalAlpha = 1;
      if (split && a < now) {
        g.save();
        g.beginPath();
        g.rect(this.x0, y - 1, now - this.x0, LANE);
        g.clip();
        g.clearRect(a, y, now - a, 18);
        g.fillStyle = css(palette.bg2);
        g.fillRect(a, y, now - a, 18);
        paintBar(g, bar);
        g.restore();
      }
      this.hits.push([a, Math.max(c, a + 3), y, k]);
      if (k === i) m.rect(a, y, w, 18, 'op-now');
      const text = run.label(k);
      const width = textWidth(text, MONO) + 6;
      if (w > width && (a + b) / 2 - width / 2 > lastText[e]) {
        m.text((a + b) / 2, y + 13, text, `t mid oplab${later ? ' todo' : ''}`);
        lastText[e] = (a + b) / 2 + width / 2;
      }
    }
    this.markSelected(run, rows, x);
  }

  /** What a linked log has selected. */
  markSelected(run, rows, x) {
    const picked = this.player.selected;
    if (!picked) return;
    for (const k of rows) {
      if (!picked(k)) continue;
      const y = 4 + run.engine(k) * LANE;
      this.marks.rect(
        x(run.ops.start[k]),
        y + 19,
        Math.max(2, x(run.ops.start[k] + run.busy(k)) - x(run.ops.start[k])),
        2.5,
        'picked',
      );
    }
  }

  /** Says how far to the right a text stands now. */
  drawWait(m, run, k, a, b, y, later, taken) {
    if (b - a < 3) return taken;
    m.line(a, y + 9, b, y + 9, `waitl${later ? ' todo' : ''}`);
    const text = `waits for ${who(run, run.kinds.peer[run.ops.kind[k]])}`;
    const w = textWidth(text);
    if (b - a < w + 24 || (a + b - w) / 2 < taken) return taken;
    m.text((a + b) / 2, y + 13, text, 't mid lab1 halo2');
    return (a + b + w) / 2 + 4;
  }

  drawTimes({ run, i, w0, w1, x, m }) {
    const y = 4 * LANE + 6;
    m.line(this.x0, y, this.x1, y, 'axis');
    const step = niceStep((w1 - w0) / 1000, (this.x1 - this.x0) / 84);
    let last = -99;
    for (let v = Math.ceil(Math.max(0, w0) / 1000 / step) * step; v * 1000 <= w1; v += step) {
      const px = x(v * 1000);
      m.line(px, y, px, y + 4, 'axis');
      const text = step < 1 ? v.toFixed(1) : group(v);
      const w = textWidth(text);
      if (px + w / 2 > this.x1 - 14 || px - w / 2 < last) continue;
      m.text(px, y + 15, text, 't lab2 mid num');
      last = px + w / 2 + 6;
    }
    m.text(this.x1, y + 15, 'ns', 't lab2 end');
    m.text(
      this.x1 + 10,
      y + 15,
      this.options.small ? 'busy' : `busy in this ${thing(run, run.tile(i))}`,
      't lab2',
    );
  }
}

function paintBar(g, { a, b, c, y, w, fill, line }) {
  if (c > b + 1) whisker(g, b, c, y, line);
  g.fillStyle = fill;
  g.fillRect(a, y, w, 18);
  g.lineWidth = 1;
  g.strokeStyle = line;
  if (w > 2) g.strokeRect(a + 0.5, y + 0.5, Math.max(0.2, w - 1), 17);
}

function whisker(g, from, to, y, colour) {
  g.strokeStyle = colour;
  g.lineWidth = 1.5;
  g.beginPath();
  g.moveTo(from, y + 9);
  g.lineTo(to, y + 9);
  g.moveTo(to - 0.75, y + 5);
  g.lineTo(to - 0.75, y + 13);
  g.stroke();
}
