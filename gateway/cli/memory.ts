import { Fault, type JsonValue } from "../../shared/fault/fault.ts";
import {
  type MemoryHit,
  type MemoryIndexState,
  type MemoryVectors,
  Sessions,
} from "../../shared/gen/fairlead/v1/sessions_pb.ts";
import type { CommandModule } from "../../shared/terminal/command.ts";
import { toTime, toWords } from "../../shared/terminal/json.ts";
import { faultToJson } from "./fault-to-json.ts";
import { openGateway } from "./open-gateway.ts";
import { splitRemotePath } from "./split-remote-path.ts";

const lineMax = 1_000_000_000;
/** Longest wait for an index, in milliseconds; and what its answer may take besides. */
const maxWaitMs = 600_000;
const answerMs = 10_000;

/** The `memory` commands. */
export const commands: readonly CommandModule[] = [
  {
    words: "memory search",
    summary: "search the memory files of every workspace that may be read",
    example: 'fairlead memory search "settle period" --limit 5',
    args: [{ name: "<query>", text: "the words" }],
    options: [
      { flags: "--workspace <node:/ws>", text: "only this workspace" },
      { flags: "--limit <n>", text: "at most so many hits (default 10, at most 100)" },
      { flags: "--wait-fresh", text: "wait until what was written before is in the index" },
    ],
    callsNode: true,
    run: async (input, runtime) => {
      const query = input.argument("query");
      const limit = input.integer("limit", { min: 1, max: 100 }) ?? 10;
      const workspace = input.text("workspace") ?? "";
      await using gateway = await openGateway(runtime);
      const waitFresh = input.flag("wait-fresh");
      // A deadline that was asked for is how long to wait for freshness: then what is there is the answer.
      const waitMs = waitFresh ? Math.min(runtime.deadlineMs ?? 0, maxWaitMs) : 0;
      const request = { query, workspace, limit, waitFresh, waitMs };
      const call = { ...gateway.call(), ...(waitMs === 0 ? {} : { deadlineMs: waitMs + answerMs }) };
      const { hits, workspaces, partial, vectors } = await gateway
        .client(Sessions)
        .searchMemory(request, call);
      const json = hits.map((hit) => ({
        node: hit.node,
        workspace: hit.workspace,
        path: hit.path,
        firstLine: hit.firstLine,
        lastLine: hit.lastLine,
        digest: hit.digest,
        score: hit.score,
        scores: scoresToJson(hit),
        text: hit.text,
      }));
      const answer = {
        hits: json,
        workspaces: workspaces.map(stateToJson),
        partial,
        vectors: vectorsToJson(vectors),
      };
      await runtime.output.result(answer, () =>
        hits.flatMap((hit) => [
          `${hit.workspace}/${hit.path}:${hit.firstLine}-${hit.lastLine} (${hit.score.toFixed(2)})`,
          ...hit.text.split("\n").map((line) => `  ${line}`),
        ]),
      );
      if (runtime.output.json) return;
      if (hits.length === 0) runtime.output.note("note: nothing found");
      for (const state of workspaces.filter((one) => !one.fresh)) {
        runtime.output.note(`note: the index of ${state.workspace} is not fresh: ${toWords(state.reason)}`);
      }
      if (partial)
        runtime.output.note(`note: by keyword only: vectors are ${vectors?.state ?? "unavailable"}`);
    },
  },
  {
    words: "memory get",
    summary: "lines of a memory file, from its node",
    example: "fairlead memory get devbox:/app/MEMORY.md --from 10 --lines 20",
    args: [{ name: "<path>", text: "NODE:/WORKSPACE/PATH" }],
    options: [
      { flags: "--from <n>", text: "first line (default 1)" },
      { flags: "--lines <n>", text: "at most so many lines (default all)" },
    ],
    callsNode: true,
    run: async (input, runtime) => {
      const { workspace, path } = splitRemotePath(input.argument("path"));
      const from = input.integer("from", { min: 1, max: lineMax });
      const lines = input.integer("lines", { min: 1, max: lineMax });
      if (path === "") {
        throw new Fault("INVALID_ARGUMENT", `${workspace} names a workspace, not a file in it`, {
          details: { field: "path" },
        });
      }
      await using gateway = await openGateway(runtime);
      const request = {
        workspace,
        path,
        ...(from === undefined ? {} : { from }),
        ...(lines === undefined ? {} : { lines }),
      };
      const answer = await gateway.client(Sessions).getMemory(request, gateway.call());
      const { text, firstLine, lastLine, totalLines, truncated, digest } = answer;
      if (runtime.output.json) {
        const json = { workspace, path, text, firstLine, lastLine, totalLines, truncated, digest };
        return await runtime.output.result(json, () => []);
      }
      await runtime.output.text(text === "" || text.endsWith("\n") ? text : `${text}\n`);
      if (from !== undefined && from > totalLines)
        runtime.output.note(`note: ${path} has ${totalLines} lines`);
      if (truncated) runtime.output.note(`note: cut; go on with --from ${lastLine + 1}`);
    },
  },
  {
    words: "memory status",
    summary: "the state of every index",
    example: "fairlead memory status",
    options: [{ flags: "--workspace <node:/ws>", text: "only this workspace" }],
    run: async (input, runtime) => {
      await using gateway = await openGateway(runtime);
      const request = { workspace: input.text("workspace") ?? "" };
      const { workspaces, vectors } = await gateway.client(Sessions).getMemoryStatus(request, gateway.call());
      const json = { workspaces: workspaces.map(stateToJson), vectors: vectorsToJson(vectors) };
      await runtime.output.result(json, () => ({
        columns: ["WORKSPACE", "STATE", "FILES", "PASSAGES", "PENDING", "FAILED", "VERIFIED"],
        rows: workspaces.map((one) => [
          one.workspace,
          one.fresh ? "fresh" : toWords(one.reason || "stale"),
          String(one.files),
          String(one.chunks),
          String(one.pending),
          String(one.problems.length),
          toTime(one.verifiedMs) ?? "never",
        ]),
        empty: "no workspace is indexed",
      }));
      if (!runtime.output.json) runtime.output.note(`note: ${describeVectors(vectors)}`);
    },
  },
];

