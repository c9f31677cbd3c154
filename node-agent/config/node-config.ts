import { z } from "zod";
import { isWorkspaceName } from "./workspace-name.ts";

/** A workspace as it is written. */
export interface WorkspaceConfig {
  readonly name: string;
  readonly dir: string;
  readonly read?: readonly string[] | undefined;
  readonly write?: readonly string[] | undefined;
  readonly deny?: readonly string[] | undefined;
  readonly remove?: boolean | undefined;
  readonly move?: boolean | undefined;
  readonly mkdir?: boolean | undefined;
  readonly followSymlinks?: boolean | undefined;
  readonly allowSymlinkTargets?:
    | readonly { readonly path: string; readonly write?: boolean | undefined }[]
    | undefined;
  readonly allowHardLinks?: boolean | undefined;
  readonly containment?: "kernel" | "best_effort" | undefined;
  readonly maxFileBytes?: number | undefined;
}

/** `node/config.yaml` as it is written. */
export interface NodeConfig {
  readonly workspaces?: readonly WorkspaceConfig[] | undefined;
  readonly exec?:
    | {
        readonly mode?: "off" | "allow-list" | "ask" | "full" | undefined;
        readonly allow?: readonly string[] | undefined;
      }
    | undefined;
  readonly installs?:
    | { readonly allow?: boolean | undefined; readonly registries?: readonly string[] | undefined }
    | undefined;
  readonly path?: string | undefined;
  readonly limits?:
    | { readonly treeEntries?: number | undefined; readonly treeDepth?: number | undefined }
    | undefined;
}

const globs = z.array(z.string().min(1).max(4_096)).max(1_000).optional();
const flag = z.boolean().optional();

const workspaceSchema = z
  .strictObject({
    name: z
      .string()
      .refine(isWorkspaceName, "a name is 1 to 63 letters, digits, dots, hyphens and underscores"),
    dir: z.string().min(1).max(4_096),
    read: globs,
    write: globs,
    deny: globs,
    remove: flag,
    move: flag,
    mkdir: flag,
    followSymlinks: flag,
    allowSymlinkTargets: z
      .array(z.strictObject({ path: z.string().min(1).max(4_096), write: flag }))
      .max(100)
      .optional(),
    allowHardLinks: flag,
    containment: z.enum(["kernel", "best_effort"]).optional(),
    maxFileBytes: z.number().int().min(1).optional(),
  })
  .refine(
    ({ followSymlinks, allowSymlinkTargets = [] }) =>
      followSymlinks === true || allowSymlinkTargets.length === 0,
    {
      path: ["allowSymlinkTargets"],
      message: "links are only followed with followSymlinks: true beside it",
    },
  );

/** The shape of `node/config.yaml`; every key is optional. */
export const nodeConfigSchema: z.ZodType<NodeConfig> = z.strictObject({
  workspaces: z
    .array(workspaceSchema)
    .max(1_000)
    .superRefine((workspaces, context) => {
      const seen = new Set<string>();
      for (const [index, { name }] of workspaces.entries()) {
        if (seen.has(name))
          context.addIssue({ code: "custom", path: [index, "name"], message: `${name} is used twice` });
        seen.add(name);
      }
    })
    .optional(),
  exec: z
    .strictObject({
      mode: z.enum(["off", "allow-list", "ask", "full"]).optional(),
      allow: z.array(z.string().min(1).max(4_096)).max(1_000).optional(),
    })
    .optional(),
  installs: z
    .strictObject({
      allow: flag,
      registries: z
        .array(z.string().regex(/^https?:\/\/[^\s]+$/, "a registry is an address that begins with https://"))
        .min(1)
        .max(8)
        .optional(),
    })
    .optional(),
  path: z.string().min(1).optional(),
  limits: z
    .strictObject({
      treeEntries: z.number().int().min(1).max(100_000_000).optional(),
      treeDepth: z.number().int().min(1).max(1_000).optional(),
    })
    .optional(),
});
