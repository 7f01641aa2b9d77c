// What a broker can be told, checked before anything connects.

import { readFileSync } from "node:fs";
import { isIP } from "node:net";
import { createSecureContext, type ConnectionOptions } from "node:tls";
import { inspect } from "node:util";
import { InvalidInputError } from "./errors.js";
import {
  LEASE_SECONDS_MAX,
  LEASE_SECONDS_MIN,
  PENDING_COUNT_DEFAULT,
  PENDING_COUNT_MAX,
  TOKEN_SIZE_BYTES_MAX,
  TOKEN_SIZE_BYTES_MIN,
  WAIT_SECONDS_MAX,
} from "./limits.js";

/** How the connection is secured. Certificates and host names are always verified unless `insecure` says otherwise. */
export interface TlsOptions {
  /** Trusted certificate authorities, PEM. Default: the roots that Node.js trusts. */
  readonly ca?: string | Uint8Array;
  /** File with trusted certificate authorities, PEM; read once, when the broker is made. */
  readonly caFile?: string;
  /** Name that the certificate must carry. Default: the host of the address. */
  readonly serverName?: string;
  /** Accepts any certificate: no protection against an attacker on the network. For tests only. */
  readonly insecure?: boolean;
}

export interface BrokerOptions {
  /** `host:port`, IPv6 as `[addr]:port`. One server, or 3 or 5 nodes of a cluster in slot order. */
  readonly addresses: string | readonly string[];
  /** The cluster's identity fingerprint: 32 bytes, or 64 hexadecimal digits. Its presence selects cluster mode. */
  readonly fingerprint?: string | Uint8Array;
  /** Client token, 16–4096 bytes. Without it every address must be a loopback address. */
  readonly token?: string | Uint8Array;
  /** `true`: TLS with the roots that Node.js trusts. Default: no TLS. */
  readonly tls?: boolean | TlsOptions;
  /** Most acquires between call and answer, 1–16,384. Default 1024. */
  readonly pendingCountMax?: number;
}

export interface AcquireOptions {
  /** Longest time to queue, in seconds: 0–255, fractions are rounded up; 0 is one immediate try. */
  readonly wait: number;
  /** Lease in seconds: a whole number from 1 to 250. */
  readonly lease: number;
  /** Least time, in seconds, that must be left of the lease when the grant arrives. Below the lease; default 0. */
  readonly budget?: number;
  /** Gives up when it aborts. */
  readonly signal?: AbortSignal;
}

/** The names of an options type: the compiler sees that none is missing and none is too many. */
type Names<T> = Readonly<Record<keyof T, true>>;

const TLS_NAMES: Names<TlsOptions> = { ca: true, caFile: true, serverName: true, insecure: true };
const BROKER_NAMES: Names<BrokerOptions> = {
  addresses: true,
  fingerprint: true,
  token: true,
  tls: true,
  pendingCountMax: true,
};
const ACQUIRE_NAMES: Names<AcquireOptions> = { wait: true, lease: true, budget: true, signal: true };

export interface Endpoint {
  readonly host: string;
  readonly port: number;
}

/** Broker options in checked form. */
export interface BrokerConfig {
  readonly endpoints: readonly Endpoint[];
  readonly fingerprint: Buffer | undefined;
  readonly token: Buffer;
  readonly tls: TlsOptions | undefined;
  readonly pendingCountMax: number;
}

/** Acquire options in checked form. */
export interface AcquireTimes {
  readonly waitSeconds: number;
  readonly leaseSeconds: number;
  readonly budgetMs: number;
}

