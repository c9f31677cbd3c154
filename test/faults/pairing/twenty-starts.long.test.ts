import { expect } from "vitest";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import { listOf } from "../../support/cli-fault.ts";
import { proves } from "../../support/proves.ts";
import { spawnProgram } from "../../support/spawn-program.ts";
import { startGateway } from "../../support/start-gateway.ts";
import { inviteCode } from "../../support/start-node.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const patience = { timeout: 300_000 };

proves(
  "pairing.same-id-for-ever",
  "twenty starts, the first five killed at once, are one node with one id",
  patience,
  async () => {
    await using gateway = await startGateway();
    await using home = await makeTempFolder();
    const code = await inviteCode(gateway, ["--name", "devbox"]);
    const ids = new Set<string>();
    for (let start = 0; start < 20; start += 1) {
      const isFirst = ids.size === 0;
      await using program = spawnProgram(
        isFirst ? ["node", "join", code, "--json"] : ["node", "run", "--json"],
        {
          home: home.path,
        },
      );
      if (start < 5) {
        // Ten, twenty … fifty milliseconds after the start, as far as a busy machine keeps to it.
        await systemClock.sleep(10 * (start + 1));
        await program.kill("SIGKILL");
        continue;
      }
      const ready = await program.waitForLine((line) => line.includes('"event":"ready"'));
      ids.add(idIn(ready));
      await program.kill(start % 2 === 0 ? "SIGKILL" : "SIGTERM");
    }
    expect(ids.size).toBe(1);
    const nodes = listOf(await gateway.json(["nodes", "ls"]), "nodes");
    expect(nodes).toMatchObject([{ alias: "devbox", id: [...ids][0] }]);
  },
);

function idIn(line: string): string {
  const ready: unknown = JSON.parse(line);
  if (typeof ready === "object" && ready !== null && "nodeId" in ready) return String(ready.nodeId);
  throw new Error(`the line has no id: ${line}`);
}
