// A run as the views ask it: what is alive after a row, which tile a row is in, where another PE is at the same time.
// Indexes are built once; no question costs more for a longer run.

import { columns } from './columns.js';

const NEVER = 2 ** 31 - 1; // a row that no run reaches

export class Run {
  constructor(head, bytes) {
    Object.assign(this, columns(head, bytes));
    this.head = head;
    this.strings = head.strings;
    this.engines = head.engines;
    this.pes = head.pes;
    this.limit = head.scratch_bytes;
    this.first = head.window ? head.window.first : 0;
    this.number = new Map(this.pes.map((p, i) => [p.pe, i]));
    this.indexTiles();
    this.indexBlocks();
    this.indexValues();
    this.senders = new Map(); // row that received -> row that sent
    for (let n = 0; n < this.msgs.n; n++)
      if (this.msgs.recv[n] >= 0) this.senders.set(this.msgs.recv[n], this.msgs.send[n]);
  }

  // -- text ----------------------------------------------------------------------------------------------------

  text(i) {
    return this.strings[i] || '';
  }

  op(i) {
    return this.text(this.kinds.op[this.ops.kind[i]]);
  }

  name(i) {
    return this.text(this.ops.name[i]);
  }

  shape(i) {
    return this.text(this.kinds.shape[this.ops.kind[i]]);
  }

  /** Number of the engine; 4 is `scope`, what is no operation. */
  engine(i) {
    return this.kinds.engine[this.ops.kind[i]];
  }

  busy(i) {
    return this.kinds.busy[this.ops.kind[i]];
  }

  /** The name of what a row makes or moves; see `subjectOf`. */
  subject(i) {
    return this.text(this.subjectOf(i));
  }

  /**
   * Number of that name among the strings: of a load into a buffer, and of what is written in place, the buffer's; of a
   * store, a send or a copy that of what goes; of what nobody named the tensor's. 0 if there is none.
   */
  subjectOf(i) {
    const { ops, allocs, kinds } = this;
    const op = this.op(i);
    const name = ops.name[i];
    const [from, into] = [ops.a[i], ops.out[i]];
    const written = into >= 0 ? allocs.name[into] : 0;
    const tensor = kinds.tensor[ops.kind[i]];
    if (op === 'dma_read' || op === 'ipc_recv')
      return (this.made(i) < 0 && written) || name || written || tensor;
    if (name) return name;
    if (['dma_write', 'ipc_send', 'copy'].includes(op)) return (from >= 0 && allocs.name[from]) || tensor;
    return written || tensor;
  }

  /** What a row is called in a lane: what it makes or moves, else its operation. */
  label(i) {
    const op = this.op(i);
    if (op === 'copy') {
      const to = this.ops.out[i];
      const name = (to >= 0 && this.text(this.allocs.name[to])) || this.name(i);
      return name ? `copy ${name}` : op;
    }
    return this.subject(i) || op;
  }

  /** The block that a row made, or -1. */
  made(i) {
    const block = this.ops.out[i];
    return block >= 0 && this.allocs.born[block] === i ? block : -1;
  }

  // -- PEs and time --------------------------------------------------------------------------------------------

  /** Rows of a PE: [first, stop). */
  span(p) {
    return [this.pes[p].op0, this.pes[p].op1];
  }

  /** Number of a row among all of its PE, from 1, also where only a part of the run is here. */
  ordinal(p, i) {
    return i - this.pes[p].op0 + this.pes[p].before + 1;
  }

  /** Whether a row is the last that its PE does. */
  isLast(p, i) {
    return this.ordinal(p, i) >= this.pes[p].rows;
  }

  /** Which PE (index) a row belongs to. */
  peOf(row) {
    let low = 0,
      high = this.pes.length - 1;
    while (low < high) {
      const mid = (low + high + 1) >> 1;
      if (this.pes[mid].op0 <= row) low = mid;
      else high = mid - 1;
    }
    return low;
  }

  /** The last row of a PE after which its clock stands at or before a time; one before its first if there is none. */
  rowAt(p, ps) {
    const [first, stop] = this.span(p);
    return lastAtMost(this.ops.clock, first, stop, ps);
  }

  // -- tiles ---------------------------------------------------------------------------------------------------

  indexTiles() {
    const { tiles } = this;
    this.tilesOf = this.pes.map(() => []);
    this.places = this.pes.map(() => 0); // how many tiles a PE has, those that an error kept from running included
    for (let t = 0; t < tiles.n; t++) {
      if (tiles.op0[t] >= 0) this.tilesOf[tiles.pe[t]].push(t);
      this.places[tiles.pe[t]] = Math.max(this.places[tiles.pe[t]], tiles.place[t]);
    }
    this.stopsOf = this.tilesOf.map((list, p) => {
      const [first, stop] = this.span(p);
      const rows = list.map(t => tiles.stop[t]);
      if (stop > first) rows.push(first, stop - 1);
      return Int32Array.from(new Set(rows)).sort();
    });
    this.indexWeights();
  }

  /**
   * For each tile the row after which its weights can be shown: `exp` makes them, `p` is their rounded copy and may
   * come late; its last row if it makes none; never, if the run stopped in it.
   */
  indexWeights() {
    const { tiles, ops, kinds, head } = this;
    this.ready = Int32Array.from(tiles.weights);
    const exp = this.strings.indexOf('exp');
    for (let i = 0; exp > 0 && i < ops.n; i++) {
      if (ops.name[i] !== exp || kinds.op[ops.kind[i]] !== exp) continue;
      const t = ops.tile[i];
      if (tiles.weights[t] > i) this.ready[t] = i;
    }
    for (let t = 0; t < tiles.n; t++) if (this.ready[t] < 0) this.ready[t] = this.lastOf(t);
    this.indexStates();
  }

