import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { join } from "node:path";
import { expect } from "vitest";
import { Files } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { rootPath } from "../../../shared/names/workspace-path.ts";
import { openRoot } from "../../../shared/root/open-root.ts";
import { openGrpcClient } from "../../../shared/rpc/grpc-client.ts";
import { startGrpcServer } from "../../../shared/rpc/grpc-server.ts";
import { serve } from "../../../shared/rpc/service.ts";
import { packTree } from "../../../shared/tree/pack-tree.ts";
import { storeTree } from "../../../shared/tree/store-tree.ts";
import type { TreePart } from "../../../shared/tree/tree-part.ts";
import { proves } from "../../support/proves.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { openTempExports } from "../../unit/workspace/temp-exports.ts";

function fill(dir: string): void {
  for (let index = 0; index < 30; index += 1) {
    mkdirSync(join(dir, `folder-${index % 5}`), { recursive: true });
    writeFileSync(join(dir, `folder-${index % 5}`, `file-${index}`), `content ${index} `.repeat(400 * index));
  }
  writeFileSync(join(dir, "large"), Buffer.alloc(2_000_000, "large"));
}

/** Path and digest of every file below a folder. */
async function look(folder: string): Promise<Map<string, string>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const seen = new Map<string, string>();
  for (const entry of entries.filter((one) => one.isFile())) {
    const path = join(entry.parentPath, entry.name);
    seen.set(
      path.slice(folder.length),
      createHash("sha256")
        .update(await readFile(path))
        .digest("hex"),
    );
  }
  return seen;
}

/** Every entry in a message of its own. */
async function* oneByOne(parts: AsyncIterable<TreePart>): AsyncGenerator<TreePart, void> {
  for await (const part of parts) {
    let at = 0;
    for (const entry of part.entries) {
      const end = at + Number(entry.inlineBytes);
      yield { entries: [entry], content: Buffer.from(part.content.subarray(at, end)) };
      at = end;
    }
    if (part.entries.length === 0) yield { ...part, content: Buffer.from(part.content) };
  }
}

async function* replay(parts: readonly TreePart[]): AsyncGenerator<TreePart, void> {
  yield* parts;
}

interface CuttingLine extends AsyncDisposable {
  readonly port: number;
}

/** A line that breaks once `afterBytes` came back over it. */
async function startCuttingLine(targetPort: number, afterBytes: number): Promise<CuttingLine> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    const target = connect({ host: "127.0.0.1", port: targetPort });
    let cameBytes = 0;
    const cut = (): void => {
      socket.destroy();
      target.destroy();
    };
    for (const one of [socket, target]) {
      sockets.add(one);
      one.on("error", cut).on("close", cut);
    }
    socket.pipe(target);
    target.on("data", (bytes: Buffer) => {
      socket.write(bytes.subarray(0, afterBytes - cameBytes));
      cameBytes += bytes.byteLength;
      if (cameBytes >= afterBytes) socket.end(cut);
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}

proves(
  "files.tree-cut",
  "a tree that breaks off is an error wherever that happens, and no part of a file has its name",
  { timeout: 120_000 },
  async () => {
    await using temp = await openTempExports(fill);
    const whole = await look(temp.dir);
    await using source = await openRoot(temp.dir);
    const parts = await Array.fromAsync(oneByOne(packTree({ root: source, path: rootPath })));
    expect(parts.length).toBeGreaterThan(36);
    const storeAndLook = async (tree: AsyncIterable<TreePart>): Promise<void> => {
      await using to = await makeTempFolder();
      await using root = await openRoot(to.path);
      const storing = storeTree(tree, { root, path: rootPath, precondition: "any" });
      expect(
        await storing.then(
          () => "complete",
          () => "failed",
        ),
      ).toBe("failed");
      for (const [path, digest] of await look(to.path))
        expect([path, digest]).toEqual([path, whole.get(path)]);
    };
    for (let length = 0; length < parts.length; length += 1)
      await storeAndLook(replay(parts.slice(0, length)));

    await using server = await startGrpcServer({
      services: [serve(Files, temp.files)],
      address: "127.0.0.1:0",
      credentials: "insecure",
    });
    for (let round = 0; round < 20; round += 1) {
      const afterBytes = 200 + Math.floor(Math.random() * 3_500_000);
      await using line = await startCuttingLine(server.port, afterBytes);
      await using channel = openGrpcClient({ address: `127.0.0.1:${line.port}`, security: "insecure" });
      await storeAndLook(channel.client(Files).readTree({ workspace: "app", path: "" }));
    }
  },
);
