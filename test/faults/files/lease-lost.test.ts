import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect } from "vitest";
import { createWorkspaceRegistry, type Registration } from "../../../gateway/files/registry.ts";
import { digestOf } from "../../../shared/content/digest.ts";
import { Files, WritePrecondition } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import type { RootHooks } from "../../../shared/root/root-handle.ts";
import type { Client } from "../../../shared/rpc/service.ts";
import { createDirectClient } from "../../contract/files/direct-client.ts";
import { createDirectLinks } from "../../support/direct-link.ts";
import { faultOf } from "../../support/fault-of.ts";
import { proves } from "../../support/proves.ts";
import { openTempExports, type TempExports } from "../../unit/workspace/temp-exports.ts";

const chunk = 256 * 1024;
const old = "old content";

/** A node's workspace under a registration that the test releases. */
interface Leased extends AsyncDisposable {
  readonly temp: TempExports;
  readonly files: Client<typeof Files>;
  readonly registration: Registration;
}

interface LeasedOptions {
  readonly hooks?: RootHooks;
  /** What stands between the gateway and its node. */
  readonly between?: (node: Client<typeof Files>) => Partial<Client<typeof Files>>;
}

async function openLeased({ hooks, between }: LeasedOptions = {}): Promise<Leased> {
  const temp = await openTempExports(
    (dir) => {
      mkdirSync(join(dir, "d"));
      writeFileSync(join(dir, "d/target"), old);
      writeFileSync(join(dir, "big"), Buffer.alloc(64 * chunk));
    },
    hooks ? { hooks } : {},
  );
  const direct = createDirectClient(Files, temp.files);
  const node = { ...direct, ...between?.(direct) };
  const links = createDirectLinks();
  links.connect({ nodeId: "n1", services: [] });
  const registry = createWorkspaceRegistry({ links, clock: systemClock });
  const offer = { nodeId: "n1", workspace: "app", writable: true, containment: "kernel", leaseEpoch: 1n };
  const registration = registry.register(offer, () => node);
  return {
    temp,
    files: registry.acquire({ nodeId: "n1", workspace: "app" }).files,
    registration,
    [Symbol.asyncDispose]: () => temp[Symbol.asyncDispose](),
  };
}

type WriteRequests = Parameters<Client<typeof Files>["write"]>[0];

/** A write of two chunks to `path`; `onChunk` runs before the second one is handed over. */
async function* writing(path: string, onChunk: () => void = () => undefined): WriteRequests & AsyncGenerator {
  const content = Buffer.alloc(2 * chunk, "n");
  const sizeBytes = BigInt(content.length);
  const header = { path, precondition: WritePrecondition.ANY, sizeBytes };
  yield { part: { case: "header" as const, value: header } };
  yield { part: { case: "chunk" as const, value: content.subarray(0, chunk) } };
  onChunk();
  yield { part: { case: "chunk" as const, value: content.subarray(chunk) } };
  yield { part: { case: "trailer" as const, value: { sizeBytes, digest: digestOf(content) } } };
}

const lost = { code: "WORKSPACE_ACCESS_UNAVAILABLE" };

/** Everything there is, staged files too. */
const namesIn = (dir: string): readonly string[] =>
  readdirSync(dir, { recursive: true, encoding: "utf8" }).toSorted();

describe("a workspace that is released", () => {
  proves("files.lease-lost-in-flight", "aborts a read, and nothing of it comes later", async () => {
    await using leased = await openLeased();
    let chunks = 0;
    const reading = async (): Promise<void> => {
      for await (const { part } of leased.files.read({ path: "big" })) {
        if (part.case !== "chunk") continue;
        chunks += 1;
        if (chunks === 2) leased.registration.release();
      }
    };
    const fault = await faultOf(reading());
    expect([fault, chunks]).toMatchObject([{ ...lost, details: { reason: "stopped" } }, 2]);
  });

  proves("files.lease-lost-in-flight", "rejects a result that arrives after its end", async () => {
    const released = Promise.withResolvers<void>();
    const answered = Promise.withResolvers<void>();
    await using leased = await openLeased({
      between: (node) => ({
        stat: async (request) => {
          const answer = await node.stat(request);
          answered.resolve();
          await released.promise;
          return answer;
        },
      }),
    });
    const late = faultOf(leased.files.stat({ path: "d/target" }));
    await answered.promise;
    leased.registration.release();
    released.resolve();
    expect(await late).toMatchObject({ ...lost, details: { reason: "stopped" } });
  });

  proves(
    "files.lease-lost-in-flight",
    "leaves target and folder of an earlier write as they were",
    async () => {
      await using leased = await openLeased();
      const before = namesIn(leased.temp.dir);
      for (const path of ["d/target", "d/new", "made/for/it"]) {
        await using again = await openLeased();
        const write = again.files.write(writing(path, () => again.registration.release()));
        expect([path, await faultOf(write)]).toMatchObject([
          path,
          { ...lost, details: { reason: "stopped", publication: "unattempted" } },
        ]);
        await expect.poll(() => namesIn(again.temp.dir)).toEqual(before);
        expect(readFileSync(join(again.temp.dir, "d/target"), "utf8")).toBe(old);
      }
    },
  );

  proves(
    "files.lease-lost-in-flight",
    "says of a write whose rename had happened that it is committed",
    async () => {
      for (const when of ["before the rename, all sent", "before the answer"] as const) {
        let release = (): void => undefined;
        await using leased = await openLeased({
          hooks: { beforePublish: () => void (when === "before the rename, all sent" && release()) },
          between: (node) => ({
            write: async (requests, more) => {
              const answer = await node.write(requests, more);
              if (when === "before the answer") release();
              return answer;
            },
          }),
        });
        release = () => leased.registration.release();
        expect([when, await faultOf(leased.files.write(writing("d/target")))]).toMatchObject([
          when,
          { ...lost, details: { reason: "stopped", publication: "committed" } },
        ]);
        expect(readFileSync(join(leased.temp.dir, "d/target"), "utf8")).toBe("n".repeat(2 * chunk));
        expect(namesIn(leased.temp.dir)).toEqual(["big", "d", "d/target"]);
      }
    },
  );
});
