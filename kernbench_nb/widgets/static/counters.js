// The eight numbers above the panels. Each is one look-up: sums stand in the trace.

import { h, say } from './dom.js';
import { bytes, group, percent, short, time } from './numbers.js';

const CELLS = [
  ['time', 'time'],
  ['hbm', 'HBM bytes'],
  ['flops', 'FLOPs'],
  ['intensity', 'intensity'],
  ['peak', 'peak scratch'],
  ['copies', 'copies'],
  ['rate', 'HBM rate'],
  ['need', 'without scopes'],
];

export class Counters {
  constructor() {
    this.cells = {};
    this.el = h('dl', { class: 'counters' });
    for (const [key, label] of CELLS) {
      const value = h('b'),
        under = h('span');
      this.cells[key] = [value, under];
      this.el.append(h('div', { class: `cell c-${key}` }, h('dt', {}, label), h('dd', {}, value, under)));
    }
    this.meter = h('i');
    this.meterBox = h('i', { class: 'meter', 'aria-hidden': 'true' }, this.meter);
    this.el.lastChild.append(this.meterBox);
  }

  draw({ run, p, i }) {
    const { ops, head } = run;
    const stop = run.span(p)[1];
    const end = stop - 1;
    const set = (key, value, under) => {
      say(this.cells[key][0], value);
      say(this.cells[key][1], under);
    };
    const [now, hbm, flops, peak] = [ops.clock[i], ops.hbm[i], ops.flops[i], ops.peak[i]];
    const limit = run.limit;
    set('time', time(now), `of ${time(run.pes[p].end)}`);
    set('hbm', bytes(hbm), `of ${bytes(ops.hbm[end])}`);
    set('flops', short(flops), `of ${short(ops.flops[end])}`);
    set('intensity', hbm ? (flops / hbm).toFixed(1) : '–', 'FLOP per byte');
    set('peak', bytes(peak), `${percent(peak / limit)} of ${bytes(limit)}`);
    set('copies', group(ops.copies[i]), ops.copies[i] ? `of ${group(ops.copies[end])}` : 'none yet');
    set(
      'rate',
      now ? `${group((hbm / now) * 1000)} GB/s` : '–',
      `of ${group(head.machine.hbm_gb_per_s)} peak`,
    );
    const need = ops.need[i];
    set('need', bytes(need), this.without(run, p, need, ops.need[end]));
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
