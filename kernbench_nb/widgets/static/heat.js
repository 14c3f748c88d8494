// The weights under the score map, as pixels: exp(s - m) / l, on a logarithmic scale of four decades. Scores are
// gathered once; a new (m, l) of a row only shifts its scale, so that a step costs one subtraction a pixel.

const DECADES = 4 * Math.LN10;

/** Ramp entry of a weight given as its natural logarithm. */
export const heatIndex = logWeight => Math.max(0, Math.min(255, Math.round(255 * (1 + logWeight / DECADES))));

const MOST_SCORES = 1.6e7; // floats kept for one map; beyond that, heads are not told apart

export class Heat {
  /** `columns` x `rows` pixels for `S_kv` keys and either state rows (`byRow`) or query tokens. */
  constructor(run, { columns, rows, byRow }) {
    this.run = run;
    Object.assign(this, { columns, rows, byRow });
    const { S_q, S_kv, heads } = run.head.score;
    [this.S_q, this.S_kv] = [S_q, S_kv];
    this.heads = heads * S_q * columns > MOST_SCORES ? 1 : heads;
    this.head = -1; // of several heads in one picture the heaviest weight, or that of this one
    this.image = new ImageData(columns, rows);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.scores = new Map();
    this.canvas = document.createElement('canvas');
    this.canvas.width = columns;
    this.canvas.height = rows;
    this.g = this.canvas.getContext('2d');
  }

  column(k) {
    return this.columns === this.S_kv ? k : Math.floor((k * this.columns) / this.S_kv);
  }

  /** Pixel rows of a band of query tokens. */
  bandRows(band) {
    if (this.byRow) return [0, this.rows];
    if (this.rows === this.S_q) return [band.q0, band.q1];
    const a = Math.floor((band.q0 * this.rows) / this.S_q);
    return [a, Math.max(a + 1, Math.floor((band.q1 * this.rows) / this.S_q))];
  }

  /** Scores of a band: of each head and token the largest in each column, -inf where there is none. */
  bandScores(band) {
    const known = this.scores.get(band.key);
    if (known) return known;
    const { run } = this;
    const { tiles } = run;
    const from = this.column(band.k0);
    const width = Math.max(1, Math.ceil((band.k1 * this.columns) / this.S_kv) - from);
    const tokens = band.q1 - band.q0;
    const x = new Float32Array(this.heads * tokens * width).fill(-Infinity);
    let any = false;
    for (const t of band.tiles) {
      const s = run.recorded(t)?.s;
      if (!s) continue;
      any = true;
      const rows = Math.min(s.rows, this.heads * tokens);
      for (let c = 0; c < s.cols; c++) {
        const at = this.column(tiles.k0[t] + c) - from;
        for (let r = 0; r < rows; r++) {
          const v = s.x[r * s.cols + c];
          if (v > x[r * width + at]) x[r * width + at] = v;
        }
      }
    }
    const out = { x, from, width, tokens, any };
    this.scores.set(band.key, out);
    return out;
  }

  /**
   * Paint a band: its first `done` tiles, with weights divided by the state of tile `norm`; the rest stays empty.
   * `table` is the ramp, `plain` the colour of a folded tile without recorded scores.
   */
  paint(band, done, norm, table, plain) {
    const { run, pixels, columns } = this;
    const { tiles } = run;
    const [r0, r1] = this.bandRows(band);
    const [c0, c1] = [this.column(band.k0), Math.ceil((band.k1 * columns) / this.S_kv)];
    for (let r = r0; r < r1; r++) pixels.fill(0, r * columns + c0, r * columns + c1);
    const state = norm >= 0 ? run.recorded(norm) : null;
    const scores = this.bandScores(band);
    const shift = scores.any && state ? shiftOf(state) : null;
    for (let n = 0; n < done; n++) {
      const t = band.tiles[n];
      const [a, b] = [
        this.column(tiles.k0[t]),
        Math.max(this.column(tiles.k0[t]) + 1, this.column(tiles.k1[t])),
      ];
      if (shift && run.recorded(t)?.s) this.paintWeights(scores, shift, band, [r0, r1], [a, b], table);
      else this.paintPlain(band, [r0, r1], [a, b], plain);
    }
  }

