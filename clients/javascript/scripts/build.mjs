// Builds both module forms: dist/esm as written, dist/cjs with its own package.json that says so.

import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";

const tsc = createRequire(import.meta.url).resolve("typescript/bin/tsc");
const run = (...flags) => execFileSync(process.execPath, [tsc, "-p", "tsconfig.json", ...flags], { stdio: "inherit" });

rmSync("dist", { recursive: true, force: true });
run();
run("--module", "commonjs", "--moduleResolution", "node10", "--ignoreDeprecations", "5.0", "--outDir", "dist/cjs");
mkdirSync("dist/cjs", { recursive: true });
writeFileSync("dist/cjs/package.json", '{ "type": "commonjs" }\n');
// For the package; under version control they are at the root only.
for (const licence of ["LICENSE-APACHE", "LICENSE-MIT"]) copyFileSync(`../../${licence}`, licence);
