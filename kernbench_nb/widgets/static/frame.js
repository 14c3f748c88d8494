// Panels: a rule and a bold name open each, its legend stands on the same line, and it can be folded away. A folded
// panel still says its most important number.

import { h, say } from './dom.js';

export class Panel {
  /**
   * `view` has {el, layout(width), draw(state)} and may have heading(state), said beside the title, and
   * summary(state), said when the panel is folded.
   */
  constructor(area, title, view, { note = '', legend: items = [], open = true, toggled = () => {} } = {}) {
    this.view = view;
    this.open = open;
    this.button = h(
      'button',
      { type: 'button', class: 'fold', 'aria-expanded': String(open) },
      h('i', { class: 'chev', 'aria-hidden': 'true' }),
      h('span', { class: 'name' }, title),
    );
    this.note = h('span', { class: 'note' }, note);
    this.brief = h('span', { class: 'brief' });
    this.body = h('div', { class: 'body' }, view.el);
    this.error = h('p', { class: 'draw-error', role: 'status', hidden: true });
    this.legend = legend(items);
    this.el = h(
      'section',
      { class: `panel p-${area}`, 'aria-label': title },
      h('header', {}, h('h3', {}, this.button), this.note, this.brief, this.legend),
      this.error,
      this.body,
    );
    this.button.addEventListener('click', () => {
      this.fold(!this.open);
      toggled();
    });
    this.fold(open);
  }

  fold(open) {
    this.open = open;
    this.button.setAttribute('aria-expanded', String(open));
    this.el.classList.toggle('folded', !open);
    this.body.hidden = !open;
  }

  get width() {
    return Math.floor(this.body.clientWidth);
  }

  /** Draw; what goes wrong is shown in the panel, and the next draw that works takes it away. */
  attempt(draw) {
    try {
      draw();
      if (!this.error.hidden) this.error.hidden = true;
    } catch (problem) {
      say(this.error, `This panel could not be drawn: ${problem.message}`);
      this.error.hidden = false;
      console.warn(problem);
    }
  }
}

/** [[class of the swatch, text]] */
export function legend(items) {
  return h(
    'span',
    { class: 'legend' },
    items.map(([cls, text]) => h('span', {}, h('i', { class: `sw ${cls}` }), text)),
  );
}
