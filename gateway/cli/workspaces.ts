import { Files } from "../../shared/gen/fairlead/v1/files_pb.ts";
import type { CommandModule } from "../../shared/terminal/command.ts";
import { toTime, toWords } from "../../shared/terminal/json.ts";
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
        };
      });
      await runtime.output.result({ workspaces }, () => ({
        columns: ["WORKSPACE", "STATE", "SINCE", "ACCESS", "REASON"],
        rows: workspaces.map((one) => [
          one.workspace,
          toWords(one.state),
          one.since ?? "",
          one.writable ? "read, write" : "read",
          toWords(one.reason),
        ]),
        empty: "no workspace is exported; on a node: fairlead node workspace add NAME DIR",
      }));
    },
  },
];

/** `NODE:/NAME` in its parts. */
function splitName(workspace: string): { readonly node: string; readonly name: string } {
  const at = workspace.indexOf(":/");
  return { node: workspace.slice(0, Math.max(0, at)), name: workspace.slice(at + 2) };
}
