// One address: connects, shakes hands, carries pipelined requests, and reconnects until closed.

import * as net from "node:net";
import * as tls from "node:tls";
import { now, pause } from "./clock.js";
import { checkVerdict, HELLO_SIZE, ProofRefused, proofFor, type Expected } from "./handshake.js";
import {
  BACKOFF_MS_MAX,
  BACKOFF_MS_MIN,
  CONNECT_MS,
  HANDSHAKE_MS,
  KEEPALIVE_MS,
  LONG_SESSION_MS,
  WRITE_BUFFER_SIZE_BYTES,
} from "./limits.js";
import { Once } from "./once.js";
import type { Endpoint } from "./options.js";
import { answers, ProtocolFault, ReplyDecoder, type Reply, type VoterCount } from "./protocol.js";
import type { Request } from "./request.js";

/** What a connection needs to know, and whom it tells. */
export interface ConnectionConfig {
  readonly endpoint: Endpoint;
  readonly expected: Expected;
  readonly voterCount: VoterCount;
  readonly token: Buffer;
  readonly tls: tls.ConnectionOptions | undefined;
  /** The connection became usable, or stopped being so. */
  readonly onChange: (connection: Connection) => void;
  /** A session ended with this failure; the next one may do better. */
  readonly onFailure: (reason: string) => void;
  /** The server accepted or refused the token. */
  readonly onVerdict: (refused: boolean) => void;
  /** `L` or `M` named a leader, or none. */
  readonly onLeader: (slot: number | undefined) => void;
}

export class Connection {
  /** Whether requests can be handed to it: the handshake is done and the socket is open. */
  usable = false;
  /** When bytes last came from the server. */
  receivedAt = 0;

  readonly #config: ConnectionConfig;
  readonly #closing = new Once();
  readonly #finished: Promise<void>;
  #socket: net.Socket | undefined;
  #decoder: ReplyDecoder;
  #nextRequestId = 1n;
  readonly #sent = new Map<bigint, Request>();
  #queue: Request[] = [];
  #flushing = false;

  constructor(config: ConnectionConfig) {
    this.#config = config;
    this.#decoder = new ReplyDecoder(config.voterCount);
    this.#finished = this.#run();
  }

  /** Queues a request; it is sent with all others of this turn of the event loop. */
  submit(request: Request): void {
    this.#queue.push(request);
    this.#scheduleFlush();
  }

  /** Ends the session; the worker reconnects. Sent requests are lost, queued ones unsent. */
  abort(): void {
    this.#socket?.destroy();
  }

  /** Ends the worker. Resolves when its socket is gone. */
  async close(): Promise<void> {
    this.#closing.happen();
    this.#socket?.destroy();
    await this.#finished;
  }

  async #run(): Promise<void> {
    let backoff = BACKOFF_MS_MIN;
    while (!this.#closing.happened) {
      const usableSince = await this.#session();
      if (usableSince !== undefined && now() - usableSince >= LONG_SESSION_MS) backoff = BACKOFF_MS_MIN;
      await pause(backoff, this.#closing);
      backoff = Math.min(backoff * 2, BACKOFF_MS_MAX);
    }
  }

  /** One connection from connect to close; says since when it was usable. */
  async #session(): Promise<number | undefined> {
    let usableSince: number | undefined;
    try {
      const socket = await this.#connect();
      await this.#shakeHands(socket);
      usableSince = now();
      await this.#serve(socket);
    } catch (error) {
      if (error instanceof ProofRefused) this.#config.onVerdict(true);
      if (!this.#closing.happened) this.#config.onFailure(this.#told(error));
    } finally {
      this.#end();
    }
    return usableSince;
  }

