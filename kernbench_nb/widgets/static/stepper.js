// kb.step(run) and kb.step(a, b).

import { view } from './mount.js';
import { runOf } from './run.js';
import { Pair } from './pair.js';
import { Player } from './player.js';

function make(context, run) {
  const { model } = context;
  const heads = model.get('heads');
  const other = model.get('trace_b');
  if (heads.length > 1 && other && other.byteLength) {
    return new Pair(context, [run, runOf(heads[1], other)], model.get('names') || []);
  }
  return new Player(context, run, { label: `Stepper: ${run.head.title}`, everything: standsAlone(model) });
}

/** In a page of its own every panel is open; in a notebook the first view is compact. */
function standsAlone(model) {
  const asked = model.get('view');
  if (asked) return asked === 'page';
  const { jpThemeLight, vscodeThemeKind } = document.body.dataset;
  return jpThemeLight === undefined && vscodeThemeKind === undefined;
}

export default { render: view('Stepper', make) };
