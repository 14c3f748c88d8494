// How rows of a run map to x, for the arena over time.

import { lastAtMost } from './run.js';

// Rows a pixel: a timeline of more than WHOLE shows a window of WINDOW around the step, the whole run as a strip below.
const WHOLE = 2.4;
const WINDOW = 1.4;

/** Rows side by side, all of equal width: the whole run of a PE, or the window that holds the step. */
export class RowAxis {
  constructor(run, p, x0, x1) {
    this.run = run;
    [this.first, this.stop] = run.span(p);
    [this.x0, this.x1] = [x0, x1];
    const width = Math.max(100, x1 - x0);
    this.windowed = this.stop - this.first > WHOLE * width;
    this.rows = Math.round(WINDOW * width);
    this.from = this.first;
    this.to = this.windowed ? this.first + this.rows : this.stop;
  }

  /** Move the window so that a row lies well inside it; says whether it moved. */
  hold(i) {
    if (!this.windowed) return false;
    const margin = this.rows * 0.12;
    if (i >= this.from + margin && i <= this.to - margin) return false;
    const ahead =
      i > this.to - margin ? 0.25 : i < this.from + margin && i >= this.from - this.rows ? 0.75 : 0.5;
    const from = Math.max(this.first, Math.min(this.stop - this.rows, Math.round(i - this.rows * ahead)));
    if (from === this.from) return false;
    this.from = from;
    this.to = from + this.rows;
    return true;
  }

  x(row) {
    return this.x0 + ((row - this.from) / Math.max(1, this.to - this.from)) * (this.x1 - this.x0);
  }

  row(x) {
    const row = Math.floor(this.from + ((x - this.x0) / (this.x1 - this.x0)) * (this.to - this.from));
    return Math.max(this.from, Math.min(this.to - 1, row));
  }
}

/**
 * Tiles side by side, all of equal width, so that two runs of the same sweep show a tile at the same x. What comes
 * before the first and after the last tile has half a tile's width; what lies between two belongs to the second.
 */
export class TileAxis {
  constructor(run, p, x0, x1, count) {
    this.run = run;
    [this.first, this.stop] = run.span(p);
    [this.x0, this.x1] = [x0, x1];
    [this.from, this.to] = [this.first, this.stop];
    this.windowed = false;
    const tiles = run.tilesOf[p].filter(t => run.counted(t));
    // edges[n] is the row at which slot n begins: set-up, tile 1, tile 2, ..., the rest
    const ends = tiles.map(t => run.tiles.op1[t] + 1);
    const begin = tiles.length ? run.tiles.op0[tiles[0]] : this.stop;
    this.edges = Float64Array.from([this.first, begin, ...ends]);
    this.slots = count + 1;
    this.done = tiles.length;
  }

  hold() {
    return false;
  }

  /** Place on the axis in tiles; -0.5 is where the set-up begins. */
  slot(row) {
    const at = Math.max(0, lastAtMost(this.edges, 0, this.edges.length, row));
    const from = this.edges[at];
    const to = at + 1 < this.edges.length ? this.edges[at + 1] : this.stop;
    const part = to > from ? Math.min(1, (row - from) / (to - from)) : 0;
    if (at === 0) return -0.5 + 0.5 * part;
    return at - 1 + part * (at > this.done ? 0.5 : 1);
  }

  x(row) {
    return this.x0 + ((this.slot(row) + 0.5) / this.slots) * (this.x1 - this.x0);
  }

  row(x) {
    let low = this.first,
      high = this.stop - 1;
    while (low < high) {
      const mid = (low + high + 1) >> 1;
      if (this.x(mid) <= x) low = mid;
      else high = mid - 1;
    }
    return low;
  }
}
