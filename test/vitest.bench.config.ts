import type { ViteUserConfig } from "vitest/config";
import { suiteConfig } from "./support/vitest-base.ts";

// One file at a time: two benchmarks that share the processor measure each other.
const config: ViteUserConfig = suiteConfig({
  include: ["test/bench/**/*.test.ts"],
  testTimeoutMs: 30 * 60_000,
  maxWorkers: 1,
});

export default config;
