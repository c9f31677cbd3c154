import { spawn } from "node:child_process";
import { cp, readFile, symlink, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import { memberOf } from "../support/cli-fault.ts";
import { proves } from "../support/proves.ts";
import { runCli } from "../support/run-cli.ts";
import { startGateway } from "../support/start-gateway.ts";
import { startNode } from "../support/start-node.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

const top = fileURLToPath(new URL("../../", import.meta.url));

proves(
  "link.restart-needed-shown",
  "an agent that was upgraded under its feet shows both versions, and goes on",
  { timeout: 120_000 },
  async () => {
    await using gateway = await startGateway();
    await using node = await startNode({ gateway });
    await node.kill("SIGTERM");
    // The program as it is installed on the machine, which an upgrade replaces.
    await using installed = await makeTempFolder();
    for (const part of ["main.ts", "shared", "gateway", "node-agent", "package.json"])
      await cp(`${top}${part}`, installed.join(part), { recursive: true });
    await symlink(`${top}node_modules`, installed.join("node_modules"));
    const packageFile = installed.join("package.json");
    const text = await readFile(packageFile, "utf8");
    const { version } = Object(JSON.parse(text));
    const agent = spawn(process.execPath, [installed.join("main.ts"), "node", "run", "--json"], {
      env: { PATH: process.env["PATH"] ?? "", HOME: node.home, FAIRLEAD_HOME: node.home },
      stdio: ["ignore", "pipe", "inherit"],
    });
    const ended = new Promise<number | null>((resolve) => void agent.once("close", resolve));
    try {
      const status = async (): Promise<unknown> =>
        (await runCli(["node", "status", "--json"], { home: node.home })).json;
      const soon = { timeout: 40_000, interval: 200 };
      await expect.poll(async () => memberOf(await status(), "state"), soon).toBe("online");
      expect(await status()).toMatchObject({ version, installedVersion: null, restartNeeded: false });

      await writeFile(packageFile, text.replace(`"version": "${version}"`, '"version": "9.8.7"'));
      await expect.poll(async () => memberOf(await status(), "restartNeeded"), soon).toBe(true);
      expect(await status()).toMatchObject({ state: "online", version, installedVersion: "9.8.7" });
      const both = `9.8.7 is installed, ${version} runs`;
      expect((await runCli(["node", "status"], { home: node.home })).stdout).toContain(
        `restart needed: ${both}`,
      );
      await expect
        .poll(async () => (await gateway.cli(["nodes", "show", "devbox"])).stdout, soon)
        .toContain(`restart needed: ${both}`);
      const shown = await gateway.json(["nodes", "show", "devbox"]);
      expect(shown).toMatchObject({ state: "online", version, installedVersion: "9.8.7" });
      // It does not end itself.
      expect(agent.exitCode).toBeNull();
    } finally {
      agent.kill("SIGTERM");
      expect(await ended).toBe(0);
    }
  },
);
