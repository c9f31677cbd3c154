import { expect } from "vitest";
import { startMemory } from "../../../node-agent/memory/memory.ts";
import { Memory } from "../../../shared/gen/fairlead/v1/memory_pb.ts";
import { silentLog } from "../../../shared/log/log.ts";
import { createDirectLinks } from "../../support/direct-link.ts";
import { toExport } from "../../support/memory-kit.ts";
import { proves } from "../../support/proves.ts";
import { runWorker } from "../../support/run-worker.ts";
import { makeTempWorkspace } from "../../support/temp-workspace.ts";

const files = 1_000;
const signal = new AbortController().signal;

proves(
  "memory.bench-lasting-worker",
  "inspecting 1,000 files through the lasting worker takes a tenth of the time of 1,000 exchanges, or less",
  { timeout: 1_800_000 },
  async () => {
    const paths = Array.from({ length: files }, (_, at) => `memory/${at % 10}/n${at}.md`);
    await using workspace = await makeTempWorkspace(
      Object.fromEntries(paths.map((path) => [path, `text of ${path}\n`])),
    );
    await using host = startMemory({
      workspaces: () => ({
        workspaces: [toExport("app", workspace.path)],
        homeDir: workspace.join(".fairlead"),
        limits: { treeEntries: 1_000_000, treeDepth: 64 },
      }),
      environment: { HOME: "/", PATH: "/usr/bin:/bin" },
      log: silentLog,
    });
    const client = createDirectLinks()
      .connect({ nodeId: "devbox", services: [host.service] })
      .client(Memory);
    await client.read({ workspace: "app", path: "MEMORY.md" }, { signal });

    const lastingAt = performance.now();
    for (const path of paths) {
      const { files: found } = await client.inspect({ workspace: "app", paths: [path] }, { signal });
      expect(found[0]?.file?.path).toBe(path);
    }
    const lastingMs = performance.now() - lastingAt;

    const exchangesAt = performance.now();
    for (const path of paths) {
      const { stdout } = await runWorker(
        ["--files", workspace.path],
        JSON.stringify({ operation: "inspect", paths: [path] }),
      );
      expect(JSON.parse(stdout)).toMatchObject({ result: { files: [{ path }] } });
    }
    const exchangesMs = performance.now() - exchangesAt;
    console.log(
      `\nmemory, ${files} inspections: lasting worker ${lastingMs.toFixed(0)} ms, one exchange each ` +
        `${exchangesMs.toFixed(0)} ms, 1 : ${(exchangesMs / lastingMs).toFixed(0)}`,
    );
    expect(lastingMs).toBeLessThanOrEqual(exchangesMs / 10);
  },
);
