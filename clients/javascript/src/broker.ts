// The client object: shared by all callers, closed once.

import { Acquire, type Grant } from "./acquiring.js";
import { pause } from "./clock.js";
import { ClientCapacityError, ClosedError, NotConnectedError, UnauthorizedError } from "./errors.js";
import { checkedKey, checkedKeySet, type Key } from "./keys.js";
import { RELEASE_WINDOW_MS } from "./limits.js";
import { Once } from "./once.js";
import { checkedBrokerOptions, checkedTimes, type AcquireOptions, type BrokerOptions } from "./options.js";
import { Permits } from "./permits.js";
import { Releaser } from "./releasing.js";
import { Router } from "./router.js";
import { Ticket, type TicketDomain } from "./ticket.js";

/**
 * A client of one Ticketing server or cluster. It keeps its connections for ever: a dead server never breaks it. One
 * broker serves any number of concurrent callers; `close` ends it.
 */
export class Broker {
  readonly #router: Router;
  readonly #releaser: Releaser;
  readonly #permits: Permits;
  readonly #domain: TicketDomain;
  readonly #closing = new Once();
  #closed: Promise<void> | undefined;

  /**
   * Begins to connect in the background and returns at once.
   *
   * @throws InvalidInputError for an option that breaks its rule.
   */
  constructor(options: BrokerOptions) {
    const config = checkedBrokerOptions(options);
    this.#router = new Router(config);
    this.#releaser = new Releaser(this.#router);
    this.#permits = new Permits(config.pendingCountMax);
    this.#domain =
      config.fingerprint === undefined
        ? { mode: "single" }
        : { mode: "cluster", fingerprint: config.fingerprint.toString("hex") };
  }

  /**
   * Resolves as soon as one connection is usable. Acquires need no such call: they wait for a connection themselves.
   *
   * @throws UnauthorizedError or NotConnectedError when none is after `timeoutSeconds`; ClosedError.
   */
  async ready(timeoutSeconds: number): Promise<void> {
    const done = new Once();
    const check = (): void => {
      if (this.#router.anyUsable || this.#closing.happened) done.happen();
    };
    const unwatch = this.#router.watch(check);
    check();
    await pause(timeoutSeconds * 1000, done);
    unwatch();
    this.#throwIfClosed();
    if (this.#router.anyUsable) return;
    if (this.#router.refused) throw new UnauthorizedError();
    throw new NotConnectedError(`no server was reachable within ${timeoutSeconds} s: ${this.#router.lastFailure}`);
  }

  /**
   * Acquires one key. Callers queue strictly first in, first out; the lock is not re-entrant.
   *
   * @throws Every {@link TicketingError} but ReleaseUnconfirmedError; each says what is known about the lock.
   */
  async acquire(key: Key, options: AcquireOptions): Promise<Ticket> {
    return this.#acquire([checkedKey(key)], options);
  }

  /**
   * Acquires up to 16 keys, all or nothing, under one token. Order and duplicates do not matter.
   *
   * @throws As {@link Broker.acquire}.
   */
  async acquireSet(keys: Iterable<Key>, options: AcquireOptions): Promise<Ticket> {
    return this.#acquire(checkedKeySet(keys), options);
  }

  /**
   * Runs `work` while holding the key, and releases it afterwards, whatever happens. A release that stays unconfirmed
   * is not an error of the work: the lease ends the lock.
   */
  async withLock<T>(key: Key, options: AcquireOptions, work: (ticket: Ticket) => Promise<T> | T): Promise<T> {
    const ticket = await this.acquire(key, options);
    try {
      return await work(ticket);
    } finally {
      await ticket.release().catch(() => undefined);
    }
  }

  /**
   * Refuses new calls, lets releases under way finish for at most 5 s, and resolves when every socket is gone. Locks
   * still held end with their lease. Idempotent.
   */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #acquire(keys: readonly Buffer[], options: AcquireOptions): Promise<Ticket> {
    const times = checkedTimes(options);
    this.#throwIfClosed();
    const permit = this.#permits.take();
    if (permit === undefined) {
      throw new ClientCapacityError(`${this.#permits.countMax} acquires are pending; raise pendingCountMax or wait`);
    }
    const acquire = new Acquire({
      router: this.#router,
      releaser: this.#releaser,
      closing: this.#closing,
      permit,
      keys,
      times,
      signal: options.signal,
    });
    const grant: Grant = await acquire.run();
    return new Ticket(this.#releaser, keys, grant, this.#domain);
  }

  async #close(): Promise<void> {
    this.#closing.happen();
    this.#releaser.close();
    const enough = new Once();
    await Promise.race([this.#releaser.drained(), pause(RELEASE_WINDOW_MS, enough)]);
    enough.happen();
    await this.#router.close();
  }

  #throwIfClosed(): void {
    if (this.#closing.happened) throw new ClosedError("the broker is closed");
  }
}

/** Lets `await using broker = new Broker(...)` close it; the symbol exists from Node.js 18.18 on. */
export interface Broker extends AsyncDisposable {}

if (typeof Symbol.asyncDispose === "symbol") {
  Object.defineProperty(Broker.prototype, Symbol.asyncDispose, {
    configurable: true,
    writable: true,
    value(this: Broker): Promise<void> {
      return this.close();
    },
  });
}
