// Values, where the run recorded them: the weights of the tile, the state (m, l) and the correction c of each row, O / l,
// and how far O / l is from the final result.

import { plot, size, where } from './dom.js';
import { Choice } from './controls.js';
import { Marks } from './marks.js';
import { patterns } from './texture.js';
import { decimal, percent } from './numbers.js';
import { MONO_BOLD, fit, textWidth } from './place.js';
import { heatIndex } from './heat.js';
import { ErrorCurve } from './errors.js';
import { lastAtMost } from './run.js';
import { who } from './words.js';
import { word } from './lens.js';

const CHOICE = 58; // px, of the two buttons at the top left
const MOST_ROWS = 24; // up to here a row has its numbers, beyond it bars alone

// What the corrections are, as long as there is room for
const TILE_WORDS = [
  'c = exp(m_old − m_new): how much the old l and O shrink',
  'c: how much the old l and O shrink',
  'c shrinks the old l and O',
];
const MERGE_WORDS = [
  'a = exp(m − m_new), b = exp(m_in − m_new): how much either l and O shrink',
  'a = exp(m − m_new), b = exp(m_in − m_new): so l and O shrink',
  'a, b: how much either l and O shrink',
  'a, b shrink l and O',
];

export class Values {
  constructor(player) {
    this.player = player;
    this.plot = plot('Values');
    this.el = this.plot.box;
    this.id = `${player.id}-values-`;
    patterns(this.plot.svg, this.id);
    this.marks = new Marks(this.plot.svg);
    this.curve = new ErrorCurve(this);
    this.what = 'p';
    const choose = what => {
      this.what = what;
      this.key = null;
      player.dirty();
    };
    this.choice = new Choice(
      'Heat map of',
      [
        ['p', 'p', 'weights exp(s − m)'],
        ['s', 's', 'scaled scores'],
      ],
      choose,
    );
    this.choice.el.classList.add('mini');
    this.el.append(this.choice.el);
    this.plot.svg.addEventListener('click', event => {
      const tile = this.curve.tileAt(where(event, this.plot.svg)[0]);
      if (tile >= 0) player.goTile(tile);
    });
  }

  layout(width) {
    const { run, p } = this.player;
    const tiles = run.tilesOf[p].filter(t => run.recorded(t));
    this.list = tiles;
    this.settled = Int32Array.from(tiles, t => run.settled[t]);
    this.rowsOf = new Map();
    const some = tiles.map(t => run.recorded(t));
    this.rows = Math.max(1, ...some.map(v => (v.m ? v.m.rows : v.s ? v.s.rows : 0)));
    this.cols = Math.max(1, ...some.map(v => (v.s ? v.s.cols : 0)));
    this.depth = Math.max(1, ...some.map(v => (v.o ? v.o.cols : 0)));
    this.numbers = this.rows <= MOST_ROWS;
    this.narrow = width < 760;
    this.width = width;
    this.key = null;
    this.rowHeight = this.numbers
      ? Math.min(17, Math.max(13, 200 / this.rows))
      : Math.max(1, Math.min(3, 192 / this.rows));
    this.h = this.rows * this.rowHeight;
    this.labelWidth = this.numbers ? 44 : 6;
    const tokens = this.numbers && run.head.score?.tokens && this.cols <= 32;
    this.y0 = tokens ? 62 : 46;
    this.showsTokens = Boolean(tokens);
    this.pw = Math.min(this.narrow ? 200 : 304, Math.max(96, this.cols * (this.numbers ? 19 : 3)));
    this.nw = this.numbers ? (this.narrow ? 46 : 60) : this.narrow ? 34 : 52;
    this.ow = this.narrow ? 64 : 128;
    this.px = this.labelWidth;
    this.nx = this.px + this.pw + (this.narrow ? 8 : 20);
    this.ox = this.nx + 3 * this.nw + (this.narrow ? 8 : 18);
    this.ex = this.ox + this.ow + (this.narrow ? 54 : 66);
    this.ew = width - this.ex - 8;
    this.below = this.ew < 110;
    if (this.below) {
      // no room beside: the curve goes under the rest
      this.ex = 52;
      this.ew = width - this.ex - 10;
    }
    const curve = this.below ? 150 : 0;
    this.height = this.y0 + this.h + 24 + curve + (this.below ? 14 : 0);
    this.curveBox = this.below
      ? { x: this.ex, w: this.ew, top: this.y0 + this.h + 64, h: curve - 58, title: this.y0 + this.h + 38 }
      : { x: this.ex, w: this.ew, top: this.y0 - 6, h: Math.max(84, this.h + 6), title: 12 };
    if (!this.below && this.curveBox.h > this.h + 6) this.height = this.y0 + this.curveBox.h + 18;
    this.g = size(this.plot, width, this.height);
    this.curve.layout(this.list, this.curveBox);
  }

