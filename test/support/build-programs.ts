import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { builtFolder } from "./program-file.ts";

const top = fileURLToPath(new URL("../..", import.meta.url));

/**
 * Builds the programs that the tests start, once for a run: from the sources each start would strip the types again. What
 * has not changed is not built again; types are checked elsewhere. Fails with what the compiler says.
 */
export function setup(): void {
  const compiler = fileURLToPath(new URL("../../node_modules/typescript/bin/tsc", import.meta.url));
  const options = ["--noCheck", "--incremental", "--tsBuildInfoFile", `${builtFolder}/.tsbuildinfo`];
  const argv = [compiler, "-p", "tsconfig.build.json", ...options, "--outDir", builtFolder];
  execFileSync(process.execPath, argv, { cwd: top, timeout: 120_000, stdio: "inherit" });
}