  paintWeights({ x, from, width, tokens }, shift, band, [r0, r1], [a, b], table) {
    const { pixels, columns, byRow } = this;
    const [first, last] = this.head < 0 ? [0, this.heads] : [this.head, this.head + 1];
    for (let r = r0; r < r1; r++) {
      const token = byRow ? 0 : Math.min(tokens - 1, Math.floor(((r - r0) * tokens) / (r1 - r0)));
      for (let c = a; c < b; c++) {
        let best = -Infinity;
        if (byRow) best = x[r * width + c - from] - shift[r];
        else {
          for (let h = first; h < last; h++) {
            const row = h * tokens + token;
            const v = x[row * width + c - from] - shift[row];
            if (v > best) best = v;
          }
        }
        pixels[r * columns + c] = best === -Infinity || Number.isNaN(best) ? 0 : table[heatIndex(best)];
      }
    }
  }

  paintPlain(band, [r0, r1], [a, b], plain) {
    const { pixels, columns, S_q, S_kv } = this;
    const causal = this.run.head.params.causal === true && !this.byRow;
    for (let r = r0; r < r1; r++) {
      const token = ((r + 0.5) * S_q) / this.rows;
      const last = causal ? Math.ceil(((token + S_kv - S_q) * columns) / S_kv) : b;
      pixels.fill(plain, r * columns + a, r * columns + Math.max(a, Math.min(b, last)));
    }
  }

  /** Put the pixels on a canvas, scaled without smoothing. */
  blit(g, from, height, x, y, w, h) {
    g.imageSmoothingEnabled = false;
    g.drawImage(this.canvas, 0, from, this.columns, height, x, y, w, h);
  }

  flush() {
    this.g.putImageData(this.image, 0, 0);
  }

  /** The weight of one row of a tile's state at one key, by the state that its band has now; null if not known. */
  weightOf(band, done, norm, tile, row, key) {
    const { run } = this;
    const state = norm >= 0 ? run.recorded(norm) : null;
    const shift = state && shiftOf(state);
    const s = run.recorded(tile)?.s;
    if (!shift || !s || band.tiles.indexOf(tile) >= done) return null;
    return Math.exp(s.x[row * s.cols + key - run.tiles.k0[tile]] - shift[row]);
  }

  /** Weights of one state row or token over a range of keys, by the state that a band has now: [[key, weight]]. */
  weights(band, done, norm, token, k0, k1) {
    const { run } = this;
    const state = norm >= 0 ? run.recorded(norm) : null;
    const shift = state && shiftOf(state);
    if (!shift) return [];
    const tokens = band.q1 - band.q0;
    const out = [];
    for (let n = 0; n < done; n++) {
      const t = band.tiles[n];
      const s = run.recorded(t)?.s;
      const from = Math.max(k0, run.tiles.k0[t]);
      const to = Math.min(k1, run.tiles.k1[t]);
      if (!s) continue;
      for (let k = from; k < to; k++) {
        let best = 0;
        for (let r = 0; r < s.rows; r++) {
          if (token >= 0 && r % tokens !== token) continue;
          if (this.head >= 0 && Math.floor(r / tokens) !== this.head) continue;
          best = Math.max(best, Math.exp(s.x[r * s.cols + k - run.tiles.k0[t]] - shift[r]));
        }
        out.push([k, best]);
      }
    }
    return out;
  }
}

/** What a row's scores are divided by, as a logarithm: m + ln l of the state, else of the tile's own scores. */
function shiftOf(values) {
  if (!values.shift) {
    if (values.m && values.l)
      values.shift = Float64Array.from(values.m.x, (m, r) =>
        values.l.x[r] > 0 ? m + Math.log(values.l.x[r]) : Infinity,
      );
    else if (values.s) values.shift = rowSums(values.s);
  }
  return values.shift || null;
}

function rowSums({ x, rows, cols }) {
  return Float64Array.from({ length: rows }, (_, r) => {
    let most = -Infinity,
      sum = 0;
    for (let c = 0; c < cols; c++) most = Math.max(most, x[r * cols + c]);
    for (let c = 0; c < cols; c++) sum += Math.exp(x[r * cols + c] - most);
    return most + Math.log(sum);
  });
}
