import { createHash, randomBytes } from "node:crypto";
import { createReadStream } from "node:fs";
import { chmod, open, rm, stat, utimes, writeFile } from "node:fs/promises";
import { expect } from "vitest";
import { proves } from "../../support/proves.ts";
import { startGateway } from "../../support/start-gateway.ts";
import { startNode } from "../../support/start-node.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { makeTempWorkspace } from "../../support/temp-workspace.ts";

const mebi = 1024 * 1024;

async function digestOf(file: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(file, { highWaterMark: mebi })) hash.update(chunk as Buffer);
  return `sha256:${hash.digest("hex")}`;
}

async function factsOf(file: string): Promise<unknown> {
  const { size, mode, mtimeNs } = await stat(file, { bigint: true });
  return { size, mode, microseconds: mtimeNs / 1000n, digest: await digestOf(file) };
}

proves("files.round-trip", "a file of any size comes back as it went", async () => {
  await using gateway = await startGateway();
  await using workspace = await makeTempWorkspace();
  await using local = await makeTempFolder();
  await using _ = await startNode({ gateway, profile: "full", workspaces: { app: `${workspace.path}:rw` } });
  const sizes = [0, 1, 4 * mebi - 1, 4 * mebi, 4 * mebi + 1, 17 * mebi, 4096 * mebi + 1];
  for (const [index, size] of sizes.entries()) {
    const [there, back] = [local.join("there.bin"), local.join("back.bin")];
    await writeFile(there, randomBytes(Math.min(size, 17 * mebi)));
    if (size > 17 * mebi) {
      await using file = await open(there, "r+");
      await file.truncate(size);
    }
    await chmod(there, index % 2 === 0 ? 0o640 : 0o755);
    await utimes(there, 1_700_000_000.123_456 + index, 1_700_000_000.123_456 + index);
    const facts = await factsOf(there);
    const answer = { bytesSent: size, bytes: size, digest: await digestOf(there), failed: [] };
    const remote = `devbox:/app/file-${index}.bin`;
    const waits = { timeoutMs: 20 * 60_000 };
    expect(await gateway.json(["files", "put", there, remote], waits)).toMatchObject(answer);
    expect(await factsOf(workspace.join(`file-${index}.bin`))).toEqual(facts);
    expect(await gateway.json(["files", "get", remote, back], waits)).toMatchObject(answer);
    expect(await factsOf(back)).toEqual(facts);
    for (const file of [there, back, workspace.join(`file-${index}.bin`)]) await rm(file);
  }
});