  /** Rows of a tile after which its scores, its corrections and the parts of a merged l are there. */
  madeIn(run, t) {
    if (this.rowsOf.has(t)) return this.rowsOf.get(t);
    const { tiles } = run;
    const [ready, settled] = [run.ready[t], run.settled[t]];
    const made = { p: ready, s: ready, c: settled, a: settled, b: settled, share: settled };
    for (let i = Math.max(0, tiles.op0[t]); i <= tiles.op1[t]; i++) {
      const [op, name] = [run.op(i), run.name(i)];
      if (op === 'exp' && (name === 'c' || name === 'a' || name === 'b')) made[name] = i;
      else if (name === 'l_new') made.share = i;
      else if (name === 's masked' || (name === 's' && made.s === ready)) made.s = Math.min(i, ready);
    }
    this.rowsOf.set(t, made);
    return made;
  }

  /**
   * What there is at a row: `t`, the last tile whose state stands; of the tile that the row is `in`, whether its weights
   * (or scores), its corrections and the parts of its l are made, and whether they are given `back`. Those of an earlier
   * tile are gone, whatever comes next.
   */
  seen({ run, i }) {
    const here = run.tile(i);
    const at = lastAtMost(this.settled, 0, this.settled.length, i);
    const computes = this.list.includes(here);
    const back = computes && i >= run.tiles.op1[here] && run.tiles.back[here] > 0;
    const made = computes && !back ? this.madeIn(run, here) : null;
    const has = what => made !== null && i >= made[what];
    return {
      at,
      t: at >= 0 ? this.list[at] : -1,
      here,
      computes,
      back,
      weights: has(this.what),
      share: has('share'),
      corrections: ['c', 'a', 'b'].filter(has),
    };
  }

  draw({ run, p, i }) {
    const seen = this.seen({ run, i });
    const { at, t, here } = seen;
    const key = [p, t, here, seen.back, seen.weights, seen.share, seen.corrections, this.what].join('|');
    if (key === this.key) return;
    this.key = key;
    const m = this.marks.begin();
    this.g.clearRect(0, 0, this.width, this.height);
    const v = t >= 0 ? run.recorded(t) : null;
    const own = seen.computes ? run.recorded(here) : null;
    // without numbers, the rows that a tile has share the height
    this.count = Math.max(...[v, own].map(x => (x && (x.m || x.s || x.share)?.rows) || 0)) || this.rows;
    this.pitch = this.numbers ? this.rowHeight : this.h / Math.min(this.count, this.rows);
    // a merge has two corrections, and its bars make room for the second
    this.merge = run.kind(here) === 'merge';
    this.lw = this.pw - (this.merge ? this.nw : 0);
    this.sx = this.nx - (this.merge ? this.nw : 0);
    this.drawTitles(m, run, seen, v);
    if (!own || !(own.share ? seen.share : seen.weights)) this.drawNothing(m, run, seen);
    else if (own.share) this.drawShare(m, run, here, own);
    else if (own.s) this.drawWeights(m, run, here, own);
    if (v?.m) this.drawState(m, v, this.corrections(own, seen));
    if (v?.o) this.drawOutput(v);
    this.curve.draw(m, at);
    m.end();
    const said = this.summary({ run, p, i });
    this.plot.svg.setAttribute('aria-label', said ? `Values ${said}.` : 'Values: none yet.');
  }

  /** Where S and P would be: what became of them, or that they are still to come. */
  drawNothing(m, run, { here, computes, back }) {
    const label = run.tileLabel(here) || run.kind(here);
    const lines = back
      ? [this.merge ? `the blocks of ${label}` : `S and P of ${label}`, 'are given back']
      : computes
        ? [label, 'not computed yet']
        : [label, 'no S and no P here'];
    lines.forEach((text, n) =>
      m.text(
        this.px + this.lw / 2,
        this.y0 + this.h / 2 - 3 + 15 * n,
        fit(text, this.lw - 6),
        `t mid ${n ? 'lab2' : 'lab1'}`,
      ),
    );
  }

  final(run) {
    return run.head.final === 'output' ? 'the output' : run.head.final || 'the final result';
  }

  summary({ run, p, i }) {
    const last = run.tilesOf[p].filter(t => run.settled[t] <= i && run.recorded(t)?.err).pop();
    if (last === undefined) return '';
    const worst = Math.max(...run.recorded(last).err.x);
    if (!Number.isFinite(worst)) return `after ${run.tileLabel(last) || run.kind(last)}, O / l is not finite`;
    return `after ${run.tileLabel(last) || run.kind(last)}, O / l is at most ${percent(worst)} from ${this.final(run)}`;
  }

