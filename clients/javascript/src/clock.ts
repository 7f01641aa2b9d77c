// The one place that reads a clock.

import type { Once } from "./once.js";

/** Milliseconds on the process's monotonic clock, the one of `performance.now()`. */
export function now(): number {
  return performance.now();
}

/** Resolves after `ms`, not sooner as a timer alone may, or as soon as `end` happens. */
export function pause(ms: number, end: Once): Promise<void> {
  return new Promise((resolve) => {
    const due = now() + ms;
    const done = (): void => {
      clearTimeout(timer);
      end.unwatch(done);
      resolve();
    };
    const check = (): void => {
      const left = due - now();
      if (left > 0) timer = setTimeout(check, Math.ceil(left));
      else done();
    };
    let timer = setTimeout(check, Math.ceil(ms));
    if (end.happened) done();
    else end.watch(done);
  });
}
