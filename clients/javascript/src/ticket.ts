// A held lock.

import { now } from "./clock.js";
import type { Grant } from "./acquiring.js";
import type { Releaser, ReleaseOutcome } from "./releasing.js";

/** Where a token may be compared: within one single server's history, or one cluster identity. */
export type TicketDomain = { readonly mode: "single" } | { readonly mode: "cluster"; readonly fingerprint: string };

interface Hold {
  readonly releaser: Releaser;
  readonly keys: readonly Buffer[];
  readonly token: bigint;
}

/** Tickets that were forgotten are released when they are collected. */
const forgotten = new FinalizationRegistry<Hold>(({ releaser, keys, token }) => releaser.releaseInBackground(keys, token));

/**
 * A held lock on one key or a set of keys. Safe to use from anywhere in the process.
 *
 * Give `token` to the protected resource, which must refuse any token below the highest it has seen; and stop
 * working at `validBefore`.
 */
export class Ticket {
  /** The keys, ascending bytewise. */
  readonly keys: readonly string[];
  /** Fencing token: strictly larger than every token granted before it in the same domain. */
  readonly token: bigint;
  /** The token's fencing domain. Tokens of two domains must never be compared. */
  readonly domain: TicketDomain;
  /** Until when the lock may be relied on, in milliseconds on the clock of `performance.now()`: send time + lease. */
  readonly validBefore: number;
  readonly #hold: Hold;
  #release: Promise<ReleaseOutcome> | undefined;

  /** @internal */
  constructor(releaser: Releaser, keys: readonly Buffer[], grant: Grant, domain: TicketDomain) {
    this.keys = keys.map((key) => key.toString("utf8"));
    this.token = grant.token;
    this.domain = domain;
    this.validBefore = grant.validBefore;
    this.#hold = { releaser, keys, token: grant.token };
    forgotten.register(this, this.#hold, this);
  }

  /** Milliseconds left until `validBefore`; 0 when it has passed. */
  get remainingMs(): number {
    return Math.max(0, this.validBefore - now());
  }

  /**
   * Releases the lock. Resolves only with the server's definite answer: `"released"`, or `"not-held"` when the lease
   * had ended. Retried for at most 5 s; a second call gives the first one's result.
   *
   * @throws ReleaseUnconfirmedError when no definite answer came in 5 s, ClientCapacityError when 1,024 releases are
   * under way, ClosedError when the broker is closed, RejectedError when the server refused it. In each case the lease ends the lock.
   */
  release(): Promise<ReleaseOutcome> {
    forgotten.unregister(this);
    this.#release ??= this.#hold.releaser.release(this.#hold.keys, this.token);
    return this.#release;
  }

  /** Releases the lock in the background, by the same rules and without a report. */
  abandon(): void {
    this.release().catch(() => undefined);
  }
}

/** Ticket's own shape plus what `await using` needs; the symbol exists from Node.js 18.18 on. */
export interface Ticket extends AsyncDisposable {}

if (typeof Symbol.asyncDispose === "symbol") {
  Object.defineProperty(Ticket.prototype, Symbol.asyncDispose, {
    configurable: true,
    writable: true,
    async value(this: Ticket): Promise<void> {
      // A release that stays unconfirmed is not reported here: the lease ends the lock.
      await this.release().catch(() => undefined);
    },
  });
}
