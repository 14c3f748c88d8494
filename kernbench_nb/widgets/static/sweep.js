// What a sweep has done at a moment: which tiles are folded, and by which state (m, l) the weights of a tile's keys are
// to be divided now. No drawing here.

import { lastAtMost } from './run.js';

export class Sweep {
  constructor(run) {
    this.run = run;
    const { tiles } = run;
    this.bands = [];
    this.skipped = [];
    this.never = [];
    const byKey = new Map();
    for (let t = 0; t < tiles.n; t++) {
      if (tiles.k0[t] < 0 || tiles.q0[t] < 0) continue;
      const kind = run.kind(t);
      if (kind === 'skip') this.skipped.push(t);
      else if (kind === 'never') this.never.push(t);
      else if (kind === 'tile' || kind === 'scope') {
        const key = `${tiles.layer[t]}|${tiles.pe[t]}|${tiles.q0[t]}|${tiles.q1[t]}`;
        let band = byKey.get(key);
        if (!band) {
          band = {
            key,
            layer: tiles.layer[t],
            pe: tiles.pe[t],
            q0: tiles.q0[t],
            q1: tiles.q1[t],
            tiles: [],
            k0: Infinity,
            k1: 0,
          };
          byKey.set(key, band);
          this.bands.push(band);
        }
        band.tiles.push(t);
        band.k0 = Math.min(band.k0, tiles.k0[t]);
        band.k1 = Math.max(band.k1, tiles.k1[t]);
      }
    }
    for (const band of this.bands) {
      band.tiles.sort((a, b) => tiles.start[a] - tiles.start[b] || tiles.op0[a] - tiles.op0[b]);
      band.ready = Int32Array.from(band.tiles, t => this.ready(t));
      band.byKeys = band.tiles
        .map((t, n) => n)
        .sort((a, b) => tiles.k0[band.tiles[a]] - tiles.k0[band.tiles[b]]);
    }
    this.indexMerges();
  }

  ready(t) {
    return this.run.ready[t];
  }

  /** States: of each PE, the tiles and merges after which (m, l) is known, by band; and who merged whom. */
  indexMerges() {
    const { run } = this;
    const { tiles } = run;
    this.merged = new Map(); // PE -> {by: PE, tile}
    this.merges = run.pes.map(() => []);
    for (let t = 0; t < tiles.n; t++) {
      if (run.kind(t) !== 'merge') continue;
      this.merges[tiles.pe[t]].push(t);
      if (tiles.peer[t] >= 0) this.merged.set(tiles.peer[t], { by: tiles.pe[t], tile: t });
    }
  }

  /** Rows of all PEs at the time of row i of PE p. */
  rowsAt(p, i) {
    const { run } = this;
    const now = run.ops.clock[i];
    return run.pes.map((_, q) => (q === p ? i : run.rowAt(q, now)));
  }

  /** The PE that holds the state of a PE's keys by now: itself, or who took it in. */
  owner(q, rows) {
    let at = q;
    for (let n = 0; n < rows.length; n++) {
      const m = this.merged.get(at);
      if (!m || this.ready(m.tile) > rows[m.by]) break;
      at = m.by;
    }
    return at;
  }

  /** How many tiles of a band are folded, and the tile or merge whose (m, l) its weights are divided by (-1: none). */
  state(band, rows) {
    const done = lastAtMost(band.ready, 0, band.ready.length, rows[band.pe]) + 1;
    let norm = done ? band.tiles[done - 1] : -1;
    const owner = this.owner(band.pe, rows);
    for (const t of this.merges[owner]) if (done && this.ready(t) <= rows[owner]) norm = t;
    return { done, norm, owner };
  }
}
