// TLS: the right authority is accepted over 1.2 and 1.3; another authority and another host name are refused.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import type { SecureVersion } from "node:tls";
import { Broker, type TicketingError, type TlsOptions } from "../src/index.js";
import { ScriptedServer } from "./support/server.js";

interface Certificates {
  ca: Buffer;
  otherCa: Buffer;
  cert: Buffer;
  key: Buffer;
}

let directory: string;
let certificates: Certificates;

function openssl(...args: string[]): void {
  execFileSync("openssl", args, { cwd: directory, stdio: ["ignore", "ignore", "pipe"] });
}

before(() => {
  directory = mkdtempSync(join(tmpdir(), "ticketing-tls-"));
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
  for (const name of ["ca", "other"]) {
    openssl("req", "-x509", ...key, "-days", "2", "-subj", `/CN=${name}`, "-keyout", `${name}.key`, "-out", `${name}.pem`);
  }
  writeFileSync(join(directory, "san"), "subjectAltName=DNS:locks.test,IP:127.0.0.1\n");
  openssl("req", ...key, "-subj", "/CN=leaf", "-keyout", "leaf.key", "-out", "leaf.csr");
  openssl(
    "x509",
    "-req",
    "-in",
    "leaf.csr",
    "-CA",
    "ca.pem",
    "-CAkey",
    "ca.key",
    "-days",
    "2",
    "-extfile",
    "san",
    "-out",
    "leaf.pem",
  );
  const read = (name: string): Buffer => readFileSync(join(directory, name));
  certificates = { ca: read("ca.pem"), otherCa: read("other.pem"), cert: read("leaf.pem"), key: read("leaf.key") };
});

after(() => rmSync(directory, { recursive: true, force: true }));

/** The first connection attempt's result: "ok", or the error's name and what its message says of the cause. */
async function attempt(tls: TlsOptions | true, version: SecureVersion): Promise<string> {
  const { cert, key } = certificates;
  const server = await ScriptedServer.start({ tls: { cert, key, minVersion: version, maxVersion: version } });
  const broker = new Broker({ addresses: server.address, tls });
  try {
    return await broker.ready(1.5).then(
      () => "ok",
      (error: unknown) => {
        const { code, message } = error as TicketingError;
        return `${code}: ${/does not match certificate|certificate/.exec(message)?.[0] ?? message}`;
      },
    );
  } finally {
    await broker.close();
    await server.stop();
  }
}

for (const version of ["TLSv1.2", "TLSv1.3"] as const) {
  test(`${version}: the right authority is accepted, by address and by name`, async () => {
    assert.equal(await attempt({ ca: certificates.ca }, version), "ok");
    assert.equal(await attempt({ ca: certificates.ca, serverName: "locks.test" }, version), "ok");
  });

  test(`${version}: another authority is refused`, async () => {
    assert.equal(await attempt({ ca: certificates.otherCa }, version), "NotConnected: certificate");
    assert.equal(await attempt(true, version), "NotConnected: certificate");
  });

  test(`${version}: another host name is refused`, async () => {
    assert.equal(
      await attempt({ ca: certificates.ca, serverName: "elsewhere.test" }, version),
      "NotConnected: does not match certificate",
    );
  });

  test(`${version}: insecure accepts anything, and only when it is asked for`, async () => {
    assert.equal(await attempt({ insecure: true }, version), "ok");
  });
}