export function checkedBrokerOptions(options: BrokerOptions): BrokerConfig {
  checkObject(options, BROKER_NAMES, 'a broker needs options, such as { addresses: "127.0.0.1:5225" }');
  const endpoints = checkedAddresses(options.addresses).map(endpoint);
  const fingerprint = options.fingerprint === undefined ? undefined : checkedFingerprint(options.fingerprint);
  if (fingerprint === undefined && endpoints.length !== 1) {
    throw new InvalidInputError(`without a fingerprint exactly 1 address is needed, got ${endpoints.length}`);
  }
  if (fingerprint !== undefined && endpoints.length !== 3 && endpoints.length !== 5) {
    throw new InvalidInputError(`a cluster has 3 or 5 addresses in slot order, got ${endpoints.length}`);
  }
  const token = checkedToken(options.token, endpoints);
  const pendingCountMax = options.pendingCountMax ?? PENDING_COUNT_DEFAULT;
  if (!Number.isInteger(pendingCountMax) || pendingCountMax < 1 || pendingCountMax > PENDING_COUNT_MAX) {
    throw new InvalidInputError(`pendingCountMax is a whole number from 1 to ${PENDING_COUNT_MAX}`);
  }
  return { endpoints, fingerprint, token, tls: tlsOptions(options.tls), pendingCountMax };
}

export function checkedTimes(options: AcquireOptions): AcquireTimes {
  checkObject(options, ACQUIRE_NAMES, "wait and lease are needed, such as { wait: 5, lease: 30 }");
  const wait = options.wait;
  if (typeof wait !== "number" || !(wait >= 0 && wait <= WAIT_SECONDS_MAX)) {
    throw new InvalidInputError(`wait is a number of seconds from 0 to ${WAIT_SECONDS_MAX}, got ${shown(wait)}`);
  }
  const leaseSeconds = options.lease;
  if (!Number.isInteger(leaseSeconds) || leaseSeconds < LEASE_SECONDS_MIN || leaseSeconds > LEASE_SECONDS_MAX) {
    throw new InvalidInputError(
      `lease is a whole number of seconds from ${LEASE_SECONDS_MIN} to ${LEASE_SECONDS_MAX}, got ${shown(leaseSeconds)}`,
    );
  }
  const budget = options.budget ?? 0;
  if (typeof budget !== "number" || !(budget >= 0 && budget < leaseSeconds)) {
    throw new InvalidInputError(`budget is a number from 0 to less than the lease (${leaseSeconds} s), got ${shown(budget)}`);
  }
  checkSignal(options.signal);
  return { waitSeconds: Math.ceil(wait), leaseSeconds, budgetMs: budget * 1000 };
}

/** A value as its author would write it, on one line: "5" and 5n are no 5, and a template does not take every value. */
function shown(value: unknown): string {
  return inspect(value, { depth: 0, breakLength: Infinity, maxStringLength: 100 });
}

/** What Node.js is told for one endpoint. */
export function tlsConnectionOptions(options: TlsOptions, host: string): ConnectionOptions {
  const serverName = options.serverName ?? host;
  return {
    host: serverName,
    // SNI carries names only; an address is verified against the certificate's address entries.
    servername: isIP(serverName) === 0 ? serverName : "",
    minVersion: "TLSv1.2",
    rejectUnauthorized: options.insecure !== true,
    ...(options.ca === undefined ? {} : { ca: Buffer.from(options.ca) }),
  };
}

/**
 * The types say so, but callers in plain JavaScript do not hear it; and a misspelt `tls` or `budget` that passed
 * unnoticed would leave its owner without it.
 */
function checkObject<T extends object>(options: T, names: Names<T>, needed: string): void {
  if (typeof options !== "object" || options === null) throw new InvalidInputError(needed);
  const known = Object.keys(names);
  const unknown = Object.keys(options).find((name) => !known.includes(name));
  if (unknown !== undefined) throw new InvalidInputError(`no option "${unknown}": known are ${known.join(", ")}`);
}

function checkText(name: string, value: string | Uint8Array): void {
  if (typeof value !== "string" && !(value instanceof Uint8Array)) {
    throw new InvalidInputError(`${name} is a string or a Uint8Array`);
  }
}

