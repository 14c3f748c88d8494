// The model behind a view. Every view of a model writes what it changes and hears what the others change; the kernel
// hears at most ten times a second, and hears the last value always.

const EVERY = 100; // ms

export class Link {
  constructor(model) {
    this.model = model;
    this.heard = [];
    this.timer = null;
    this.last = 0;
  }

  get(name, otherwise) {
    const value = this.model.get(name);
    return value === undefined || value === null ? otherwise : value;
  }

  /** Write a value that differs; other views hear it at once. */
  put(name, value) {
    if (same(this.model.get(name), value)) return;
    this.model.set(name, value);
    if (this.timer !== null) return;
    const wait = Math.max(0, this.last + EVERY - performance.now());
    this.timer = setTimeout(() => this.flush(), wait);
  }

  flush() {
    if (this.timer === null) return;
    clearTimeout(this.timer);
    this.timer = null;
    this.last = performance.now();
    this.model.save_changes();
  }

  on(names, hear) {
    for (const name of [names].flat()) {
      this.model.on(`change:${name}`, hear);
      this.heard.push([`change:${name}`, hear]);
    }
  }

  close() {
    this.flush();
    for (const [event, hear] of this.heard) this.model.off(event, hear);
    this.heard = [];
  }
}

/** Equal as JSON; traits hold nothing else. */
export const same = (a, b) => a === b || JSON.stringify(a) === JSON.stringify(b);
