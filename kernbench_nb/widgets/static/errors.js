// How far O / l is from the final result, tile after tile: one thin line a row, the median in bold, on a log axis.
// The lines are made once; a step moves the edge up to which they are drawn in ink.

import { svg } from './dom.js';
import { percent } from './numbers.js';
import { BOLD, fit, textWidth } from './place.js';
import { shortLabel } from './scratch.js';

const MOST_LINES = 16;

export class ErrorCurve {
  constructor(values) {
    this.values = values;
    this.clip = svg('clipPath', { id: `${values.id}clip` });
    this.clipBox = svg('rect', {});
    this.clip.append(this.clipBox);
    values.plot.svg.append(this.clip);
  }

  layout(list, box) {
    const { run } = this.values.player;
    this.box = box;
    this.list = list.filter(t => run.recorded(t).err);
    // what is not a number is as far from the result as can be
    this.errors = this.list.map(t => run.recorded(t).err.x.map(e => (Number.isFinite(e) ? e : Infinity)));
    this.medians = this.errors.map(median);
    if (!this.list.length) return;
    let low = 1,
      high = 1e-9;
    for (const e of this.errors) {
      for (const x of e) {
        if (x > 0 && x < low) low = x;
        if (x > high && Number.isFinite(x)) high = x;
      }
    }
    this.low = Math.max(1e-5, 10 ** Math.floor(Math.log10(low) + 0.3));
    this.high = Math.max(10 * this.low, 10 ** Math.ceil(Math.log10(high) - 0.2));
    this.paths = this.makePaths();
  }

  x(n) {
    const { x, w } = this.box;
    return x + (this.list.length > 1 ? n / (this.list.length - 1) : 0.5) * w;
  }

  y(e) {
    const { top, h } = this.box;
    return (
      top +
      (h * (Math.log10(this.high) - Math.log10(Math.min(this.high, Math.max(this.low, e))))) /
        (Math.log10(this.high) - Math.log10(this.low))
    );
  }

  /** Each query block has a line of its own; what is no tile (a merge) goes on from the last. */
  makePaths() {
    const { run } = this.values.player;
    const { tiles } = run;
    const lines = new Map();
    let last = '';
    this.list.forEach((t, n) => {
      if (run.counted(t) || !lines.size) last = `${tiles.layer[t]}|${tiles.part[t]}|${tiles.q0[t]}`;
      if (!lines.has(last)) lines.set(last, []);
      lines.get(last).push(n);
    });
    const segments = [...lines.values()];
    const path = value =>
      segments
        .map(ns =>
          ns.map((n, k) => `${k ? 'L' : 'M'}${this.x(n).toFixed(1)} ${this.y(value(n)).toFixed(1)}`).join(''),
        )
        .join('');
    const rows = Math.min(...this.errors.map(e => e.length));
    const every = Math.max(1, Math.ceil(rows / MOST_LINES));
    const thin = [];
    for (let r = 0; r < rows; r += every) thin.push(path(n => this.errors[n][r]));
    return { thin: thin.join(''), bold: path(n => this.medians[n]) };
  }

  tileAt(x) {
    if (!this.list || !this.list.length) return -1;
    let best = -1,
      near = 14;
    this.list.forEach((t, n) => {
      const d = Math.abs(this.x(n) - x);
      if (d < near) [best, near] = [t, d];
    });
    return best;
  }