/** By its shape: a test environment or a polyfill brings an `AbortSignal` of its own. */
function checkSignal(signal: AbortSignal | undefined): void {
  if (signal === undefined) return;
  if (typeof signal?.aborted !== "boolean" || typeof signal.addEventListener !== "function") {
    throw new InvalidInputError("signal is an AbortSignal, such as that of an AbortController");
  }
}

function tlsOptions(option: boolean | TlsOptions | undefined): TlsOptions | undefined {
  if (option === undefined || option === false) return undefined;
  if (option === true) return {};
  checkObject(option, TLS_NAMES, 'tls is true, false or options, such as { caFile: "ca.pem" }');
  if (option.ca !== undefined) checkText("ca (PEM)", option.ca);
  for (const name of ["caFile", "serverName"] as const) {
    if (option[name] !== undefined && typeof option[name] !== "string") throw new InvalidInputError(`${name} is a string`);
  }
  const ca = option.caFile === undefined ? option.ca : readCaFile(option.caFile);
  if (ca === undefined) return option;
  try {
    createSecureContext({ ca: Buffer.from(ca) });
  } catch (cause) {
    throw new InvalidInputError("the certificate authorities are not valid PEM", { cause });
  }
  return { ...option, ca };
}

function readCaFile(path: string): Buffer {
  let pem: Buffer;
  try {
    pem = readFileSync(path);
  } catch (cause) {
    throw new InvalidInputError(`cannot read the CA file "${path}"`, { cause });
  }
  if (!pem.includes("-----BEGIN CERTIFICATE-----")) throw new InvalidInputError(`the CA file "${path}" holds no certificate`);
  return pem;
}

function checkedAddresses(addresses: string | readonly string[]): readonly string[] {
  const listed: readonly unknown[] | string = typeof addresses === "string" ? [addresses] : addresses;
  if (!Array.isArray(listed) || !listed.every((address) => typeof address === "string")) {
    throw new InvalidInputError('addresses is a string such as "127.0.0.1:5225", or an array of them for a cluster');
  }
  return listed;
}

function endpoint(address: string): Endpoint {
  const match = /^(?:\[([^\]]+)\]|([^:\s[\]]+)):(\d{1,5})$/.exec(address);
  const host = match?.[1] ?? match?.[2];
  const port = Number(match?.[3]);
  if (host === undefined || !(port >= 1 && port <= 65_535) || (match?.[1] !== undefined && isIP(host) !== 6)) {
    throw new InvalidInputError(`address "${address}": expected host:port, or [addr]:port for IPv6`);
  }
  return { host, port };
}

function checkedFingerprint(fingerprint: string | Uint8Array): Buffer {
  checkText("fingerprint", fingerprint);
  if (typeof fingerprint === "string") {
    if (!/^[0-9a-fA-F]{64}$/.test(fingerprint)) throw new InvalidInputError("a fingerprint has 64 hexadecimal digits");
    return Buffer.from(fingerprint, "hex");
  }
  if (fingerprint.length !== 32) throw new InvalidInputError(`a fingerprint has 32 bytes, got ${fingerprint.length}`);
  return Buffer.from(fingerprint);
}

function checkedToken(token: string | Uint8Array | undefined, endpoints: readonly Endpoint[]): Buffer {
  if (token !== undefined) checkText("token", token);
  const bytes = Buffer.from(token ?? "");
  if (bytes.length === 0) {
    const remote = endpoints.find(({ host }) => !isLoopback(host));
    if (remote === undefined) return bytes;
    throw new InvalidInputError(`a token is needed: ${remote.host} is not a loopback address`);
  }
  if (bytes.length < TOKEN_SIZE_BYTES_MIN || bytes.length > TOKEN_SIZE_BYTES_MAX) {
    throw new InvalidInputError(`a token has ${TOKEN_SIZE_BYTES_MIN} to ${TOKEN_SIZE_BYTES_MAX} bytes, got ${bytes.length}`);
  }
  return bytes;
}

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || (isIP(host) === 4 && host.startsWith("127."));
}
