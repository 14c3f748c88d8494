// What every view stands in: the root element with its role, its theme, its width, one tooltip, and an orderly end.

import { h, Tip } from './dom.js';
import { luminance, Palette, parse } from './colour.js';
import { useFonts } from './place.js';

let serial = 0;

export class Shell {
  /**
   * `el` is given by the host; `label` names the view to a screen reader; `onLayout()` is called when the width or the
   * theme changed.
   */
  constructor(el, label, onLayout) {
    this.id = `kb${++serial}`;
    this.root = h('div', {
      class: 'kb',
      role: 'group',
      'aria-label': label,
      tabindex: 0,
      // without it JupyterLab takes keys for the notebook: `d d` would delete the cell
      'data-lm-suppress-shortcuts': 'true',
    });
    // and on whatever in it has the focus: JupyterLab asks that element first, and its ancestors only after its own rules
    this.root.addEventListener('focusin', event =>
      event.target.setAttribute('data-lm-suppress-shortcuts', 'true'),
    );
    el.append(this.root);
    this.tip = new Tip(this.root);
    this.abort = new AbortController();
    this.onLayout = onLayout;
    this.width = 0;
    this.ends = [];
    this.watch();
  }

  /** Listen to something outside the view until the view ends. */
  listen(target, event, hear) {
    target.addEventListener(event, hear, { signal: this.abort.signal });
  }

  watch() {
    const sizes = new ResizeObserver(() => {
      const width = Math.floor(this.root.clientWidth);
      if (width && width !== this.width) this.relayout();
    });
    sizes.observe(this.root);
    const themes = new MutationObserver(() => this.relayout());
    const names = ['data-theme', 'data-jp-theme-light', 'data-jp-theme-name', 'data-vscode-theme-kind'];
    for (const e of [document.documentElement, document.body]) {
      themes.observe(e, { attributes: true, attributeFilter: names });
    }
    this.listen(matchMedia('(prefers-color-scheme: dark)'), 'change', () => this.relayout());
    this.ends.push(
      () => sizes.disconnect(),
      () => themes.disconnect(),
    );
  }

  /** Once a frame at most, however many observers ask. */
  relayout() {
    if (this.asked) return;
    this.asked = requestAnimationFrame(() => {
      this.asked = 0;
      this.layout();
    });
  }

  layout() {
    const width = Math.floor(this.root.clientWidth);
    if (!width) return;
    this.width = width;
    this.root.classList.toggle('kb-dark', this.isDark());
    this.palette = new Palette(this.root);
    useFonts(this.root);
    this.onLayout();
  }

  /** Tell whoever counts (tests and benchmarks do) that the view has been drawn. */
  drawn() {
    this.root.dispatchEvent(new Event('kb-draw'));
  }

  /** What the host's own background says; without a host's theme, what the page or the reader's system prefers. */
  isDark() {
    const host = getComputedStyle(this.root).getPropertyValue('--jp-layout-color0').trim();
    if (host) return luminance(parse(host)) < 0.3;
    const asked = document.documentElement.dataset.theme;
    if (asked) return asked === 'dark';
    if (document.body.dataset.vscodeThemeKind) return document.body.dataset.vscodeThemeKind.includes('dark');
    return matchMedia('(prefers-color-scheme: dark)').matches;
  }

  close() {
    if (this.closed) return;
    this.closed = true;
    this.abort.abort();
    cancelAnimationFrame(this.asked);
    for (const end of this.ends) end();
    this.root.remove();
  }
}

/** A message instead of a view: an empty run, a trace of another version, an error. */
export function message(el, title, text) {
  const box = h('div', { class: 'kb kb-message', role: 'status' }, h('b', {}, title), h('p', {}, text));
  el.append(box);
  return () => box.remove();
}
