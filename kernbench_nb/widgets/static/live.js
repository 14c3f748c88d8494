// What a screen reader hears: the caption, at once when the reader steps, every two seconds at most while it plays.

import { h, say } from './dom.js';

const EVERY = 2000; // ms

export class Live {
  constructor(root) {
    this.el = h('div', { class: 'kb-live', 'aria-live': 'polite' });
    root.append(this.el);
    this.last = -EVERY;
    this.timer = null;
  }

  say(text, playing) {
    clearTimeout(this.timer);
    const wait = playing ? this.last + EVERY - performance.now() : 0;
    if (wait <= 0) return this.put(text);
    this.timer = setTimeout(() => this.put(text), wait);
  }

  put(text) {
    this.last = performance.now();
    say(this.el, text);
  }

  close() {
    clearTimeout(this.timer);
  }
}
