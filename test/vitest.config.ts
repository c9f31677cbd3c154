import type { ViteUserConfig } from "vitest/config";
import { suiteConfig } from "./support/vitest-base.ts";

const config: ViteUserConfig = suiteConfig({
  include: ["test/**/*.test.ts"],
  exclude: ["test/bench/**", "test/**/*.long.test.ts"],
  testTimeoutMs: 30_000,
  maxWorkers: 2,
});

export default config;
