import { create } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import type { LiveLink } from "../../../gateway/link/links.ts";
import type { CallEnding, CallHooks } from "../../../gateway/tools/call-hooks.ts";
import { createToolCatalogue } from "../../../gateway/tools/catalogue.ts";
import { ToolsListPublishedResponseSchema } from "../../../shared/gen/fairlead/v1/tools_pb.ts";
import { faultOf } from "../../support/fault-of.ts";
import { proves } from "../../support/proves.ts";
import { openSessionKit } from "../../support/session-kit.ts";
import { callTool } from "../../support/tool-calls.ts";

const operator = { agent: "operator" };

proves(
  "tools.validates-final-arguments",
  "what hooks made of the arguments is what is checked, before anything runs; none at all count as {}",
  async () => {
    const hooks: CallHooks = {
      beforeToolCall: async (_facts, given) => (given["spoil"] === true ? { path: 3 } : undefined),
    };
    await using kit = await openSessionKit({ hooks: [hooks] });
    const node = await kit.addNode({ files: { "a.txt": "one\n" } });
    const calls = (): number => kit.links.calls.filter((name) => name.includes("Tools/Call")).length;
    const before = calls();
    const spoiled = await faultOf(
      callTool(kit.tools, operator, { name: "devbox__read", arguments: { spoil: true } }),
    );
    expect(spoiled).toMatchObject({ code: "INVALID_ARGUMENT", details: { field: "path" } });
    const unknown = await faultOf(
      callTool(kit.tools, operator, {
        name: "devbox__write",
        arguments: { path: "a.txt", content: "x", more: 1 },
      }),
    );
    expect(unknown).toMatchObject({ code: "INVALID_ARGUMENT", details: { field: "more" } });
    expect(calls()).toBe(before);
    expect(await node.workspace.text("a.txt")).toBe("one\n");
    for (const given of [{}, null, undefined]) {
      const { details } = await callTool(kit.tools, operator, { name: "devbox__list", arguments: given });
      expect(details["entries"]).toMatchObject([{ path: "a.txt" }]);
    }
    const missing = await faultOf(callTool(kit.tools, operator, { name: "devbox__read", arguments: null }));
    expect(missing).toMatchObject({ code: "INVALID_ARGUMENT", details: { field: "path" } });
  },
);

test("an entry is one line of a list, whatever its name holds, and the details have the name as it is", async () => {
  await using kit = await openSessionKit();
  const name = "a\nb\u001b[31m\u202e";
  await kit.addNode({ files: { [name]: "x" } });
  const { content, details } = await callTool(kit.tools, operator, {
    name: "devbox__list",
    arguments: {},
  });
  expect(content).toEqual([{ type: "text", text: "a\\nb\\x1b[31m\\u{202e}\t1" }]);
  expect(details["entries"]).toMatchObject([{ path: name }]);
});

describe("hooks", () => {
  test("see one frozen context, each step once and in order, also when the tool fails", async () => {
    const steps: string[] = [];
    const endings: CallEnding[] = [];
    const facts = new Set<unknown>();
    const see = (step: string, context: object): void => {
      steps.push(step);
      facts.add(context);
      expect(Object.isFrozen(context)).toBe(true);
    };
    const hooks: CallHooks = {
      trustedPolicy: async (context) => see("trusted", context),
      beforeToolCall: async (context) => {
        see("before", context);
        return undefined;
      },
      afterToolCall: async (context, ending) => {
        see("after", context);
        endings.push(ending);
      },
      toolResultPersist: (context) => see("persist", context),
    };
    await using kit = await openSessionKit({ hooks: [hooks] });
    await kit.addNode({ files: { "a.txt": "one\n" } });
    await callTool(kit.tools, operator, { name: " DEVBOX__read ", arguments: { path: "a.txt" } });
    expect(steps).toEqual(["trusted", "before", "after", "persist"]);
    expect(facts.size).toBe(1);
    expect([...facts]).toMatchObject([
      { tool: "devbox__read", owner: "node", node: "devbox", agent: "operator" },
    ]);
    steps.length = 0;
    await faultOf(callTool(kit.tools, operator, { name: "devbox__read", arguments: { path: "none" } }));
    expect(steps).toEqual(["trusted", "before", "after"]);
    expect(endings.map(({ fault }) => fault?.code)).toEqual([undefined, "NOT_FOUND"]);
  });

  test("that throw block the call before it begins", async () => {
    const hooks: CallHooks = { trustedPolicy: async () => Promise.reject(new Error("broken")) };
    await using kit = await openSessionKit({ hooks: [hooks] });
    const node = await kit.addNode({ files: { "a.txt": "one\n" } });
    const given = { path: "a.txt", content: "x" };
    const fault = await faultOf(callTool(kit.tools, operator, { name: "devbox__write", arguments: given }));
    expect(fault.code).toBe("INTERNAL");
    expect(await node.workspace.text("a.txt")).toBe("one\n");
  });
});

