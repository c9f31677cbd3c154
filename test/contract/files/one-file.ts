import { fetchFile } from "../../../gateway/cli/files/fetch-file.ts";
import { storeFile } from "../../../gateway/cli/files/store-file.ts";
import type { Transfer } from "../../../gateway/cli/files/transfer.ts";
import type { Files } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import type { Client } from "../../../shared/rpc/service.ts";
import { p, type TempRoot } from "../../unit/root/temp-root.ts";

/** The workspace of the kit. */
export const workspace = "devbox:/app";

/** A transfer without a program around it, that counts. */
function makeTransfer(
  files: Client<typeof Files>,
): Transfer & { readonly call: { readonly deadlineMs: number } } {
  const { signal } = new AbortController();
  let [movedBytes, reusedBytes] = [0, 0];
  return {
    files,
    call: { signal, deadlineMs: 60_000 },
    signal,
    isInterrupted: () => false,
    onBytes: (bytes) => void (movedBytes += bytes),
    onReused: (bytes) => void (reusedBytes += bytes),
    onTotal: () => undefined,
    get movedBytes() {
      return movedBytes;
    },
    get reusedBytes() {
      return reusedBytes;
    },
    goOn: (_, attempt) => attempt(),
  };
}

/** Stores the local file over the one on the node. */
export async function put(files: Client<typeof Files>, here: TempRoot): Promise<Transfer> {
  const transfer = makeTransfer(files);
  await using file = await here.root.openFile(p("file"));
  const condition = { kind: "any" } as const;
  await storeFile(transfer, { workspace, path: "file", file, condition, partKey: "key" });
  return transfer;
}

/** Fetches it over the local one. */
export async function get(files: Client<typeof Files>, here: TempRoot, sizeBytes: number): Promise<Transfer> {
  const transfer = makeTransfer(files);
  const place = { root: here.root, path: p("file"), shown: "file" };
  const precondition = { kind: "any" } as const;
  await fetchFile(transfer, {
    workspace,
    path: "file",
    place,
    sizeBytes,
    precondition,
    partKey: "0".repeat(32),
  });
  return transfer;
}