  /** The failure in words, with the address it concerns. */
  #told(error: unknown): string {
    const { host, port } = this.#config.endpoint;
    // Node.js gives an error without a message when every address of a name failed.
    const reason: unknown = error instanceof AggregateError ? error.errors[0] : error;
    return `${host}:${port}: ${reason instanceof Error ? reason.message : String(reason)}`;
  }

  async #connect(): Promise<net.Socket> {
    const { host, port } = this.#config.endpoint;
    const socket = net.connect({ host, port, noDelay: true, keepAlive: true, keepAliveInitialDelay: KEEPALIVE_MS });
    this.#hold(socket);
    await happens(socket, "connect", CONNECT_MS);
    return socket;
  }

  /** Makes the socket the one that `close` and `abort` destroy. */
  #hold(socket: net.Socket): void {
    this.#socket = socket;
    // Every failure also emits "close", which is what the session waits for.
    socket.on("error", () => undefined);
    if (this.#closing.happened) socket.destroy();
  }

  async #shakeHands(plain: net.Socket): Promise<void> {
    const silent = new Error(`no handshake within ${HANDSHAKE_MS} ms; check that both sides use TLS or neither`);
    const timer = setTimeout(() => this.#socket?.destroy(silent), HANDSHAKE_MS);
    try {
      let socket = plain;
      if (this.#config.tls !== undefined) {
        const secured = tls.connect({ ...this.#config.tls, socket: plain });
        this.#hold(secured);
        await happens(secured, "secureConnect", HANDSHAKE_MS);
        socket = secured;
      }
      const hello = await readExactly(socket, HELLO_SIZE);
      socket.write(proofFor(hello, this.#config.expected, this.#config.token));
      checkVerdict((await readExactly(socket, 1))[0]!);
    } finally {
      clearTimeout(timer);
    }
  }

  async #serve(plain: net.Socket): Promise<void> {
    const socket = this.#socket ?? plain;
    this.#decoder = new ReplyDecoder(this.#config.voterCount);
    this.#nextRequestId = 1n;
    this.#config.onVerdict(false);
    this.receivedAt = now();
    const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
    if (socket.destroyed) return;
    socket.on("data", (chunk: Buffer) => this.#receive(chunk));
    // The server has closed its side: nothing more can be answered.
    socket.once("end", () => socket.destroy());
    socket.on("drain", () => this.#scheduleFlush());
    this.usable = true;
    this.#config.onChange(this);
    this.#scheduleFlush();
    await closed;
  }

  #end(): void {
    this.#socket?.destroy();
    this.#socket = undefined;
    this.usable = false;
    const queued = this.#queue;
    const sent = Array.from(this.#sent.values());
    this.#queue = [];
    this.#sent.clear();
    this.#config.onChange(this);
    for (const request of sent) request.settle({ type: "lost" });
    for (const request of queued) request.settle({ type: "unsent" });
  }

  #scheduleFlush(): void {
    if (this.#flushing) return;
    this.#flushing = true;
    setImmediate(() => {
      this.#flushing = false;
      this.#flush();
    });
  }

  #flush(): void {
    const socket = this.#socket;
    if (!this.usable || socket === undefined || this.#queue.length === 0) return;
    if (socket.writableLength >= WRITE_BUFFER_SIZE_BYTES) return;
    const time = now();
    const frames: Buffer[] = [];
    let size = 0;
    let taken = 0;
    for (const request of this.#queue) {
      if (size >= WRITE_BUFFER_SIZE_BYTES) break;
      taken += 1;
      if (request.state !== "queued") continue;
      const requestId = this.#nextRequestId++;
      request.state = "sent";
      request.sentAt = time;
      this.#sent.set(requestId, request);
      const frame = request.frame(requestId, time);
      frames.push(frame);
      size += frame.length;
    }
    this.#queue = this.#queue.slice(taken);
    if (frames.length > 0) socket.write(frames.length === 1 ? frames[0]! : Buffer.concat(frames, size));
    if (this.#queue.length > 0 && socket.writableLength < WRITE_BUFFER_SIZE_BYTES) this.#scheduleFlush();
  }

  #receive(chunk: Buffer): void {
    this.receivedAt = now();
    try {
      this.#decoder.push(chunk, (reply) => this.#route(reply));
    } catch (error) {
      // A reply outside the protocol: nothing that follows can be trusted.
      if (error instanceof ProtocolFault) this.#socket?.destroy();
      else throw error;
    }
  }

  #route(reply: Reply): void {
    if (reply.op === "L") {
      this.#config.onLeader(reply.leader);
      return;
    }
    const request = this.#sent.get(reply.requestId);
    if (request === undefined) throw new ProtocolFault("reply to an unknown or answered request id");
    if (!answers(reply, request.kind)) throw new ProtocolFault(`reply ${reply.op} does not fit the request`);
    this.#sent.delete(reply.requestId);
    if (reply.op === "M") this.#config.onLeader(reply.leader);
    request.settle({ type: "answered", reply });
  }
}

/** Resolves at the event; rejects when the socket fails, closes or takes longer than `ms`. */
function happens(socket: net.Socket, event: string, ms: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => socket.destroy(new Error(`no ${event} within ${ms} ms`)), ms);
    const settle = (action: () => void): void => {
      clearTimeout(timer);
      socket.removeListener(event, onEvent);
      socket.removeListener("close", onClose);
      action();
    };
    const onEvent = (): void => settle(resolve);
    const onClose = (): void => settle(() => reject(socket.errored ?? new Error("closed")));
    socket.once(event, onEvent);
    socket.once("close", onClose);
    if (socket.destroyed) onClose();
  });
}

/** Reads exactly `size` bytes and leaves the rest in the socket. */
function readExactly(socket: net.Socket, size: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const settle = (action: () => void): void => {
      socket.removeListener("readable", attempt);
      socket.removeListener("end", fail);
      socket.removeListener("close", fail);
      action();
    };
    const fail = (): void => settle(() => reject(socket.errored ?? new Error("closed during the handshake")));
    const attempt = (): void => {
      const bytes = socket.read(size) as Buffer | null;
      if (bytes === null) return;
      if (bytes.length === size) settle(() => resolve(bytes));
      else fail();
    };
    socket.on("readable", attempt);
    socket.once("end", fail);
    socket.once("close", fail);
    if (socket.destroyed) fail();
    else attempt();
  });
}