  /** The columns c, or a and b, of the tile that one stands in, as far as they are made. */
  corrections(own, { corrections }) {
    const names = own?.c ? ['c'] : ['a', 'b'];
    return names.map(name => (corrections.includes(name) ? own?.[name] : undefined));
  }

  drawTitles(m, run, { t, here, weights }, v) {
    const { score } = run.head;
    this.choice.el.hidden = this.merge;
    this.choice.show(this.what);
    if (this.merge) m.text(0, 12, 'l·a / l_new', 't mono lab0 b');
    else {
      const title = this.what === 'p' ? 'exp(s − m)' : 'scaled scores';
      m.text(CHOICE, 12, fit(title, this.px + this.pw - CHOICE, MONO_BOLD), 't mono lab0 b');
      const used = CHOICE + textWidth(title, MONO_BOLD) + 10;
      if (weights) m.text(used, 12, fit(run.tileLabel(here), this.px + this.pw - used), 't lab2');
    }
    if (!v || v.m) this.drawStateTitles(m, run, t);
    m.rect(this.px, this.y0, this.lw, this.h, 'frame');
    if (!this.numbers) return;
    const group = this.groupRows(run);
    for (let r = 0; r < this.rows; r++) {
      const label = (score?.row_labels && score.row_labels[r]) || `row ${r}`;
      const y = this.y0 + r * this.pitch;
      m.text(
        this.px - 6,
        y + this.rowHeight / 2 + 4,
        fit(label.replace(/^head /, 'head '), this.labelWidth - 6),
        't lab2 end',
      );
      if (r && r % group === 0) m.line(this.px, y, this.ox + this.ow, y, 'rule2');
    }
  }

  drawStateTitles(m, run, t) {
    const after = t >= 0 ? run.tileLabel(t) || run.kind(t) : '';
    const room = this.ox + this.ow - this.sx - 6;
    const said = (
      after ? [`state (m, l, O) after ${after}`, `state after ${after}`, `after ${after}`] : ['no state yet']
    ).find(text => textWidth(text) < room);
    if (said) m.text(this.sx + 6, 12, said, 't lab1');
    const names = this.merge ? ['m', 'l', 'a', 'b'] : ['m', 'l', 'c'];
    for (const [n, name] of names.entries())
      m.text(this.sx + (n + 1) * this.nw - 6, this.y0 - 10, name, 't mono lab0 b end');
    m.text(this.ox, this.y0 - 10, 'O / l', 't mono lab0 b');
    if (this.ow > 100) m.text(this.ox + this.ow, this.y0 - 10, `${this.count}×${this.depth}`, 't lab2 end');
    m.rect(this.ox, this.y0, this.ow, this.h, 'frame');
    const words = (this.merge ? MERGE_WORDS : TILE_WORDS).find(text => textWidth(text) <= room);
    if (words) m.text(this.sx + 6, this.y0 + this.h + 15, words, 't lab1');
  }

  groupRows(run) {
    const { params, score } = run.head;
    return score && params.h_kv > 1 && params.h_q === score.heads ? this.rows / params.h_kv : this.rows;
  }

  drawWeights(m, run, t, v) {
    const { s } = v;
    const { tiles } = run;
    const heat = this.player.palette.heat;
    const shown = Math.min(s.rows, this.rows);
    const w = (this.pw * s.cols) / this.cols;
    const of = v.m ? r => v.m.x[r] : rowMaximum(s);
    const [low, high] = this.what === 's' ? limits(s.x) : [0, 1];
    const colour =
      this.what === 'p'
        ? (x, r) => heat[heatIndex(x - of(r))]
        : x => heat[Math.round((255 * (x - low)) / (high - low || 1))];
    this.paint(s, shown, this.px, w, (x, r) => (Number.isFinite(x) ? colour(x, r) : 0));
    if (this.what === 's') {
      const text = low <= high ? `${decimal(low, 1)} … ${decimal(high, 1)}` : 'none is finite';
      m.text(this.px + this.pw, this.y0 + this.h + 14, fit(text, this.pw), 't lab2 end');
    }
    if (this.showsTokens) {
      const cell = w / s.cols;
      for (let c = 0; c < s.cols; c++) {
        const x = this.px + (c + 0.62) * cell;
        const text = fit(word(run.head.score, tiles.k0[t] + c), 56);
        m.text(x, this.y0 - 5, text, 't lab1 sm', {
          transform: `rotate(-48 ${x.toFixed(1)} ${this.y0 - 5})`,
        });
      }
    } else if (tiles.k0[t] >= 0) {
      const text = `keys ${tiles.k0[t]}–${tiles.k1[t] - 1}${this.numbers ? '' : ` × ${shown} rows`}`;
      m.text(this.px, this.y0 - 10, fit(text, this.pw), 't lab2');
    }
  }

