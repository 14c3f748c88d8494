// Time in the page: playing at so many steps a second, and running through a few steps when the reader asks for one.

export const still = () => matchMedia('(prefers-reduced-motion: reduce)').matches;

/** Steps per second from animation frames; never more than one step a frame. */
export class Clock {
  /** `step()` moves on by one and returns false at the end; `changed()` is called when playing starts or stops. */
  constructor(step, changed) {
    this.step = step;
    this.changed = changed;
    this.speed = 2;
    this.on = false;
  }

  start() {
    if (this.on) return;
    this.on = true;
    this.due = performance.now() + 1000 / this.speed;
    const tick = now => {
      if (!this.on) return;
      if (now >= this.due - 2) {
        this.due = Math.max(this.due + 1000 / this.speed, now - 50);
        if (this.step() === false) return this.stop();
      }
      this.frame = requestAnimationFrame(tick);
    };
    this.frame = requestAnimationFrame(tick);
    this.changed();
  }

  stop() {
    if (!this.on) return;
    this.on = false;
    cancelAnimationFrame(this.frame);
    this.changed();
  }
}

/** From one step to another in a fraction of a second, through all that lies between. */
export class Glide {
  constructor(show) {
    this.show = show;
    this.target = null;
  }

  get on() {
    return this.target !== null;
  }

  to(from, target, ms) {
    this.stop();
    this.target = target;
    const begun = performance.now();
    const tick = now => {
      const u = Math.min(1, Math.max(0, (now - begun) / ms));
      if (u < 1) this.frame = requestAnimationFrame(tick);
      else this.target = null;
      this.show(Math.round(from + (target - from) * u));
    };
    this.frame = requestAnimationFrame(tick);
  }

  stop() {
    cancelAnimationFrame(this.frame);
    this.target = null;
  }
}
