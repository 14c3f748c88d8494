// From a model to a view of one run: what anywidget calls, with a message where there is nothing to show.

import { message } from './shell.js';
import { runOf } from './run.js';

/** A render function; `make(context, run)` gives an object with close(). */
export function view(what, make) {
  return context => {
    const { model, el } = context;
    const heads = model.get('heads') || [];
    const trace = model.get('trace');
    if (!heads.length || !trace || !trace.byteLength)
      return message(el, `${what}: nothing to show`, 'There is no run in this view.');
    try {
      const run = runOf(heads[0], trace);
      if (!run.ops.n) {
        const { title, error } = run.head;
        const nothing = 'The kernel did nothing that takes time or scratch, so there is nothing to show.';
        return message(
          el,
          title || 'Empty run',
          error ? `It stopped before it did anything: ${error.type}: ${error.message}` : nothing,
        );
      }
      const made = make(context, run);
      return () => made.close();
    } catch (problem) {
      console.warn(problem);
      return message(el, 'This run cannot be shown', problem.message);
    }
  };
}
