// The eight numbers above the panels. Each is one look-up: sums stand in the trace.

import { h, say } from './dom.js';
import { bytes, group, percent, short, time } from './numbers.js';

// key, label, what it is: said where the pointer rests
const CELLS = [
  ['time', 'time', 'Simulated time of this PE, of the time at which it ends.'],
  ['hbm', 'HBM bytes', 'Bytes that this PE has read from and written to HBM.'],
  [
    'flops',
    'FLOPs of products',
    'Two for each multiply and add of a matrix product, 2·m·n·k. Exponentials, sums and maxima are not counted.',
  ],
  ['intensity', 'intensity', 'FLOPs of products for each byte that crossed HBM.'],
  ['peak', 'peak scratch', 'The most bytes of scratch that were in use at once so far.'],
  [
    'copies',
    'copies',
    'Copy operations so far: each carries a result out of a scope before the bytes of the scope are given back.',
  ],
  ['rate', 'HBM rate', 'HBM bytes so far, divided by the time so far.'],
  [
    'need',
    'without scopes',
    'Bytes of scratch that the same kernel would have in use by now if no scope gave anything back.',
  ],
];

export class Counters {
  constructor() {
    this.cells = {};
    this.el = h('dl', { class: 'counters' });
    for (const [key, label, title] of CELLS) {
      const value = h('b'),
        under = h('span');
      this.cells[key] = [value, under];
      this.el.append(
        h('div', { class: `cell c-${key}`, title }, h('dt', {}, label), h('dd', {}, value, under)),
      );
    }
    this.meter = h('i');
    this.meterBox = h('i', { class: 'meter', 'aria-hidden': 'true' }, this.meter);
    this.el.lastChild.append(this.meterBox);
  }

  draw({ run, p, i }) {
    const { ops, head } = run;
    const all = run.pes[p].total; // of the whole run, also where only a part of it is here
    const set = (key, value, under) => {
      say(this.cells[key][0], value);
      say(this.cells[key][1], under);
    };
    const [now, hbm, flops, peak] = [ops.clock[i], ops.hbm[i], ops.flops[i], ops.peak[i]];
    const limit = run.limit;
    set('time', time(now), `of ${time(run.pes[p].end)}`);
    set('hbm', bytes(hbm), `of ${bytes(all.hbm)}`);
    set('flops', short(flops), `of ${short(all.flops)}`);
    set('intensity', hbm ? (flops / hbm).toFixed(1) : '–', 'FLOP per byte');
    set('peak', bytes(peak), `${percent(peak / limit)} of ${bytes(limit)}`);
    set('copies', group(ops.copies[i]), all.copies ? `of ${group(all.copies)}` : 'none in this kernel');
    set(
      'rate',
      now ? `${group((hbm / now) * 1000)} GB/s` : '–',
      `of ${group(head.machine.hbm_gb_per_s)} peak`,
    );
    const need = ops.need[i];
    set('need', bytes(need), this.without(run, p, need, all.need));
    this.meter.style.width = `${Math.min(100, (need / limit) * 100)}%`;
    this.meterBox.classList.toggle('over', need > limit);
  }

  /** What is known of the same kernel without scopes: measured by a run, or else what this one would hold in all. */
  without(run, p, need, all) {
    const { unscoped, scoped } = run.head;
    if (!scoped) return 'nothing is given back';
    if (need > run.limit) return `× ${(need / run.limit).toFixed(1)} the budget`;
    if (unscoped && unscoped.overflow && unscoped.overflow.pe === p && unscoped.overflow.tile >= 0) {
      return `stops at ${run.tileLabel(unscoped.overflow.tile)}`;
    }
    return all > run.limit ? `${bytes(all)} at the end` : `fits: ${bytes(all)} in all`;
  }
}
