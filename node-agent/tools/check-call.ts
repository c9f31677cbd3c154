import type { CoreToolName } from "../../shared/core-tools/core-tools.ts";
import { parseWorkspacePath, toPathPlatform } from "../../shared/names/workspace-path.ts";
import type { Exports } from "../workspace/exports.ts";
import { admitCommand } from "./exec-rules.ts";
import { toCommand, type ExecParts } from "./exec.ts";
import { findText, type ToolRun } from "./tool-run.ts";

/** Fails with the fault that an operation on the path would get from the machine's own rules, or for want of its workspace. */
export type JudgePath = (
  operation: "read" | "write",
  where: { readonly workspace: string; readonly path: string },
) => Promise<void>;

/** What a check stands on. */
export interface CallCheckParts {
  readonly exec: Pick<ExecParts, "settings" | "openFolder">;
  readonly judgePath: JudgePath;
}

/** Fails with what a call of the tool would be refused with before it does anything; does nothing itself. */
export type CheckCall = (tool: CoreToolName, run: ToolRun) => Promise<void>;

/** A check that has no effect: what it lets pass may still be refused when the call comes. */
export function createCallCheck({ exec, judgePath }: CallCheckParts): CheckCall {
  return async (tool, run) => {
    if (tool !== "exec") {
      const path = findText(run.arguments, "path") ?? "";
      return await judgePath(tool === "write" ? "write" : "read", { workspace: run.workspace, path });
    }
    // As if a person had allowed it: whether one will is what is asked next.
    admitCommand(toCommand(run.arguments), exec.settings(), "to be asked");
    await using _folder = await exec.openFolder(run.workspace, findText(run.arguments, "cwd") ?? "");
  };
}

/** The judgement of the exports, by the path that is asked for; what its links lead to is judged when they are followed. */
export function createPathJudge(exports: Pick<Exports, "get">): JudgePath {
  return async (operation, where) => {
    const { root } = await exports.get(where.workspace);
    root.recheck(operation, parseWorkspacePath(where.path, { platform: toPathPlatform(process.platform) }));
  };
}