  draw(m, at) {
    const { run } = this.values.player;
    const { box } = this;
    if (!this.list.length || box.w < 60) return;
    const shared = run.pes.length > 1 && run.head.score && run.head.score.S_q <= 16;
    m.text(
      box.x,
      box.title,
      fit(box.w > 190 ? 'distance of O / l from the result' : 'error of O / l', box.w + 8, BOLD),
      't lab0 b',
    );
    const text = shared
      ? 'if all PEs merged now; a line a row, median in bold'
      : 'a line a row, median in bold';
    if (textWidth(text) < box.w + 10) m.text(box.x, box.title + 14, text, 't lab2');
    for (let d = Math.ceil(Math.log10(this.low)); d <= Math.log10(this.high) + 0.01; d++) {
      const y = this.y(10 ** d);
      m.line(box.x, y, box.x + box.w, y, 'grid');
      m.text(box.x - 6, y + 3.5, percent(10 ** d), 't lab2 end num');
    }
    const last = this.lastShown(at);
    m.path(this.paths.thin, 'er f');
    m.path(this.paths.bold, 'er wf');
    const edge = last >= 0 ? this.x(last) : box.x - 1;
    for (const [k, v] of Object.entries({
      x: 0,
      y: 0,
      width: Math.max(0, edge + 0.5),
      height: this.values.height,
    }))
      this.clipBox.setAttribute(k, v);
    const clip = { 'clip-path': `url(#${this.clip.id})` };
    m.path(this.paths.thin, 'er d', clip);
    m.path(this.paths.bold, 'er w', clip);
    this.drawTicks(m, last);
    if (last >= 0) this.drawPoint(m, last);
  }

  /** Index of the last tile with an error, of the first `at + 1` of all. */
  lastShown(at) {
    if (at < 0) return -1;
    const t = this.values.list[at];
    let n = this.list.indexOf(t);
    for (let k = at; n < 0 && k >= 0; k--) n = this.list.indexOf(this.values.list[k]);
    return n;
  }

  drawTicks(m, last) {
    const { run } = this.values.player;
    const y = this.box.top + this.box.h + 16;
    const labels = this.list.map(t => shortLabel(run, t));
    const spot = (n, font) => {
      const w = textWidth(labels[n], font);
      const x = Math.max(this.box.x - 30 + w / 2, Math.min(this.x(n), this.values.width - w / 2 - 1));
      return { x, from: x - w / 2 - 3, to: x + w / 2 + 3 };
    };
    const own = last >= 0 ? spot(last, BOLD) : null;
    let free = -99;
    this.list.forEach((t, n) => {
      const at = spot(n);
      if (n === last || at.from < free || (own && at.to > own.from && at.from < own.to)) return;
      m.text(at.x, y, labels[n], 't mid lab2');
      free = at.to;
    });
    if (own) m.text(own.x, y, labels[last], 't mid lab0 b');
  }

  drawPoint(m, last) {
    const { run } = this.values.player;
    const e = this.medians[last];
    const [x, y] = [this.x(last), this.y(e)];
    const text = percent(e);
    const spot = this.labelPlace(x, y, textWidth(text, BOLD), 9);
    this.plate(m, spot);
    m.circle(x, y, 4, 'pt on');
    m.text(spot.x, spot.y, text, 't lab0 b');
    if (!this.values.numbers) return;
    const row = this.errors[last].reduce((best, v, r, all) => (v > all[best] ? r : best), 0);
    const worst = this.errors[last][row];
    if (worst <= 2 * e || Math.abs(y - this.y(worst)) < 34) return;
    const label = `${run.head.score?.row_labels?.[row] || `row ${row}`}: ${percent(worst)}`;
    const other = this.labelPlace(x, this.y(worst), textWidth(label), 7);
    this.plate(m, other);
    m.circle(x, this.y(worst), 2.5, 'pt2');
    m.text(other.x, other.y, label, 't lab1');
  }

  /** Beside a point, on the side where there is more room, above it unless that is out of the picture. */
  labelPlace(x, y, width, gap) {
    const right = x > this.box.x + this.box.w * 0.6;
    const at = right ? x - gap - width : x + gap;
    return { x: at, y: y < this.box.top + 16 ? y + 16 : y - 7, width };
  }

  /** The ground of a label: no curve crosses it. */
  plate(m, { x, y, width }) {
    m.rect(x - 2, y - 10, width + 4, 13, 'plate');
  }
}

function median(values) {
  const sorted = Array.from(values).sort((a, b) => a - b);
  return sorted[sorted.length >> 1];
}