  drawShare(m, run, t, { share }) {
    const from = `from ${who(run, run.tiles.peer[t])}`;
    const kept = ['share of l: kept', 'kept'].find(text => textWidth(text) + textWidth(from) + 8 < this.lw);
    m.text(this.px, this.y0 - 10, kept || 'kept', 't lab1');
    m.text(this.px + this.lw, this.y0 - 10, from, 't lab1 end');
    for (let r = 0; r < Math.min(share.rows, this.rows); r++) {
      const w = share.x[r] * this.lw;
      const y = this.y0 + r * this.pitch;
      const pad = this.numbers ? 2 : 0.2;
      m.rect(this.px, y + pad, w, this.pitch - 2 * pad, 'keepbar');
      m.rect(
        this.px + w,
        y + pad,
        this.lw - w,
        this.pitch - 2 * pad,
        this.numbers ? 'blk b-ipc' : 'bl bl-ipc',
        { fill: `url(#${this.id}ipc)` },
      );
    }
  }

  drawState(m, v, corrections) {
    const columns = [v.m, v.l, ...corrections].map(column => column?.x);
    // nothing was there to shrink
    const first = this.merge ? false : corrections[0]?.x.every(x => x === 0);
    columns.forEach((x, n) => {
      if (!x) return;
      const finite = Array.from(x).filter(Number.isFinite);
      const low = n === 0 ? Math.min(...finite) : 0;
      const high = n >= 2 ? 1 : Math.max(...finite);
      for (let r = 0; r < Math.min(x.length, this.rows); r++) {
        const left = this.sx + n * this.nw;
        const y = this.y0 + r * this.pitch;
        const part = Number.isFinite(x[r]) ? Math.max(0, (x[r] - low) / (high - low || 1)) : 0;
        const bends = n >= 2 && x[r] < 0.995;
        if (!this.numbers) {
          m.rect(
            left + 4,
            y + 0.3,
            part * (this.nw - 10),
            Math.max(0.6, this.pitch - Math.min(0.8, this.pitch / 3)),
            bends ? 'vbar cbar' : 'vbar',
          );
          continue;
        }
        m.rect(left + 6, y + this.rowHeight - 3.5, part * (this.nw - 12), 2, bends ? 'vbar cbar' : 'vbar');
        const text = n === 2 && first ? 'first' : decimal(x[r]);
        m.text(
          left + this.nw - 6,
          y + this.rowHeight - 6,
          text,
          `t mono end ${bends && x[r] > 0 ? 'lab0 b' : 'lab1'}`,
        );
      }
    });
  }

  drawOutput({ o }) {
    const table = this.player.palette.diverging;
    let most = 0;
    for (const x of o.x) if (Math.abs(x) > most && Number.isFinite(x)) most = Math.abs(x);
    const colour = x =>
      table[Math.round(127.5 + 127.5 * Math.sign(x) * Math.pow(Math.min(1, Math.abs(x) / (most || 1)), 0.6))];
    this.paint(o, Math.min(o.rows, this.rows), this.ox, this.ow, colour);
  }

  paint({ x, cols }, rows, left, width, colour) {
    const image = new ImageData(cols, rows);
    const pixels = new Uint32Array(image.data.buffer);
    for (let n = 0; n < rows * cols; n++) pixels[n] = colour(x[n], Math.floor(n / cols));
    const canvas = (this.buffer ||= document.createElement('canvas'));
    canvas.width = cols;
    canvas.height = rows;
    canvas.getContext('2d').putImageData(image, 0, 0);
    this.g.imageSmoothingEnabled = false;
    this.g.drawImage(canvas, left, this.y0, width, rows * this.pitch);
  }
}

/** Least and largest finite value. */
function limits(x) {
  let [low, high] = [Infinity, -Infinity];
  for (const v of x) {
    if (!Number.isFinite(v)) continue;
    if (v < low) low = v;
    if (v > high) high = v;
  }
  return [low, high];
}

function rowMaximum({ x, rows, cols }) {
  const most = new Float64Array(rows).fill(-Infinity);
  for (let n = 0; n < rows * cols; n++)
    most[Math.floor(n / cols)] = Math.max(most[Math.floor(n / cols)], x[n]);
  return r => most[r];
}
