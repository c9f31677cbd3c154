import type { MessageInitShape } from "@bufbuild/protobuf";
import { isFault } from "../../shared/fault/fault.ts";
import type {
  FilesDropPartRequest,
  FilesDropPartResponseSchema,
  FilesFindPartRequest,
  FilesFindPartResponseSchema,
  SourceSchema,
} from "../../shared/gen/fairlead/v1/files_pb.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import type { WorkspacePath } from "../../shared/names/workspace-path.ts";
import { partLifeMs } from "../../shared/root/staged-name.ts";
import type { Exports } from "../workspace/exports.ts";
import type { Workspace } from "../workspace/open-workspace.ts";
import { parseRequestPath, toWireSource } from "./wire.ts";
import { toPartKey } from "./write-file.ts";

/** How often it is looked for such parts, in milliseconds. */
export const expireEveryMs: number = 10 * 60 * 1000;

/** `Files.FindPart`. */
export async function findPart(
  workspace: Workspace,
  request: FilesFindPartRequest,
  signal: AbortSignal,
): Promise<MessageInitShape<typeof FilesFindPartResponseSchema>> {
  const named = nameOf(workspace, request);
  const found = await workspace.root.findPart(named.path, { key: named.key, check: named.check, signal });
  return {
    heldBytes: BigInt(found?.sizeBytes ?? 0),
    digest: found?.digest ?? "",
    acceptsPacked: true,
    source: named.source(),
  };
}

/** `Files.DropPart`. */
export async function dropPart(
  workspace: Workspace,
  request: FilesDropPartRequest,
  signal: AbortSignal,
): Promise<MessageInitShape<typeof FilesDropPartResponseSchema>> {
  const named = nameOf(workspace, request);
  await workspace.root.dropPart(named.path, { key: named.key, check: named.check, signal });
  return { source: named.source() };
}

interface NamedPart {
  readonly path: WorkspacePath;
  readonly key: string;
  /** Hears where the file is. */
  readonly check: (canonicalPath: WorkspacePath) => void;
  readonly source: () => MessageInitShape<typeof SourceSchema>;
}

function nameOf(
  workspace: Workspace,
  request: { readonly path: string; readonly partKey: string },
): NamedPart {
  const path = parseRequestPath(request.path);
  let canonicalPath = path;
  return {
    path,
    key: toPartKey(path, request.partKey),
    check: (found) => void (canonicalPath = found),
    source: () => toWireSource({ workspace: workspace.settings.name, requestedPath: path, canonicalPath }),
  };
}

/** Removes parts that nobody has come back for, until the signal ends it. */
export async function expireParts(
  exports: Pick<Exports, "list" | "get">,
  { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal },
): Promise<void> {
  for (;;) {
    await clock.sleep(expireEveryMs, { signal });
    for (const { settings, fault } of exports.list()) {
      if (fault) continue;
      try {
        (await exports.get(settings.name)).root.expireParts(clock.now() - partLifeMs);
      } catch (error) {
        // A folder that is gone holds no parts; the next round looks again.
        if (!isFault(error)) throw error;
      }
    }
  }
}
