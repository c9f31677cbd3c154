import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { findAdminSocket } from "../../../gateway/cli/find-admin-socket.ts";
import { Files } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { openGrpcClient } from "../../../shared/rpc/grpc-client.ts";
import type { Client } from "../../../shared/rpc/service.ts";
import { errorOf, startFilesPair, type FilesPair } from "../../scenarios/files/pair.ts";
import { faultOf } from "../../support/fault-of.ts";
import { proves } from "../../support/proves.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { writeWhole } from "../../support/write-whole.ts";

const workspace = "devbox:/app";
const path = "d/file.txt";
const planted = "planted on the gateway's own disk";

const operations: Readonly<Record<string, (client: Client<typeof Files>) => Promise<unknown>>> = {
  stat: (client) => client.stat({ workspace, path }),
  list: (client) => client.list({ workspace, path: "d" }),
  read: (client) => Array.fromAsync(client.read({ workspace, path })),
  tree: (client) => Array.fromAsync(client.readTree({ workspace, path: "d" })),
  manifest: (client) => Array.fromAsync(client.manifest({ workspace, path: "d" })),
  watch: (client) => Array.fromAsync(client.watch({ workspace, path: "d" })),
  write: (client) => writeWhole(client, { workspace, path, content: "written" }),
  remove: (client) => client.remove({ workspace, path }),
};

const offline = { code: "WORKSPACE_ACCESS_UNAVAILABLE", details: { reason: "node_offline" } };

/** What is asked for while the node is away is told so, and what stands at its path here is neither shown nor changed. */
async function expectOffline(pair: FilesPair): Promise<void> {
  await using channel = openGrpcClient({
    address: `unix:${await findAdminSocket(join(pair.gateway.home, "gateway"))}`,
    security: "insecure",
  });
  const client = channel.client(Files);
  for (const [name, work] of Object.entries(operations))
    expect([name, await faultOf(work(client))]).toMatchObject([name, offline]);
  await using here = await makeTempFolder();
  for (const words of [["sync"], ["sync", "--push"], ["get"]]) {
    const result = await pair.files([...words, `${workspace}/d`, here.join("tree"), "--json"]);
    expect([words, result.exitCode, errorOf(result)]).toMatchObject([words, 5, offline]);
    expect(result.stdout + result.stderr).not.toContain(planted);
  }
  expect(await here.entries()).toEqual([]);
  expect(await readdir(join(pair.workspace.path, "d"))).toEqual(["file.txt"]);
  expect(await pair.workspace.text(path)).toBe(planted);
}

proves(
  "files.offline-never-local",
  "a node that is cut off is not stood in for by a file of the gateway's machine, nor after a restart",
  { timeout: 180_000 },
  async () => {
    await using pair = await startFilesPair({ files: { [path]: "on the node" } });
    expect((await pair.client.stat({ workspace, path })).entry?.sizeBytes).toBe(11n);
    await pair.node.kill("SIGKILL");
    // Both programs run on this machine: from now on this is only the gateway's disk.
    await pair.workspace.write({ [path]: planted });
    await expectOffline(pair);
    await pair.gateway.restart();
    await expectOffline(pair);
    await pair.node.restart();
    const cat = await pair.files(["cat", `${workspace}/${path}`]);
    expect([cat.exitCode, cat.stdout]).toEqual([0, planted]);
  },
);
