// A scripted server: does the handshake, hands every request to the test, and sends what the test says.

import { createHash, createHmac, randomBytes } from "node:crypto";
import * as net from "node:net";
import * as tls from "node:tls";

export interface Received {
  readonly op: string;
  readonly requestId: bigint;
  readonly frame: Buffer;
  readonly peer: Peer;
  /** Token of `R` and `G`. */
  readonly token: bigint;
  readonly wait: number;
}

export interface Script {
  token?: string;
  mode?: "cluster" | "single";
  slot?: number;
  fingerprint?: Buffer;
  /** Bytes instead of the proper hello. */
  hello?: Buffer;
  tls?: tls.SecureContextOptions & { minVersion?: tls.SecureVersion; maxVersion?: tls.SecureVersion };
  onConnect?: (peer: Peer) => void;
  onRequest?: (request: Received) => void;
}

/** One accepted client. */
export class Peer {
  constructor(
    readonly socket: net.Socket,
    readonly index: number,
  ) {}

  reply(op: string, requestId: bigint, ...rest: Buffer[]): void {
    this.socket.write(replyFrame(op, requestId, ...rest));
  }

  grant(request: Received, token: bigint): void {
    this.reply(request.op, request.requestId, u64(token));
  }
}

export function u64(value: bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(value);
  return bytes;
}

export function replyFrame(op: string, requestId: bigint, ...rest: Buffer[]): Buffer {
  const body = Buffer.concat([u64(requestId), ...rest]);
  const head = Buffer.from([op.charCodeAt(0), body.length >> 8, body.length & 0xff]);
  return Buffer.concat([head, body]);
}

export class ScriptedServer {
  readonly peers: Peer[] = [];
  readonly requests: Received[] = [];
  #accepted = 0;

  private constructor(
    readonly listener: net.Server,
    readonly script: Script,
  ) {}

  static async start(script: Script = {}, port = 0): Promise<ScriptedServer> {
    const onSocket = (socket: net.Socket): void => server.#accept(socket);
    const listener = script.tls === undefined ? net.createServer(onSocket) : tls.createServer(script.tls, onSocket);
    const server = new ScriptedServer(listener, script);
    listener.on("tlsClientError", () => undefined);
    await new Promise<void>((resolve) => listener.listen(port, "127.0.0.1", resolve));
    return server;
  }

  get port(): number {
    return (this.listener.address() as net.AddressInfo).port;
  }

  get address(): string {
    return `127.0.0.1:${this.port}`;
  }

  async stop(): Promise<void> {
    for (const peer of this.peers) peer.socket.destroy();
    await new Promise((resolve) => this.listener.close(resolve));
  }

  #accept(socket: net.Socket): void {
    const peer = new Peer(socket, this.#accepted++);
    this.peers.push(peer);
    socket.on("error", () => undefined);
    const { script } = this;
    const mode = script.mode ?? "single";
    const slot = mode === "single" ? 255 : (script.slot ?? 0);
    const nonce = randomBytes(16);
    const identity = Buffer.from([0, 3, mode === "single" ? 0 : 1]);
    socket.write(script.hello ?? Buffer.concat([Buffer.from("TCKCLI3\0"), identity, Buffer.from([slot]), nonce]));
    const fingerprint = script.fingerprint ?? createHash("sha256").update("ticketing/single/v3").digest();
    const proof = createHmac("sha256", script.token ?? "")
      .update(Buffer.concat([Buffer.from("TCK/CLIENT/AUTH3"), identity, fingerprint, Buffer.from([slot]), nonce]))
      .digest();
    this.#read(peer, proof);
  }

  #read(peer: Peer, proof: Buffer): void {
    let bytes: Buffer = Buffer.alloc(0);
    let accepted = false;
    peer.socket.on("data", (chunk: Buffer) => {
      bytes = Buffer.concat([bytes, chunk]);
      if (!accepted) {
        if (bytes.length < 32) return;
        accepted = proof.equals(bytes.subarray(0, 32));
        bytes = bytes.subarray(32);
        peer.socket.write(Buffer.from([accepted ? 1 : 0]));
        if (!accepted) peer.socket.end();
        else this.script.onConnect?.(peer);
      }
      while (bytes.length >= 3 && bytes.length >= 3 + bytes.readUInt16BE(1)) {
        const frame = bytes.subarray(0, 3 + bytes.readUInt16BE(1));
        bytes = bytes.subarray(frame.length);
        const op = String.fromCharCode(frame[0]!);
        const token = op === "R" || op === "G" ? frame.readBigUInt64BE(11) : 0n;
        const request = { op, requestId: frame.readBigUInt64BE(3), frame, peer, token, wait: frame[11]! };
        this.requests.push(request);
        this.script.onRequest?.(request);
      }
    });
  }
}

/** Resolves when the condition holds; fails after five seconds. */
export async function until(condition: () => boolean, what: string): Promise<void> {
  const end = performance.now() + 5_000;
  while (!condition()) {
    if (performance.now() > end) throw new Error(`never happened: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}
