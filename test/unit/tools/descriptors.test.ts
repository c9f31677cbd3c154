import { create } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import { readDescriptors } from "../../../gateway/tools/catalogue.ts";
import { ToolDescriptorSchema, type ToolDescriptor } from "../../../shared/gen/fairlead/v1/tools_pb.ts";
import { parseAlias } from "../../../shared/names/alias.ts";
import { toToolName } from "../../../shared/names/prefixed-name.ts";
import { proves } from "../../support/proves.ts";

function make(name: string, inputSchemaJson = '{"type":"object"}'): ToolDescriptor {
  return create(ToolDescriptorSchema, { name, inputSchemaJson, effect: "read" });
}

const nested = (levels: number): string => `${'{"items":'.repeat(levels - 1)}{}${"}".repeat(levels - 1)}`;
const padded = (bytes: number): string => {
  const frame = JSON.stringify({ type: "object", description: "" });
  return JSON.stringify({ type: "object", description: "x".repeat(bytes - frame.length) });
};

proves(
  "tools.publish-limits",
  "what is over a limit is refused by itself, with limit and actual value",
  () => {
    const many = Array.from({ length: 1_001 }, (_, index) => make(`tool-${String(index).padStart(4, "0")}`));
    const read = readDescriptors(many.toReversed());
    expect(read.tools).toHaveLength(1_000);
    expect(read.problems.map(({ name, fault }) => [name, fault.code, fault.details])).toEqual([
      ["tool-1000", "LIMIT_REACHED", { limit: 1_000, actual: 1_001 }],
    ]);
    const { tools, problems } = readDescriptors([
      make("big", padded(65_537)),
      make("deep", nested(33)),
      make("just-big", padded(65_536)),
      make("just-deep", nested(32)),
      make("plain"),
    ]);
    expect(tools.map(({ name }) => name)).toEqual(["just-big", "just-deep", "plain"]);
    expect(
      problems.map(({ name, fault }) => [name, fault.code, fault.details["limit"], fault.details["actual"]]),
    ).toEqual([
      ["big", "TOO_LARGE", 65_536, 65_537],
      ["deep", "TOO_LARGE", 32, 33],
    ]);
  },
);

proves(
  "tools.long-names-keep-their-prefix",
  "a long name is cut behind its prefix and ends in a hash",
  () => {
    const alias = parseAlias("devbox");
    const parts = { alias, nodeId: "node-1", name: "x".repeat(100) };
    const name = toToolName(parts);
    expect(name).toMatch(/^devbox__x+_[0-9a-f]{8}$/);
    expect(name.length).toBeLessThanOrEqual(64);
    // The same from the same: nothing but node id, alias and name goes in.
    expect(toToolName({ ...parts })).toBe(name);
    expect(toToolName({ ...parts, nodeId: "node-2" })).not.toBe(name);
    expect(toToolName({ ...parts, name: `${"x".repeat(99)}y` })).not.toBe(name);
    expect(toToolName({ ...parts, name: "x".repeat(56) })).toBe(`devbox__${"x".repeat(56)}`);
  },
);

describe("one bad descriptor", () => {
  test("costs only itself", () => {
    const good = Array.from({ length: 9 }, (_, index) => make(`good-${index}`));
    for (const bad of [
      make("good-3"),
      make("GOOD-4"),
      make("read "),
      make("r\u0435ad"),
      make("x".repeat(300)),
      make(""),
      make("a__b"),
      make("bad-json", "{"),
      make("bad-list", "[]"),
      make("bad-type", '{"type":"string"}'),
      make("bad-ref", '{"type":"object","properties":{"a":{"$ref":"https://evil.example/x"}}}'),
      make("bad-word", '{"type":"object","properties":{"a":{"type":"strang"}}}'),
    ]) {
      const { tools, problems } = readDescriptors([...good, bad]);
      expect(tools).toHaveLength(9);
      expect(problems).toHaveLength(1);
    }
  });

  test("of a hostile kind opens no door", () => {
    const schema =
      '{"type":"object","x-mcp-header":"X","properties":{"__proto__":{"x":1},"a":{"x-mcp-header":"A"}}}';
    const { tools } = readDescriptors([make("odd", schema)]);
    expect(JSON.stringify(tools[0]?.inputSchema)).toBe('{"type":"object","properties":{"a":{}}}');
  });
});
