// Which connection takes a request: the leader when it is known, otherwise each in turn.

import { Connection } from "./connection.js";
import { tlsConnectionOptions, type BrokerConfig, type Endpoint } from "./options.js";
import type { VoterCount } from "./protocol.js";

/** Connections to the one address of single mode, so that one broken socket does not interrupt service. */
const SINGLE_CONNECTION_COUNT = 2;

const NONE: ReadonlySet<Connection> = new Set();

export class Router {
  readonly #connections: readonly Connection[];
  readonly #watchers = new Set<() => void>();
  #leader: Connection | undefined;
  #turn = 0;
  #refused = false;
  #lastFailure = "no answer yet; check the address, and that both sides use TLS or neither";

  constructor(config: BrokerConfig) {
    const { fingerprint, endpoints } = config;
    if (fingerprint === undefined) {
      const only = endpoints[0]!;
      this.#connections = Array.from({ length: SINGLE_CONNECTION_COUNT }, () => this.#open(config, only, { mode: "single" }, 0));
    } else {
      const voterCount = endpoints.length as VoterCount;
      this.#connections = endpoints.map((endpoint, slot) =>
        this.#open(config, endpoint, { mode: "cluster", slot, fingerprint }, voterCount),
      );
    }
  }

  /** A usable connection, another than the `avoided` ones if there is one. */
  choose(avoided: ReadonlySet<Connection> = NONE): Connection | undefined {
    if (this.#leader?.usable === true && !avoided.has(this.#leader)) return this.#leader;
    const count = this.#connections.length;
    let fallback: Connection | undefined;
    for (let step = 0; step < count; step++) {
      const connection = this.#connections[(this.#turn + step) % count]!;
      if (!connection.usable) continue;
      if (avoided.has(connection)) {
        fallback ??= connection;
        continue;
      }
      this.#turn = (this.#turn + step + 1) % count;
      return connection;
    }
    return fallback;
  }

  /** The connection's server has said that it does not lead. */
  leadsNoMore(connection: Connection): void {
    if (this.#leader === connection) this.#leader = undefined;
  }

  get anyUsable(): boolean {
    return this.#connections.some((connection) => connection.usable);
  }

  /** Whether the last verdict that any connection got refused the token. */
  get refused(): boolean {
    return this.#refused;
  }

  /** Why the latest session of any connection ended. */
  get lastFailure(): string {
    return this.#lastFailure;
  }

  /** Calls `watcher` at every change of usability, until the returned function is called. */
  watch(watcher: () => void): () => void {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  }

  async close(): Promise<void> {
    await Promise.all(this.#connections.map((connection) => connection.close()));
  }

  #open(
    config: BrokerConfig,
    endpoint: Endpoint,
    expected: ConstructorParameters<typeof Connection>[0]["expected"],
    voterCount: VoterCount,
  ): Connection {
    return new Connection({
      endpoint,
      expected,
      voterCount,
      token: config.token,
      tls: config.tls === undefined ? undefined : tlsConnectionOptions(config.tls, endpoint.host),
      onChange: (connection) => this.#changed(connection),
      onVerdict: (refused) => {
        this.#refused = refused;
      },
      onFailure: (reason) => {
        this.#lastFailure = reason;
      },
      onLeader: (slot) => {
        this.#leader = slot === undefined ? undefined : this.#connections[slot];
      },
    });
  }

  #changed(connection: Connection): void {
    if (!connection.usable) this.leadsNoMore(connection);
    for (const watcher of this.#watchers) watcher();
  }
}
