// The rows of a log: filtered, sorted and grouped. A hundred thousand rows take some milliseconds, since texts are
// compared once each and not once a row.

const MOST_WORDS = 8; // of a label: "head 3 block 2, tile 4"

export class Rows {
  constructor(run) {
    this.run = run;
    const { ops } = run;
    const rows = [];
    for (let i = 0; i < ops.n; i++) if (run.engine(i) < 4) rows.push(i);
    this.all = Int32Array.from(rows);
    this.pe = new Uint16Array(ops.n);
    run.pes.forEach((pe, p) => this.pe.fill(p, pe.op0, pe.op1));
  }

  value(row, column) {
    const { run } = this;
    const { ops, kinds } = run;
    const kind = ops.kind[row];
    switch (column) {
      case 'start':
        return ops.start[row];
      case 'duration':
        return ops.end[row] - ops.start[row];
      case 'busy':
        return kinds.busy[kind];
      case 'bytes':
        return kinds.nbytes[kind];
      case 'flops':
        return kinds.flops[kind];
      case 'pe':
        return this.pe[row];
      case 'engine':
        return kinds.engine[kind];
      case 'line':
        return ops.site[row] >= 0 ? run.sites.line[ops.site[row]] : -1;
      case 'op':
        return run.text(kinds.op[kind]);
      case 'name':
        return run.subject(row);
      case 'shape':
        return run.text(kinds.shape[kind]);
      case 'tile':
        return run.tileLabel(ops.tile[row]);
      default:
        throw new Error(`no column ${column}`);
    }
  }

  /** Rows that hold every word of a text somewhere: in op, engine, name, shape, operands, tensor, tile or PE. */
  filter(text, engine = -1, pe = -1) {
    const { run } = this;
    const words = text.toLowerCase().replaceAll('x', '×').split(/\s+/).filter(Boolean);
    const tests = words.length ? [this.phrase(words)] : [];
    const out = [];
    for (const row of this.all) {
      if (engine >= 0 && run.engine(row) !== engine) continue;
      if (pe >= 0 && this.pe[row] !== pe) continue;
      if (tests.every(test => test(row))) out.push(row);
    }
    return Int32Array.from(out);
  }

  /**
   * A test for all words. Several that are the label of a PE or a tile as it is written ("PE 3", "tile 2") mean that one,
   * also beside other words; a number that no label has finds nothing, and not every row with such a digit.
   */
  phrase(words) {
    const { run } = this;
    const { kinds, ops, tiles } = run;
    const tidy = s => s.toLowerCase().replaceAll('x', '×');
    const strings = run.strings.map(tidy);
    const engines = run.engines.map(tidy);
    const labels = run.pes.map(pe => tidy(pe.label));
    const named = Array.from(new Set(tiles.label), s => [s, strings[s]]);
    const columns = row => [
      kinds.op[ops.kind[row]],
      ops.name[row],
      run.subjectOf(row),
      kinds.shape[ops.kind[row]],
      kinds.text[ops.kind[row]],
      kinds.tensor[ops.kind[row]],
    ];
    const exact = s => new RegExp(`(^|[^\\w])${s.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}($|[^\\w])`);
    const label = text => {
      const like = exact(text);
      const pes = labels.map(s => like.test(s));
      if (pes.includes(true)) return row => pes[this.pe[row]];
      const found = new Set(named.filter(([, s]) => like.test(s)).map(([s]) => s));
      return found.size ? row => found.has(tiles.label[ops.tile[row]]) : null;
    };
    const single = word => {
      const hit = Uint8Array.from(strings, s => (s.includes(word) ? 1 : 0));
      return row =>
        columns(row).some(s => hit[s]) ||
        hit[tiles.label[ops.tile[row]]] ||
        engines[run.engine(row)].includes(word) ||
        labels[this.pe[row]].includes(word);
    };
    const tests = [];
    for (let n = 0; n < words.length; ) {
      let [test, used] = [null, Math.min(words.length - n, MOST_WORDS)];
      while (!test && used > 1) if (!(test = label(words.slice(n, n + used).join(' ')))) used--;
      const pair = words.slice(n, n + 2).join(' ');
      if (!test && /^(tile|pe|cube|merge|block) \d/.test(pair)) [test, used] = [() => false, 2];
      tests.push(test || single(words[n]));
      n += used;
    }
    return row => tests.every(test => test(row));
  }

  /** Rows by a column; equal ones stay in order of the log. */
  sort(rows, column, down) {
    const values = Array.from(rows, row => this.value(row, column));
    const order = Array.from(rows, (_, n) => n);
    const sign = down ? -1 : 1;
    const compare =
      typeof values[0] === 'string'
        ? (a, b) => sign * values[a].localeCompare(values[b], undefined, { numeric: true }) || a - b
        : (a, b) => sign * (values[a] - values[b]) || a - b;
    return Int32Array.from(order.sort(compare), n => rows[n]);
  }

  sum(rows, column) {
    let sum = 0;
    for (const row of rows) sum += this.value(row, column);
    return sum;
  }

  /** [{name, engine, rows, busy, first}], the longest engine time first. */
  group(rows, by) {
    const { run } = this;
    const { ops, kinds } = run;
    const keys = {
      op: row => kinds.op[ops.kind[row]],
      engine: row => kinds.engine[ops.kind[row]],
      pe: row => this.pe[row],
      tile: row => run.tiles.label[ops.tile[row]],
    }[by];
    const names = {
      op: k => run.text(k),
      engine: k => run.engines[k],
      pe: k => run.pes[k].label,
      tile: k => run.text(k) || 'no name',
    }[by];
    const groups = new Map();
    for (const row of rows) {
      const key = keys(row);
      let g = groups.get(key);
      if (!g)
        groups.set(key, (g = { name: names(key), rows: [], busy: 0, first: row, engines: [0, 0, 0, 0] }));
      const busy = kinds.busy[ops.kind[row]];
      g.rows.push(row);
      g.busy += busy;
      g.engines[run.engine(row)] += busy;
    }
    const out = [...groups.values()];
    for (const g of out) g.engine = run.engines[g.engines.indexOf(Math.max(...g.engines))];
    return out.sort((a, b) => b.busy - a.busy || a.first - b.first);
  }
}
