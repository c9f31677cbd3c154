import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { ViteUserConfig } from "vitest/config";
import { CountReporter } from "./reporter.ts";

/** What a suite chooses for itself; everything else is the same for all of them. */
export interface SuiteChoice {
  readonly include: readonly string[];
  readonly exclude?: readonly string[];
  readonly testTimeoutMs: number;
  /** Test files that run at the same time, each in a process of its own. */
  readonly maxWorkers: number;
}

/** The vitest configuration of one suite. Throws below Node 24, where a green run would prove nothing. */
export function suiteConfig(choice: SuiteChoice): ViteUserConfig {
  const major = Number(process.versions.node.split(".")[0]);
  if (major < 24) {
    throw new Error(`the tests need Node 24 or newer, this is ${process.version}: run them with npm or npx`);
  }
  return {
    root: fileURLToPath(new URL("../..", import.meta.url)),
    test: {
      include: [...choice.include],
      exclude: ["**/node_modules/**", ...(choice.exclude ?? [])],
      globalSetup: "test/support/build-programs.ts",
      // Programs that a test starts from a file of its own are compiled once for all starts.
      env: { NODE_COMPILE_CACHE: join(tmpdir(), "fairlead-compile-cache-own") },
      pool: "forks",
      maxWorkers: choice.maxWorkers,
      testTimeout: choice.testTimeoutMs,
      hookTimeout: choice.testTimeoutMs,
      expect: { poll: { timeout: 10_000, interval: 20 } },
      reporters: ["default", new CountReporter()],
    },
  };
}
