// kb.show_arenas(run): the scratch of every PE over time, and the one that is looked at in full.

import { view } from './mount.js';
import { Panel } from './frame.js';
import { Multiples } from './multiples.js';
import { Player } from './player.js';
import { Scratch } from './scratch.js';

class Arenas extends Player {
  makePanels() {
    const toggled = () => this.layout();
    const { head, pes } = this.run;
    this.shape = 'bare';
    const marks = [
      ['b-dma', 'loaded'],
      ['b-gemm', 'gemm result'],
      ['b-math', 'math result'],
      ['b-ipc', 'received'],
    ];
    const kept = head.scoped
      ? [
          ['s-keep', 'persistent'],
          ['s-back', 'given back'],
          ['s-save', 'save-point'],
        ]
      : [];
    const one = new Panel('arena wide', 'Scratch', new Scratch(this, { height: 392 }), {
      note: 'addresses ↑  operations →',
      toggled,
      legend: [...marks, ...kept, ['s-cur', 'cursor'], ['s-hw', 'high-water']],
    });
    if (pes.length < 2) return [one];
    const all = new Panel('all', 'All PEs', new Multiples(this), {
      note: `addresses ↑  simulated time →  one scale${pes.length > 64 ? '  (SIP · cube · PE)' : ''}`,
      toggled,
    });
    return [all, one];
  }
}

export default {
  render: view('Arenas', (context, run) => new Arenas(context, run, { label: `Arenas: ${run.head.title}` })),
};
