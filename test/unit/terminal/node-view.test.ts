import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { nodeToLines } from "../../../gateway/cli/node-view.ts";
import { NodeSummarySchema } from "../../../shared/gen/fairlead/v1/admin_pb.ts";

test("a copy is shown with the way out as long as it comes back, and as over once it does not", () => {
  const at = Date.parse("2026-01-31T12:00:00Z");
  const machine = (bootId: string): object => ({ bootId, address: "10.0.0.9:4000", atMs: BigInt(at) });
  const node = create(NodeSummarySchema, {
    alias: "devbox",
    clone: { kind: "refused", kept: machine("one"), other: machine("two"), count: 3 },
  });
  const copies = (now: number): string | undefined =>
    nodeToLines(node, now).find((line) => line.startsWith("copies: "));
  expect(copies(at + 30_000)).toContain("fairlead node join CODE --new-identity");
  expect(copies(at + 601_000)).toBe(
    "copies: one at 10.0.0.9:4000 was refused until 2026-01-31T12:00:00.000Z, and has not come back",
  );
});