  /**
   * For each tile the row after which its state (m, l, O) stands where it stays: the last row that writes a block from
   * before the tile. Where none does, as soon as its weights are there.
   */
  indexStates() {
    const { tiles, ops, allocs } = this;
    this.settled = this.ready.slice();
    for (let i = 0; i < ops.n; i++) {
      const [t, k] = [ops.tile[i], ops.out[i]];
      if (k < 0 || i <= this.settled[t] || allocs.born[k] >= tiles.op0[t]) continue;
      const op = this.op(i);
      if (op !== 'dma_read' && op !== 'ipc_recv') this.settled[t] = i;
    }
  }

  /** For a tile whose weights no row makes: its last row. Of a window, what lies before it is done, what lies after not. */
  lastOf(t) {
    const { tiles, ops, head } = this;
    if (head.error && head.error.tile === t) return NEVER;
    if (tiles.op0[t] >= 0) return tiles.op1[t];
    const [first, stop] = this.span(tiles.pe[t]);
    return stop > first && tiles.start[t] >= ops.clock[stop - 1] ? NEVER : -1;
  }

  tile(i) {
    return this.ops.tile[i];
  }

  kind(t) {
    return this.text(this.tiles.kind[t]);
  }

  tileLabel(t) {
    return this.text(this.tiles.label[t]);
  }

  /** Whether a tile is one of the sweep's (or of a user's own scopes), not what lies between. */
  counted(t) {
    return this.tiles.place[t] > 0;
  }

  // -- scratch -------------------------------------------------------------------------------------------------

  indexBlocks() {
    const { allocs, scopes } = this;
    const lists = Array.from({ length: scopes.n }, () => []);
    for (let k = 0; k < allocs.n; k++) if (allocs.scope[k] >= 0) lists[scopes.owner[allocs.scope[k]]].push(k);
    this.blocksOf = lists.map(list => Int32Array.from(list));
    // blocks that lived already when a window begins: half a row before it, so that no row seems to have made them
    if (allocs.born.some(row => row < 0)) {
      allocs.born = Float64Array.from(allocs.born, (row, k) =>
        row < 0 ? this.parts.op0[this.partOfBlock(k)] - 0.5 : row,
      );
    }
  }

  partOfBlock(k) {
    return this.scopes.part[this.allocs.scope[k]];
  }

  peOfBlock(k) {
    return this.parts.pe[this.partOfBlock(k)];
  }

  /** Scopes open after a row, innermost first, the persistent arena last. */
  open(i) {
    const { scopes } = this;
    const out = [];
    let s = this.ops.scope[i];
    while (s >= 0) {
      if (scopes.close[s] > i) out.push(s);
      s = scopes.parent[s];
    }
    return out;
  }

  /** Blocks alive after a row, by address. */
  live(i) {
    const { allocs } = this;
    const out = [];
    for (const s of this.open(i).reverse()) {
      for (const k of this.blocksOf[s]) {
        if (allocs.born[k] > i) break;
        out.push(k);
      }
    }
    return out;
  }

  /** How many blocks were made up to a row (of all PEs before, too): allocs are in the order of `born`. */
  bornUpTo(i) {
    return lastAtMost(this.allocs.born, 0, this.allocs.n, i) + 1;
  }

  /**
   * The newest dead owner of each byte above the cursor. Looks back over a bounded number of blocks, so that a step
   * does not depend on the length of the run; older owners are hatched without a name.
   */
  givenBack(i, most = 40) {
    const { allocs } = this;
    const cursor = this.ops.cursor[i];
    const part = this.scopes.part[this.ops.scope[i]];
    const taken = [];
    const out = [];
    let k = this.bornUpTo(i) - 1;
    for (let looked = 0; k >= 0 && looked < 300 && out.length < most; k--, looked++) {
      if (this.partOfBlock(k) !== part) break;
      if (allocs.dead[k] > i || !allocs.size[k]) continue;
      const from = allocs.addr[k];
      const to = from + allocs.size[k];
      if (to <= cursor || taken.some(([a, b]) => from < b && to > a)) continue;
      taken.push([from, to]);
      out.push(k);
    }
    return out;
  }

  persistent(k) {
    return this.allocs.arena[k] === 0;
  }

  // -- values --------------------------------------------------------------------------------------------------

  indexValues() {
    this.valuesOf = new Map();
    const { values } = this;
    if (!values) return;
    for (let i = 0; i < values.n; i++) {
      const pool = values.half[i] ? this.pool2 : this.pool4;
      const [rows, cols, off] = [values.rows[i], values.cols[i], values.off[i]];
      const data = Object.values(pool).find(c => c.subarray);
      const t = values.tile[i];
      if (!this.valuesOf.has(t)) this.valuesOf.set(t, {});
      this.valuesOf.get(t)[this.text(values.what[i])] = {
        x: data.subarray(off, off + rows * cols),
        rows,
        cols,
      };
    }
  }

  /** Recorded values of a tile: {s, m, l, c, o, err, share}, each {x, rows, cols}, or undefined. */
  recorded(t) {
    return this.valuesOf.get(t);
  }
}

/** Index of the last entry of a rising column in [first, stop) that is at most x; first - 1 if there is none. */
export function lastAtMost(column, first, stop, x) {
  let low = first - 1,
    high = stop - 1;
  while (low < high) {
    const mid = (low + high + 1) >> 1;
    if (column[mid] <= x) low = mid;
    else high = mid - 1;
  }
  return low;
}

const cache = new WeakMap();

/** The run behind a trait, decoded once however many views show it. */
export function runOf(head, bytes) {
  const key = bytes.buffer || bytes;
  const known = cache.get(key);
  if (known && known.head === head) return known;
  const run = new Run(head, bytes);
  cache.set(key, run);
  return run;
}
