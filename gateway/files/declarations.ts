import { Fault } from "../../shared/fault/fault.ts";
import { parseWorkspaceName } from "../../shared/names/alias.ts";

/** A workspace that configuration names before its node offers it. */
export interface WorkspaceDeclaration {
  /** What it is called here. */
  readonly name: string;
  readonly nodeId: string;
  /** The export on the node, as in a remote path: `/app`. `/app/` and `/app/.` say the same. */
  readonly root: string;
}

/** A declaration that was checked. */
export interface DeclaredWorkspace {
  readonly name: string;
  readonly nodeId: string;
  readonly workspace: string;
}

/**
 * Checks `declarations` among themselves and against `known`; equal ones are one. A name that would mean another node or
 * root is `INVALID_ARGUMENT`, `details.field` naming the second of the two, and nothing is to be applied.
 */
export function parseDeclarations(
  declarations: readonly WorkspaceDeclaration[],
  known: ReadonlyMap<string, Omit<DeclaredWorkspace, "name">>,
): readonly DeclaredWorkspace[] {
  const seen = new Map(known);
  return declarations.map((declaration, index) => {
    const { name, nodeId } = declaration;
    const workspace = parseRoot(declaration.root, `workspaces[${index}].root`);
    const before = seen.get(name);
    if (before && (before.nodeId !== nodeId || before.workspace !== workspace)) {
      throw new Fault(
        "INVALID_ARGUMENT",
        `the workspace ${name} is declared twice, for different nodes or roots`,
        {
          details: { field: `workspaces[${index}]` },
          hint: "give the second one another name",
        },
      );
    }
    seen.set(name, { nodeId, workspace });
    return { name, nodeId, workspace };
  });
}

function parseRoot(root: string, field: string): string {
  const names = root.split("/").filter((name) => name !== "" && name !== ".");
  const [workspace] = names;
  if (!root.startsWith("/") || workspace === undefined || names.length > 1) {
    throw new Fault("INVALID_ARGUMENT", `${JSON.stringify(root.slice(0, 64))} is no root of a workspace`, {
      details: { field },
      hint: "write the export's name with a slash before it, for example /app",
    });
  }
  return parseWorkspaceName(workspace, field);
}