function stateToJson(state: MemoryIndexState): JsonValue {
  return {
    workspace: state.workspace,
    fresh: state.fresh,
    verifiedAt: toTime(state.verifiedMs),
    pending: state.pending,
    files: state.files,
    chunks: state.chunks,
    reason: state.reason,
    missingVectors: state.missingVectors,
    ...(state.vectorsFault ? { vectorsError: faultToJson(state.vectorsFault) } : {}),
    problems: state.problems.map(({ path, fault }) => ({ path, error: faultToJson(fault) })),
  };
}

function scoresToJson({ scores }: MemoryHit): JsonValue {
  if (!scores) return {};
  const { keyword, vector, recency, similarity } = scores;
  return { keyword, vector: vector ?? null, recency, similarity };
}

function vectorsToJson(vectors: MemoryVectors | undefined): JsonValue {
  const { provider = "none", model = "", state = "none", fault, retryMs = 0n } = vectors ?? {};
  return {
    provider,
    model,
    state,
    ...(fault ? { error: faultToJson(fault) } : {}),
    retryAt: retryMs === 0n ? null : (toTime(retryMs) ?? null),
  };
}

function describeVectors(vectors: MemoryVectors | undefined): string {
  if (!vectors || vectors.provider === "none") {
    return "no embedding provider is configured: searches are by keyword";
  }
  const what = `vectors by ${vectors.provider} ${vectors.model} are ${vectors.state}`;
  return vectors.fault ? `${what}: ${vectors.fault.message}` : what;
}
