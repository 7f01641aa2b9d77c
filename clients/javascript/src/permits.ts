// A bounded count of things under way.

export class Permits {
  #free: number;

  constructor(readonly countMax: number) {
    this.#free = countMax;
  }

  /** Takes one; `undefined` when none is left. The permit may be given back more than once. */
  take(): Permit | undefined {
    if (this.#free === 0) return undefined;
    this.#free -= 1;
    return new Permit(() => {
      this.#free += 1;
    });
  }
}

export class Permit {
  #giveBack: (() => void) | undefined;

  constructor(giveBack: () => void) {
    this.#giveBack = giveBack;
  }

  giveBack(): void {
    this.#giveBack?.();
    this.#giveBack = undefined;
  }
}
