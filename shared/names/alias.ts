import { Fault } from "../fault/fault.ts";

declare const alias: unique symbol;

/** The name of a node, given by an administrator; what its skills and tools are prefixed with. */
export type Alias = string & { readonly [alias]: true };

/** What the gateway itself is called where things are told apart by their owner: no node is given this alias. */
export const gatewayOwner = "gateway";

/** Most characters of an alias. */
export const maxAliasLength = 32;

const aliasShape = /^[a-z](?:-?[a-z0-9])*$/;
const workspaceShape = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;

/**
 * `text` as an alias: 1 to 32 characters of a to z, 0 to 9 and single hyphens, a letter first and no hyphen last.
 * Anything else is `INVALID_ARGUMENT` with `details.field` = `alias`.
 */
export function parseAlias(text: string): Alias {
  if (isAlias(text)) return text;
  throw new Fault(
    "INVALID_ARGUMENT",
    `${JSON.stringify(text.slice(0, 64))} is no alias: 1 to ${maxAliasLength} characters of a to z, 0 to 9 and single hyphens, a letter first and no hyphen last`,
    { details: { field: "alias" }, hint: "choose an alias like devbox or build-2" },
  );
}

/** Whether `text` is an alias as it stands. */
export function isAlias(text: string): text is Alias {
  return text.length <= maxAliasLength && aliasShape.test(text);
}

declare const workspaceName: unique symbol;

/** The name under which a node exports a folder. */
export type WorkspaceName = string & { readonly [workspaceName]: true };

/** Most characters of a workspace's name. */
const maxWorkspaceNameLength = 63;

/**
 * `text` as the name of a workspace: 1 to 63 letters, digits, dots, hyphens and underscores, a letter or digit first.
 * Anything else is `INVALID_ARGUMENT` with `details.field`, `workspace` when no other is given.
 */
export function parseWorkspaceName(text: string, field = "workspace"): WorkspaceName {
  if (text.length <= maxWorkspaceNameLength && workspaceShape.test(text)) return text as WorkspaceName;
  throw new Fault(
    "INVALID_ARGUMENT",
    `${JSON.stringify(text.slice(0, 64))} is no name for a workspace: 1 to ${maxWorkspaceNameLength} letters, digits, dots, hyphens and underscores, a letter or digit first`,
    { details: { field } },
  );
}
