// What each source line has made by now, in the tile in which the reader stands: no line shows what an earlier tile made.

import { shape } from './numbers.js';
import { lastAtMost } from './run.js';

const SILENT = new Set(['dma_write', 'overflow', 'ipc_send']);

export class Made {
  constructor(run) {
    this.run = run;
    this.lines = new Map();
    this.index();
  }

  /** Rows of each place, in order; and the places of each line. */
  index() {
    const { sites, ops } = this.run;
    const count = new Int32Array(sites.n + 1);
    for (let i = 0; i < ops.n; i++) if (ops.site[i] >= 0) count[ops.site[i] + 1]++;
    for (let s = 0; s < sites.n; s++) count[s + 1] += count[s];
    const at = count.slice();
    const rows = new Int32Array(count[sites.n]);
    const longest = new Int32Array(sites.n);
    for (let i = 0; i < ops.n; i++) {
      const s = ops.site[i];
      if (s < 0) continue;
      rows[at[s]++] = i;
      longest[s] = Math.max(longest[s], this.shape(i).length);
    }
    for (let s = 0; s < sites.n; s++) {
      const own = rows.subarray(count[s], count[s + 1]);
      if (own.length && sites.source[s] >= 0) {
        const line = this.put(sites.source[s], sites.line[s]);
        line.places.push(own);
        line.longest = Math.max(line.longest, longest[s]);
      }
      // the kernel's line that calls a shared function can be clicked, too
      if (sites.ksource[s] < 0) continue;
      const caller = this.put(sites.ksource[s], sites.kline[s]);
      if (sites.source[s] !== sites.ksource[s]) caller.calls ||= this.run.text(sites.function[s]);
    }
  }

  put(source, line) {
    const key = `${source}:${line}`;
    if (!this.lines.has(key)) this.lines.set(key, { places: [], longest: 0, calls: '' });
    return this.lines.get(key);
  }

  line(source, line) {
    return this.lines.get(`${source}:${line}`);
  }

  /** The shape that a row makes; empty for what makes no tile. */
  shape(i) {
    const op = this.run.op(i);
    return op.startsWith('scope') || SILENT.has(op) ? '' : shape(this.run.shape(i));
  }

  /** Shape and title of a line at row `i`; of several rows of the tile the last up to `i`. With -1 nothing is reached. */
  at(source, line, i) {
    const { run } = this;
    const { places, calls } = this.line(source, line);
    if (!places.length) return { shape: '', title: calls ? `calls ${calls}` : '' };
    if (i < 0) return { shape: '', title: 'not running now' };
    const t = run.tile(i);
    let row = -1;
    for (const rows of places) {
      const at = lastAtMost(rows, 0, rows.length, i);
      if (at >= 0 && run.tile(rows[at]) === t) row = Math.max(row, rows[at]);
    }
    if (row < 0) return { shape: '', title: `not reached in ${run.tileLabel(t) || 'this part'} so far` };
    const made = this.shape(row);
    return { shape: made, title: [run.subject(row) || run.op(row), made].filter(Boolean).join(': ') };
  }
}
