import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { digestOf } from "../../../shared/content/digest.ts";
import { faultOf } from "../../support/fault-of.ts";
import { listSkillNames, openTestSessions } from "../../support/open-sessions.ts";
import { proves } from "../../support/proves.ts";
import { startGateway } from "../../support/start-gateway.ts";
import { startNode } from "../../support/start-node.ts";
import { makeTempWorkspace } from "../../support/temp-workspace.ts";

const text = "---\nname: one\ndescription: Does one.\n---\nDo it.\n";

proves(
  "files.store-damaged",
  "content that was altered in the gateway's store comes from its node again, and from nowhere while that is away",
  { timeout: 120_000 },
  async () => {
    await using workspace = await makeTempWorkspace({ "skills/one/SKILL.md": text });
    await using gateway = await startGateway();
    await using node = await startNode({ gateway, workspaces: { app: workspace.path } });
    await using open = await openTestSessions(gateway);
    const opened = await open.sessions.open({ agent: "main", workspace: `${node.alias}:/app` });
    const session = opened.session?.id ?? "";
    const names = (): Promise<readonly string[]> => listSkillNames(open.sessions, session);
    await expect.poll(names, { timeout: 20_000 }).toContain("one");
    const seen: string[] = [];
    const read = async (of: string, name: string): Promise<string> => {
      const chunks: Uint8Array[] = [];
      for await (const { chunk } of open.sessions.readSkill({ session: of, name })) {
        if (chunk.byteLength === 0) continue;
        chunks.push(chunk);
        seen.push(Buffer.from(chunk).toString());
      }
      return Buffer.concat(chunks).toString();
    };
    const hex = digestOf(text).slice("sha256:".length);
    const kept = join(gateway.home, "gateway/content", node.nodeId, hex.slice(0, 2), hex);
    const altered = text.replace("Do it", "Do so");
    expect(altered).toHaveLength(text.length);
    expect(await read(session, "one")).toBe(text);
    expect(await readFile(kept, "utf8")).toBe(text);

    await writeFile(kept, altered);
    expect(await read(session, "one")).toBe(text);
    expect(await readFile(kept, "utf8")).toBe(text);

    await node.kill("SIGTERM");
    await expect.poll(names, { timeout: 30_000 }).toContain("one (offline)");
    // The session keeps what it was shown; whoever was shown nothing is told that the node is away.
    expect(await read(session, "one")).toBe(text);
    expect(await faultOf(read("", "devbox-one"))).toMatchObject({ code: "NODE_OFFLINE" });
    for (const bytes of [altered, "", text.slice(1)]) {
      await writeFile(kept, bytes);
      for (let time = 0; time < 2; time += 1)
        expect(await faultOf(read(session, "one"))).toMatchObject({ code: "INTEGRITY_FAILURE" });
    }
    expect(new Set(seen)).toEqual(new Set([text]));
  },
);
