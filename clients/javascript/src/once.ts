// Something that happens once.

/**
 * What `AbortController` is to callers, for use inside: every call needs some, and the DOM's makes an exception with a
 * stack whenever it aborts.
 */
export class Once {
  #happened = false;
  readonly #watchers = new Set<() => void>();

  get happened(): boolean {
    return this.#happened;
  }

  /** Lets it happen. What watches is called now, in the order in which it began to. */
  happen(): void {
    this.#happened = true;
    for (const watcher of this.#watchers) {
      this.#watchers.delete(watcher);
      watcher();
    }
  }

  /** Has `watcher` called when it happens; never, if it has. */
  watch(watcher: () => void): void {
    if (!this.#happened) this.#watchers.add(watcher);
  }

  unwatch(watcher: () => void): void {
    this.#watchers.delete(watcher);
  }
}