describe("files of the bound workspace", () => {
  test("are read by lines with their digest, and written only as they were read", async () => {
    await using kit = await openSessionKit();
    const node = await kit.addNode({ files: { "src/a.txt": "one\ntwo\nthree\n" } });
    const { id } = await kit.sessions.open({ agent: "coder", workspace: "devbox:/app" });
    const caller = await kit.sessions.caller(id);
    const read = await callTool(kit.tools, caller, {
      name: "read",
      arguments: { path: "src/a.txt", from: 2, lines: 1 },
    });
    expect(read.content).toEqual([{ type: "text", text: "two\n" }]);
    const { digest } = read.details;
    const write = (content: string, ifMatch: string): Promise<unknown> =>
      callTool(kit.tools, caller, { name: "write", arguments: { path: "src/a.txt", content, ifMatch } });
    await write("four\n", String(JSON.parse(JSON.stringify(digest))));
    const conflict = await faultOf(write("five\n", String(JSON.parse(JSON.stringify(digest)))));
    expect(conflict).toMatchObject({ code: "CONFLICT", details: { expected: digest } });
    expect(await faultOf(write("six\n", "absent"))).toMatchObject({ code: "ALREADY_EXISTS" });
    expect(await node.workspace.text("src/a.txt")).toBe("four\n");
    const list = await callTool(kit.tools, caller, { name: "list", arguments: { recursive: true } });
    expect(list.details["entries"]).toEqual([
      { path: "src", kind: "folder" },
      { path: "src/a.txt", kind: "file", sizeBytes: 5 },
    ]);
    const other = await faultOf(
      callTool(kit.tools, caller, { name: "read", arguments: { path: "a", workspace: "x" } }),
    );
    expect(other).toMatchObject({ code: "INVALID_ARGUMENT", details: { field: "workspace" } });
  });

  test("stay out of reach in binary", async () => {
    await using kit = await openSessionKit();
    await kit.addNode({ files: { "a.bin": Buffer.from([1, 0, 2]) } });
    const fault = await faultOf(
      callTool(kit.tools, operator, { name: "devbox__read", arguments: { path: "a.bin" } }),
    );
    expect(fault.code).toBe("UNSUPPORTED_FILE_TYPE");
  });
});

proves(
  "tools.published-as-one-set",
  "an equal set tells nobody, an older epoch replaces nothing, and from A to B and back to A, A is what stays",
  async () => {
    const catalogue = createToolCatalogue();
    const stop = new AbortController();
    const told: string[] = [];
    const watching = (async () => {
      for await (const nodeId of catalogue.changes({ signal: stop.signal })) told.push(nodeId);
    })();
    const publish = (tool: string, epoch: bigint, digest: string): Promise<void> => {
      const answer = create(ToolsListPublishedResponseSchema, { tools: [{ name: tool }], epoch, digest });
      const link = {
        nodeId: "n1",
        generation: 1,
        signal: stop.signal,
        client: () => ({ listPublished: async () => answer }),
      } as unknown as LiveLink;
      return catalogue.reader.read(link, { epoch, digest });
    };
    const shown = (): readonly string[] => catalogue.find("n1")?.tools.map(({ name }) => name) ?? [];
    await publish("a", 1n, "A");
    await expect.poll(() => told.length).toBe(1);
    await publish("a", 2n, "A");
    await publish("b", 3n, "B");
    expect(shown()).toEqual(["b"]);
    await publish("a", 4n, "A");
    // The answer to an earlier question that comes last.
    await publish("b", 3n, "B");
    expect(shown()).toEqual(["a"]);
    expect(catalogue.find("n1")?.epoch).toBe(4n);
    await expect.poll(() => told.length).toBeGreaterThanOrEqual(2);
    const before = told.length;
    await publish("a", 5n, "A");
    await publish("c", 6n, "C");
    await expect.poll(() => told.length).toBe(before + 1);
    stop.abort();
    await watching;
  },
);
