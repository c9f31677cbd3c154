import { type Export, Files } from "../../shared/gen/fairlead/v1/files_pb.ts";
import type { CommandModule } from "../../shared/terminal/command.ts";
import { toTime, toWords } from "../../shared/terminal/json.ts";
import { freshnessToJson, limitNote, watchWords } from "./files/freshness-view.ts";
import { openGateway } from "./open-gateway.ts";

/** The `workspaces` commands. */
export const commands: readonly CommandModule[] = [
  {
    words: "workspaces ls",
    summary: "every exported workspace with its state",
    example: "fairlead workspaces ls",
    run: async (_, runtime) => {
      await using gateway = await openGateway(runtime);
      const { exports } = await gateway.client(Files).listExports({}, gateway.call());
      const workspaces = exports.map((found) => {
        const { node, name } = splitName(found.workspace);
        return {
          node,
          name,
          workspace: found.workspace,
          state: found.state,
          since: toTime(found.sinceMs),
          reason: found.reason,
          nextStep: found.state === "available" ? "" : `fairlead nodes show ${node}`,
          writable: found.writable,
          containment: found.containment,
          freshness: freshnessToJson(found.freshness),
        };
      });
      await runtime.output.result({ workspaces }, () => ({
        columns: ["WORKSPACE", "STATE", "SINCE", "ACCESS", "WATCH", "REASON"],
        rows: workspaces.map((one, index) => [
          one.workspace,
          toWords(one.state),
          one.since ?? "",
          one.writable ? "read, write" : "read",
          watchWords(exports[index]?.freshness),
          toWords(one.reason),
        ]),
        empty: "no workspace is exported; on a node: fairlead node workspace add NAME DIR",
      }));
      if (!runtime.output.json) for (const note of limitNotes(exports)) runtime.output.note(`note: ${note}`);
    },
  },
];

/** One line a node whose kernel's limit of watches is near or reached. */
export function limitNotes(exports: readonly Export[]): readonly string[] {
  const notes = exports.map((one) => limitNote(splitName(one.workspace).node, one.freshness?.limit));
  return [...new Set(notes)].filter((note) => note !== undefined);
}

/** `NODE:/NAME` in its parts. */
function splitName(workspace: string): { readonly node: string; readonly name: string } {
  const at = workspace.indexOf(":/");
  return { node: workspace.slice(0, Math.max(0, at)), name: workspace.slice(at + 2) };
}
