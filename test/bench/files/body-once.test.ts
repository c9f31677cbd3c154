import { randomBytes } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { findAdminSocket } from "../../../gateway/cli/find-admin-socket.ts";
import { Admin } from "../../../shared/gen/fairlead/v1/admin_pb.ts";
import { openGrpcClient } from "../../../shared/rpc/grpc-client.ts";
import { startFilesPair } from "../../scenarios/files/pair.ts";
import { proves } from "../../support/proves.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const sizeBytes = 16 * 1024 * 1024;

/** What `files put --json` prints. */
interface PutResult {
  readonly bytesSent: number;
}

proves(
  "files.bench-body-once",
  "what a person is asked about crosses the line once: a new file, and one that replaces another",
  { timeout: 300_000 },
  async () => {
    await using pair = await startFilesPair({ throughProxy: true, files: { old: randomBytes(sizeBytes) } });
    await using here = await makeTempFolder();
    const content = randomBytes(sizeBytes);
    await writeFile(here.join("file"), content);
    const socket = await findAdminSocket(join(pair.gateway.home, "gateway"));
    await using channel = openGrpcClient({ address: `unix:${socket}`, security: "insecure" });
    const admin = channel.client(Admin);
    await pair.setPolicy(
      `files:\n  ask: { nodes: ["${pair.node.nodeId}"], read: [], write: [], ask: on-miss }\n`,
    );
    const wireBytes = (): number => (pair.proxy?.counts.up.bytes ?? 0) + (pair.proxy?.counts.down.bytes ?? 0);
    for (const target of ["new", "old"]) {
      const before = wireBytes();
      const putting = pair.files([
        "put",
        here.join("file"),
        `devbox:/app/${target}`,
        "--if-match",
        "any",
        "--json",
      ]);
      let asked: { readonly id: string; readonly detail: string } | undefined;
      await expect
        .poll(async () => ([asked] = (await admin.listApprovals({ all: false })).approvals).length, {
          timeout: 30_000,
        })
        .toBe(1);
      // It was looked at what would be written to, and nothing of the file has been sent.
      expect(JSON.parse(asked?.detail ?? "")).toMatchObject({ operation: "write", writesBytes: sizeBytes });
      expect(wireBytes() - before).toBeLessThan(sizeBytes / 100);
      await admin.decideApproval({ id: asked?.id ?? "", allow: true });
      const { exitCode, json } = await putting;
      const movedBytes = wireBytes() - before;
      expect([target, exitCode, (json as PutResult).bytesSent]).toEqual([target, 0, sizeBytes]);
      expect((await readFile(join(pair.workspace.path, target))).equals(content)).toBe(true);
      console.log(`${target}: ${(movedBytes / sizeBytes).toFixed(4)} × of its size on the wire`);
      expect(movedBytes / sizeBytes).toBeLessThanOrEqual(1.05);
    }
  },
);
