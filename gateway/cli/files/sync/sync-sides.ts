import type { MessageInitShape } from "@bufbuild/protobuf";
import { parseDigest } from "../../../../shared/content/digest.ts";
import { Fault } from "../../../../shared/fault/fault.ts";
import {
  WritePrecondition,
  type FilesWriteTreeRequestSchema,
} from "../../../../shared/gen/fairlead/v1/files_pb.ts";
import { appendPath, rootPath, type WorkspacePath } from "../../../../shared/names/workspace-path.ts";
import type { RootHandle } from "../../../../shared/root/root-handle.ts";
import { freeReceived } from "../../../../shared/rpc/chunk-memory.ts";
import { fromWireFault } from "../../../../shared/rpc/fault-wire.ts";
import { packTreeParts } from "../../../../shared/tree/pack-parts.ts";
import { packTree } from "../../../../shared/tree/pack-tree.ts";
import { storeTree } from "../../../../shared/tree/store-tree.ts";
import type { TreePart, TreeProblem } from "../../../../shared/tree/tree-part.ts";
import type { Condition } from "../condition.ts";
import { fetchFile } from "../fetch-file.ts";
import { hereOf, partKeyOf } from "../part-key.ts";
import { remoteChild, type Remote } from "../remote.ts";
import { storeFile } from "../store-file.ts";
import type { Transfer } from "../transfer.ts";
import type { SyncSides } from "./apply-plan.ts";
import { conditionOf, entryKinds } from "./sync-parts.ts";

/** Between what it is synced. */
export interface SyncEnds {
  readonly transfer: Transfer;
  readonly remote: Remote;
  readonly root: RootHandle;
  /** The local folder below the root; the root itself by default. */
  readonly at?: WorkspacePath;
  /** The local folder as messages show it. */
  readonly shown: string;
  /** Whether the node takes packed trees; it does not by default. */
  readonly acceptsPacked?: boolean;
}

type WriteMessage = MessageInitShape<typeof FilesWriteTreeRequestSchema>;

/** From the node to this machine. */
export function pullSides({ transfer, remote, root, shown, at: top = rootPath }: SyncEnds): SyncSides {
  const { workspace, path } = remote;
  return {
    contents: (only) =>
      freed(
        transfer.files.readTree(
          { workspace, path, only: [...only], acceptsPacked: true },
          { ...transfer.call, bulk: true },
        ),
      ),
    store: async (parts) => {
      const { signal, onBytes } = transfer;
      const options = { root, path: top, precondition: "any", signal, onBytes } as const;
      return (await storeTree(parts, options)).problems;
    },
    carry: async (change) => {
      const { entry } = change;
      const condition = conditionOf(change);
      const source = remoteChild(remote, entry.path);
      const place = { root, path: below(top, entry.path), shown: `${shown}/${entry.path}` };
      const { receipt } = await fetchFile(transfer, {
        workspace,
        path: source.path,
        place,
        sizeBytes: entry.sizeBytes,
        precondition:
          condition === "absent" ? { kind: "absent" } : { kind: "match", digest: parseDigest(condition) },
        partKey: partKeyOf(source.shown, place.path),
      });
      return receipt.digest;
    },
    remove: async ({ path: at, kind, content }) => {
      await root.remove(below(top, at), {
        ifKind: kind,
        ...(kind === "file" ? { ifMatch: parseDigest(content) } : {}),
        ...(kind === "link" ? { ifLinkTarget: content } : {}),
      });
    },
  };
}

async function* freed<P extends TreePart>(parts: AsyncIterable<P>): AsyncGenerator<P, void> {
  for await (const part of parts) {
    yield part;
    freeReceived(part.content);
  }
}

/** From this machine to the node. */
export function pushSides({
  transfer,
  remote,
  root,
  shown,
  at: top = rootPath,
  acceptsPacked,
}: SyncEnds): SyncSides {
  const { workspace, path } = remote;
  return {
    contents: (only) =>
      packTree({ root, path: top, only: only.map((path) => below(top, path)), signal: transfer.signal }),
    store: async (parts) => {
      const found: TreeProblem[] = [];
      const messages = treeMessages({
        transfer,
        remote,
        parts: acceptsPacked === true ? packTreeParts(parts) : parts,
        onProblem: (problem) => void found.push(problem),
      });
      const { problems } = await transfer.files.writeTree(messages, transfer.call);
      return [...found, ...problems.map(({ path: at, fault }) => ({ path: at, fault: toFault(fault) }))];
    },
    carry: async (change) => {
      const { entry } = change;
      const target = remoteChild(remote, entry.path);
      await using file = await root.openFile(below(top, entry.path));
      const partKey = partKeyOf(hereOf(`${shown}/${entry.path}`), target.shown);
      const { entry: stored } = await storeFile(transfer, {
        workspace,
        path: target.path,
        file,
        condition: toCondition(conditionOf(change)),
        partKey,
      });
      return stored?.digest ?? entry.content;
    },
    remove: async ({ path: at, kind, content }) => {
      const request = {
        workspace,
        path: path === "" ? at : `${path}/${at}`,
        ifKind: entryKinds[kind],
        ifMatch: kind === "file" ? content : "",
        ifLinkTarget: kind === "link" ? content : "",
      };
      await transfer.files.remove(request, transfer.call);
    },
  };
}

function toCondition(text: string): Condition {
  return text === "absent" ? { kind: "absent" } : { kind: "match", digest: parseDigest(text) };
}

/** Paths of a listing were parsed where they were found. */
function below(top: WorkspacePath, path: string): WorkspacePath {
  return appendPath(top, path as WorkspacePath);
}

function toFault(fault: Parameters<typeof fromWireFault>[0] | undefined): Fault {
  return fault ? fromWireFault(fault) : new Fault("INTERNAL", "the entry failed for no reason given");
}

interface Messages {
  readonly transfer: Transfer;
  readonly remote: Remote;
  readonly parts: AsyncIterable<TreePart>;
  /** Hears of what never reached the node. */
  readonly onProblem: (problem: TreeProblem) => void;
}

async function* treeMessages({
  transfer,
  remote: { workspace, path },
  parts,
  onProblem,
}: Messages): AsyncGenerator<WriteMessage, void> {
  yield { header: { workspace, path, precondition: WritePrecondition.ANY } };
  for await (const { entries, problems = [], fileTrailer, treeTrailer, content, packedBytes = 0 } of parts) {
    for (const problem of problems) onProblem({ path: problem.path, fault: toFault(problem.fault) });
    const sentBytes = packedBytes > 0 ? packedBytes : content.byteLength;
    yield {
      entries,
      content,
      packedBytes,
      ...(fileTrailer ? { fileTrailer } : {}),
      ...(treeTrailer ? { treeTrailer: { ...treeTrailer, failed: 0n } } : {}),
    };
    transfer.onBytes(sentBytes);
  }
}
