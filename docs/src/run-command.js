// The form that writes a run command. Its fields are the server's settings, from the data beside it.
"use strict";

(() => {
  const forms = {
    shell: "Flags, for a shell",
    docker: "docker run",
    systemd: "Environment= lines for systemd",
  };
  const peerPortOffset = 1000;
  // Where files are inside the container.
  const mounts = {
    TICKETING_TOKEN_FILE: "token",
    TICKETING_TLS_CERT: "cert.pem",
    TICKETING_TLS_KEY: "key.pem",
    TICKETING_PEER_TOKEN_FILE: "peer-token",
    TICKETING_PEER_TLS_CERT: "peer-cert.pem",
    TICKETING_PEER_TLS_KEY: "peer-key.pem",
    TICKETING_PEER_TLS_CA: "peer-ca.pem",
  };
  const clusterNames = ["TICKETING_CLUSTER_ID", "TICKETING_CLUSTER_SLOTS", "TICKETING_SLOT"];
  const pathNames = [...Object.keys(mounts), "TICKETING_STATE_DIR", "TICKETING_ADMIN_SOCKET"];

  const loopback = (address) => /^(127(\.\d+){3}|\[::1\]):\d+$/.test(address);
  const isAddress = (address) => /^(\d+(\.\d+){3}|\[[0-9A-Fa-f:.]+\]):\d{1,5}$/.test(address);
  const listed = (text) => text.split(",").map((part) => part.trim()).filter(Boolean);
  const portOf = (address) => address.slice(address.lastIndexOf(":") + 1);
  const isPlain = (text) => /^[A-Za-z0-9_@%+=:,./-]+$/.test(text);
  const quoted = (text) => (isPlain(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);

  // The port on which a node hears other nodes, as text; empty for a single server.
  const peerPort = (value) => {
    if (value("TICKETING_PEER_LISTEN")) return portOf(value("TICKETING_PEER_LISTEN"));
    const [clients, peers] = (listed(value("TICKETING_CLUSTER_SLOTS"))[value("TICKETING_SLOT")] ?? "").split("/");
    if (peers) return portOf(peers);
    return clients ? String(Number(portOf(clients)) + peerPortOffset) : "";
  };

  const dockerOptions = ({ variable, text }) => {
    const mounted = (inside, from, to) => [`  --env ${variable}=${inside}`, `  --volume ${quoted(`${from}:${to}`)}`];
    const name = mounts[variable];
    if (name) return mounted(`/run/secrets/${name}`, text, `/run/secrets/${name}:ro`);
    if (variable === "TICKETING_STATE_DIR") return mounted("/state", text, "/state");
    if (variable === "TICKETING_ADMIN_SOCKET") {
      const [, directory, socket] = /^(.*?)\/?([^/]*)$/.exec(text);
      return mounted(`/run/ticketing/${socket}`, directory || "/", "/run/ticketing");
    }
    return [`  --env ${quoted(`${variable}=${text}`)}`];
  };

  const lines = {
    shell: (chosen) => ["ticketing-server", ...chosen.map(({ flag, text }) => `  ${flag} ${quoted(text)}`)].join(" \\\n"),
    docker: (chosen, value) => {
      const ports = [...listed(value("TICKETING_LISTEN")).map(portOf), peerPort(value)].filter(Boolean);
      const published = [...new Set(ports)].map((port) => `  --publish ${port}:${port}`);
      return ["docker run --read-only", ...published, ...chosen.flatMap(dockerOptions), "  ticketing"].join(" \\\n");
    },
    systemd: (chosen) => chosen
      .map(({ variable, text }) => `Environment="${variable}=${text.replace(/[\\"]/g, "\\$&").replaceAll("%", "%%")}"`)
      .join("\n") || "# nothing to set: the defaults are right",
  };

  const clusterComplaints = (value) => {
    const given = clusterNames.filter(value);
    if (given.length === 0) return [];
    const found = clusterNames.filter((name) => !value(name)).map((name) => `A node of a cluster needs ${name} too.`);
    const slots = listed(value("TICKETING_CLUSTER_SLOTS"));
    if (slots.length > 0 && slots.length !== 3 && slots.length !== 5) found.push("A cluster has 3 or 5 slots.");
    if (value("TICKETING_SLOT") && !(/^\d$/.test(value("TICKETING_SLOT")) && Number(value("TICKETING_SLOT")) < slots.length)) {
      found.push("TICKETING_SLOT is the node's place in the list of slots, from 0.");
    }
    if (!value("TICKETING_PEER_TOKEN") && !value("TICKETING_PEER_TOKEN_FILE")) {
      found.push("Nodes prove a token to each other: set TICKETING_PEER_TOKEN_FILE.");
    }
    return found;
  };

  const dockerComplaints = (value, addresses) => {
    const found = [];
    if (!addresses.some((address) => !loopback(address))) {
      found.push("Inside a container a loopback address is reached by nobody: listen on 0.0.0.0:5225.");
    }
    const paths = pathNames.filter(value);
    for (const name of paths.filter((name) => !value(name).startsWith("/"))) {
      found.push(`Docker takes a relative path for the name of a volume: give the whole path for ${name}.`);
    }
    if (paths.length > 0) {
      found.push("The container's user 65532 has to be able to read these files, and to write to the directories.");
    }
    return found;
  };

  /** What is wrong with the settings, or should be known; `value` gives each setting's text, empty when not set. */
  const complaints = (settings, value, form) => {
    const found = [];
    const addresses = listed(value("TICKETING_LISTEN"));
    const hasToken = value("TICKETING_TOKEN") || value("TICKETING_TOKEN_FILE");
    for (const address of addresses.filter((address) => !isAddress(address))) {
      found.push(`"${address}" is not IP:PORT: names cannot be listened on.`);
    }
    if (addresses.some((address) => !loopback(address)) && !hasToken) {
      found.push("An address beyond loopback needs a token: set TICKETING_TOKEN_FILE.");
    }
    if (value("TICKETING_TOKEN") && value("TICKETING_TOKEN_FILE")) {
      found.push("Set either the token or its file.");
    }
    if (value("TICKETING_TOKEN") || value("TICKETING_PEER_TOKEN")) {
      found.push("Command lines and environments can be seen by others: prefer the files for tokens.");
    }
    if (Boolean(value("TICKETING_TLS_CERT")) !== Boolean(value("TICKETING_TLS_KEY"))) {
      found.push("TLS needs both the certificate and the key.");
    }
    for (const { variable } of settings.filter((setting) => setting.value === "COUNT" && value(setting.variable))) {
      if (!/^0*[1-9]\d*$/.test(value(variable))) found.push(`${variable} is a whole number from 1.`);
    }
    found.push(...clusterComplaints(value));
    return form === "docker" ? [...found, ...dockerComplaints(value, addresses)] : found;
  };

  /** The command for a form. */
  const command = (settings, value, form) => {
    const chosen = settings
      .map((setting) => ({ ...setting, text: value(setting.variable) }))
      .filter(({ text, default: standard }) => text !== "" && text !== standard);
    return lines[form](chosen, value);
  };

  const element = (name, properties = {}, children = []) => {
    const created = Object.assign(document.createElement(name), properties);
    created.append(...children);
    return created;
  };

  const build = () => {
    const settings = JSON.parse(document.getElementById("settings").textContent);
    const root = document.getElementById("run-command");
    const inputs = new Map();
    const rows = settings.map(({ variable, value, default: standard, help }) => {
      const input = element("input", { id: variable, placeholder: standard || value, spellcheck: false, size: 28 });
      inputs.set(variable, input);
      return element("tr", {}, [
        element("td", {}, [element("label", { htmlFor: variable, textContent: variable, title: help })]),
        element("td", {}, [input]),
      ]);
    });
    const options = Object.entries(forms).map(([key, text]) => element("option", { value: key, textContent: text }));
    const form = element("select", { ariaLabel: "kind of command" }, options);
    const output = element("code");
    const notes = element("ul");
    root.append(
      element("table", {}, [element("tbody", {}, rows)]),
      element("p", {}, [form]),
      element("pre", {}, [output]),
      notes,
    );
    const update = () => {
      const value = (variable) => inputs.get(variable).value.trim();
      output.textContent = command(settings, value, form.value);
      const items = complaints(settings, value, form.value);
      notes.replaceChildren(...items.map((text) => element("li", { textContent: text })));
    };
    root.addEventListener("input", update);
    update();
  };

  // Its test runs it without a page.
  if (typeof document === "undefined") module.exports = { command, complaints };
  else build();
})();
