import { create } from "@bufbuild/protobuf";
import { expect } from "vitest";
import { createList } from "../../../node-agent/tools/list.ts";
import type { ToolPart } from "../../../node-agent/tools/tool-run.ts";
import { maxListingBytes } from "../../../shared/core-tools/listing.ts";
import {
  EntryKind,
  FilesListResponseSchema,
  type FilesListRequest,
  type FilesListResponse,
} from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { decodeListCursor, encodeListCursor } from "../../../shared/names/list-cursor.ts";
import { rootPath } from "../../../shared/names/workspace-path.ts";
import { proves } from "../../support/proves.ts";
import { callContext } from "../workspace/temp-exports.ts";

const scope = { path: rootPath, recursive: false };

/** A folder of files with these names, in pages as a machine gives them. */
function folderOf(names: readonly string[]): (request: FilesListRequest) => Promise<FilesListResponse> {
  return async ({ cursor, limit = 1_000 }) => {
    const from = cursor === "" ? 0 : names.indexOf(decodeListCursor(scope, cursor)) + 1;
    const page = names.slice(from, from + limit);
    const last = page.at(-1);
    const hasMore = from + page.length < names.length && last !== undefined;
    return create(FilesListResponseSchema, {
      entries: page.map((path) => ({ path, kind: EntryKind.FILE, sizeBytes: 7n })),
      nextCursor: hasMore ? encodeListCursor(scope, last) : "",
      source: { requestedPath: "", canonicalPath: "" },
    });
  };
}

interface Listed {
  readonly text: string;
  readonly entries: readonly { readonly path: string }[];
  readonly left: number;
  readonly cursor: string;
}

async function list(
  names: readonly string[],
  given: { readonly [name: string]: string | number },
): Promise<Listed> {
  const run = {
    workspace: "app",
    leaseEpoch: 0n,
    pin: undefined,
    arguments: { ...given },
    approvalId: "",
    sessionId: "",
    agent: "",
    context: callContext(),
  };
  const parts: ToolPart[] = await Array.fromAsync(createList({ list: folderOf(names) })(run));
  const [part] = parts;
  if (part?.part?.case !== "result") throw new Error("there is no result");
  const { content = [], details } = part.part.value;
  // As the tool makes them.
  const said = details as unknown as Omit<Listed, "text">;
  return { ...said, text: content[0]?.text ?? "" };
}

proves(
  "files.listing-for-model",
  "a listing holds the whole entries that fit, says how many it leaves out, and goes on behind the last one",
  async () => {
    expect(maxListingBytes).toBe(64 * 1024);
    for (const count of [3, 30_000]) {
      const names = Array.from({ length: count }, (_, index) => `entry-${String(index).padStart(6, "0")}`);
      const seen: string[] = [];
      let cursor = "";
      for (let pages = 0; ; pages += 1) {
        expect(pages).toBeLessThan(100);
        const page = await list(names, { limit: 10_000, ...(cursor === "" ? {} : { cursor }) });
        const lines = page.text.split("\n");
        const left = count - seen.length - page.entries.length;
        expect(Buffer.byteLength(page.text)).toBeLessThanOrEqual(maxListingBytes);
        expect(lines.slice(0, page.entries.length)).toEqual(page.entries.map(({ path }) => `${path}\t7`));
        seen.push(...page.entries.map(({ path }) => path));
        if (left === 0) {
          expect(lines).toHaveLength(page.entries.length);
          break;
        }
        // One more would not have fitted.
        expect(Buffer.byteLength(page.text) + "entry-000000\t7\n".length).toBeGreaterThan(maxListingBytes);
        expect(page.left).toBe(left);
        expect(lines.at(-1)).toContain(`${left} entries are left out`);
        expect(lines.at(-1)).toContain(page.cursor);
        expect(decodeListCursor(scope, page.cursor)).toBe(seen.at(-1));
        cursor = page.cursor;
      }
      expect(seen).toEqual(names);
    }
    // A page that was asked for with fewer says as well what it leaves out.
    const few = await list(["a", "b", "c"], { limit: 2 });
    expect([few.entries.length, few.left]).toEqual([2, 1]);
    expect(few.text).toContain("1 entry is left out");
  },
);
