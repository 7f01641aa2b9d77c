// What the form of the deployment page writes: `node --test docs/run-command.test.cjs`.
"use strict";

const assert = require("node:assert/strict");
const { readFileSync } = require("node:fs");
const { join } = require("node:path");
const { test } = require("node:test");
const { command, complaints } = require("./src/run-command.js");

const page = readFileSync(join(__dirname, "src/deployment.md"), "utf8");
const settings = JSON.parse(/<script type="application\/json" id="settings">([^]*?)<\/script>/.exec(page)[1]);

const valueOf = (chosen) => {
  const names = settings.map(({ variable }) => variable);
  for (const name of Object.keys(chosen)) assert.ok(names.includes(name), `${name} is no setting`);
  return (name) => chosen[name] ?? "";
};
const write = (form, chosen) => command(settings, valueOf(chosen), form);
const complain = (form, chosen) => complaints(settings, valueOf(chosen), form).join("\n");

const node = {
  TICKETING_LISTEN: "0.0.0.0:5225",
  TICKETING_TOKEN_FILE: "/etc/ticketing/token",
  TICKETING_CLUSTER_ID: "id",
  TICKETING_CLUSTER_SLOTS: "a:5225,b:5225,c:5225",
  TICKETING_SLOT: "1",
  TICKETING_PEER_TOKEN_FILE: "/etc/ticketing/peer",
};

test("the defaults need nothing", () => {
  assert.equal(write("shell", {}), "ticketing-server");
  assert.equal(write("shell", { TICKETING_LISTEN: "127.0.0.1:5225" }), "ticketing-server");
  assert.equal(complain("shell", {}), "");
});

test("a shell and systemd get their own quoting", () => {
  const chosen = { TICKETING_STATE_DIR: "/var/lib/it's 100%" };
  assert.equal(write("shell", chosen), "ticketing-server \\\n  --state-dir '/var/lib/it'\\''s 100%'");
  assert.equal(write("systemd", chosen), 'Environment="TICKETING_STATE_DIR=/var/lib/it\'s 100%%"');
});

test("a node's container has its files, its socket and both its ports", () => {
  const written = write("docker", { ...node, TICKETING_ADMIN_SOCKET: "/run/locks/admin" });
  for (const part of [
    "--publish 5225:5225",
    "--publish 6225:6225",
    "--env TICKETING_TOKEN_FILE=/run/secrets/token",
    "--volume /etc/ticketing/token:/run/secrets/token:ro",
    "--env TICKETING_PEER_TOKEN_FILE=/run/secrets/peer-token",
    "--volume /etc/ticketing/peer:/run/secrets/peer-token:ro",
    "--env TICKETING_ADMIN_SOCKET=/run/ticketing/admin",
    "--volume /run/locks:/run/ticketing",
    "--env TICKETING_SLOT=1",
  ]) {
    assert.ok(written.includes(`  ${part}`), `${part} in\n${written}`);
  }
  assert.match(complain("docker", node), /^The container's user 65532 [^\n]*$/);
});

test("every setting that is a path is mounted", () => {
  for (const { variable } of settings.filter(({ value }) => value === "PATH")) {
    const written = write("docker", { [variable]: "/a/path" });
    assert.match(written, new RegExp(`--env ${variable}=/(run|state).*\\n  --volume /a`), variable);
    assert.match(complain("docker", { [variable]: "path" }), new RegExp(`whole path for ${variable}`));
  }
});

test("the peers' port is the one that is set, or listed, or 1000 ports up", () => {
  const slots = "a:5225/a:7000,b:5225/b:7001,c:5225";
  const published = (more) => write("docker", { ...node, TICKETING_CLUSTER_SLOTS: slots, ...more });
  assert.match(published({}), /--publish 7001:7001/);
  assert.match(published({ TICKETING_SLOT: "2" }), /--publish 6225:6225/);
  assert.match(published({ TICKETING_PEER_LISTEN: "0.0.0.0:7777" }), /--publish 7777:7777/);
});

test("what the server would refuse is said", () => {
  const cases = [
    [{ TICKETING_LISTEN: "0.0.0.0:5225" }, /needs a token/],
    [{ TICKETING_LISTEN: "localhost:5225" }, /not IP:PORT/],
    [{ TICKETING_TLS_CERT: "/c" }, /both the certificate and the key/],
    [{ TICKETING_MAX_KEYS: "0" }, /TICKETING_MAX_KEYS is a whole number from 1/],
    [{ TICKETING_CLUSTER_ID: "id" }, /needs TICKETING_CLUSTER_SLOTS too[^]*needs TICKETING_SLOT too[^]*PEER_TOKEN_FILE/],
    [{ ...node, TICKETING_SLOT: "3" }, /from 0/],
    [{ ...node, TICKETING_CLUSTER_SLOTS: "a:1,b:1" }, /3 or 5/],
    [{ TICKETING_TOKEN: "t", TICKETING_TOKEN_FILE: "/t" }, /either/],
  ];
  for (const [chosen, expected] of cases) assert.match(complain("shell", chosen), expected);
  assert.equal(complain("shell", node), "");
});
