import type { ViteUserConfig } from "vitest/config";
import { suiteConfig } from "./support/vitest-base.ts";

// The short attacks run with the tests; here they run together with the long races, `*.long.test.ts`.
const config: ViteUserConfig = suiteConfig({
  include: ["test/attacks/**/*.test.ts", "test/**/*.long.test.ts"],
  testTimeoutMs: 30 * 60_000,
  maxWorkers: 1,
});

export default config;
