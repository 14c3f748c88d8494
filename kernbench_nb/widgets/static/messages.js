// Messages between PEs: which are under way at a moment, and what they carry.

import { lastAtMost } from './run.js';

export class Messages {
  constructor(run) {
    this.run = run;
    const { msgs, ops } = run;
    const rows = [];
    for (let n = 0; n < msgs.n; n++) {
      const [send, recv] = [msgs.send[n], msgs.recv[n]];
      if (send < 0) continue;
      const from = run.peOf(send);
      const to = recv >= 0 ? run.peOf(recv) : run.kinds.peer[ops.kind[send]];
      rows.push({
        send,
        recv,
        from,
        to,
        start: ops.start[send],
        end: recv >= 0 ? ops.end[recv] : Infinity,
        nbytes: msgs.nbytes[n],
      });
    }
    this.list = rows.sort((a, b) => a.start - b.start);
    this.starts = Float64Array.from(this.list, m => m.start);
    this.longest = this.list.reduce((most, m) => Math.max(most, m.recv >= 0 ? m.end - m.start : 0), 0);
  }

  /** Messages that have left and are not there yet, at a time in ps; a bounded number. */
  underWay(ps, most = 64) {
    const out = [];
    for (let n = lastAtMost(this.starts, 0, this.starts.length, ps); n >= 0 && out.length < most; n--) {
      const m = this.list[n];
      if (m.start < ps - this.longest) break;
      if (m.recv >= 0 && m.end > ps) out.push(m);
    }
    return out;
  }

  /** The tile that a message brings keys for: the next one that its receiver folds; -1 for a state. */
  tileOf(m) {
    if (m.tile !== undefined) return m.tile;
    const { run } = this;
    m.tile = -1;
    if (m.recv >= 0 && run.kind(run.tile(m.recv)) !== 'merge') {
      const next = run.tilesOf[m.to].find(t => run.tiles.op0[t] > m.recv && run.counted(t));
      if (next !== undefined) m.tile = next;
    }
    return m.tile;
  }
}
