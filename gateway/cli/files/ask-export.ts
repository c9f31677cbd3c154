import type { Files } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import type { NameFolding } from "../../../shared/names/folded-name.ts";
import type { Client } from "../../../shared/rpc/service.ts";
import type { Remote } from "./remote.ts";
import type { Transfer } from "./transfer.ts";

/** What the node has said of a workspace that is written to. */
export interface ExportTraits {
  /** What its volume does not tell apart in names. */
  readonly folding: NameFolding;
  /** Whether trees may come packed. */
  readonly acceptsPacked: boolean;
}

/** Asks the gateway what it knows of the workspace; no node is called for it that is away. */
export async function askExport(
  { files, call }: Pick<Transfer, "call"> & { readonly files: Pick<Client<typeof Files>, "listExports"> },
  { workspace }: Pick<Remote, "workspace">,
): Promise<ExportTraits> {
  const [node = ""] = workspace.split(":", 1);
  const { exports } = await files.listExports({ node }, call);
  const found = exports.find((one) => one.workspace === workspace);
  return {
    folding: { case: found?.ignoresCase ?? false, form: found?.ignoresForm ?? false },
    acceptsPacked: found?.acceptsPacked ?? false,
  };
}
