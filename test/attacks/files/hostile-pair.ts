import { join } from "node:path";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { vi } from "vitest";
import { findAdminSocket } from "../../../gateway/cli/find-admin-socket.ts";
import type { createFiles } from "../../../node-agent/files/files.ts";
import { createPublicationBoard } from "../../../node-agent/link/publications.ts";
import { startLink } from "../../../node-agent/link/start-link.ts";
import { digestOf } from "../../../shared/content/digest.ts";
import {
  EntryKind,
  EntrySchema,
  Files,
  FilesReadTreeResponseSchema,
  TreeEntrySchema,
  type FilesReadTreeResponse,
  type TreeEntry,
} from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { PublicationKind } from "../../../shared/gen/fairlead/v1/link_pb.ts";
import { openGrpcClient } from "../../../shared/rpc/grpc-client.ts";
import { serve, type Client } from "../../../shared/rpc/service.ts";
import { createTreeTally } from "../../../shared/tree/tree-tally.ts";
import { pairIdentity } from "../../support/paired-identity.ts";
import type { CliResult } from "../../support/run-cli.ts";
import { startGateway } from "../../support/start-gateway.ts";
import { openTempExports, type TempExports } from "../../unit/workspace/temp-exports.ts";

type NodeFiles = ReturnType<typeof createFiles>;

/** What of a node's files a test answers itself. */
export type HostileFiles = Partial<
  Pick<NodeFiles, "stat" | "read" | "readTree" | "manifest" | "write" | "writeTree">
>;

/** The real gateway with a node whose files are the project's own, as long as a test does not answer for it. */
export interface HostilePair extends AsyncDisposable {
  /** The node's folder `app`, with a folder outside beside it. */
  readonly temp: TempExports;
  /** Over the administrators' socket. */
  readonly client: Client<typeof Files>;
  /** Answers for the node from now on; nothing answers as the project does. */
  answer(files: HostileFiles): void;
  /** Runs `fairlead files …`. */
  files(args: readonly string[]): Promise<CliResult>;
}

/** Starts both; the node takes trees of at most so many entries. The caller disposes them. */
export async function startHostilePair(treeEntries: number): Promise<HostilePair> {
  await using stack = new AsyncDisposableStack();
  const temp = stack.use(await openTempExports(undefined, { limits: { treeEntries, treeDepth: 64 } }));
  const gateway = stack.use(await startGateway());
  const identity = stack.use(await pairIdentity(gateway, { alias: "devbox" }));
  const real = temp.files;
  let hostile: HostileFiles = {};
  const service = serve(Files, {
    ...real,
    stat: (request, context) => (hostile.stat ?? real.stat)(request, context),
    read: (request, context) => (hostile.read ?? real.read)(request, context),
    readTree: (request, context) => (hostile.readTree ?? real.readTree)(request, context),
    manifest: (request, context) => (hostile.manifest ?? real.manifest)(request, context),
    write: (requests, context) => (hostile.write ?? real.write)(requests, context),
    writeTree: (requests, context) => (hostile.writeTree ?? real.writeTree)(requests, context),
  });
  const board = createPublicationBoard();
  board.publish({ publication: PublicationKind.WORKSPACES, epoch: 1n, digest: "w" });
  stack.use(
    startLink({
      addresses: [identity.address],
      loadTls: identity.tls,
      services: [service],
      publications: board,
    }),
  );
  const socket = await findAdminSocket(join(gateway.home, "gateway"));
  const client = stack.use(openGrpcClient({ address: `unix:${socket}`, security: "insecure" })).client(Files);
  const isUsable = (): Promise<boolean> =>
    client.stat({ workspace: "devbox:/app", path: "" }).then(
      () => true,
      () => false,
    );
  await vi.waitUntil(isUsable, { timeout: 20_000, interval: 50 });
  const owned = stack.move();
  return {
    temp,
    client,
    answer: (files) => void (hostile = files),
    files: (args) => gateway.cli(["files", ...args], { timeoutMs: 120_000 }),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** An entry of a tree with the content `x`, or as `more` says. */
export function treeEntry(
  path: string,
  more: MessageInitShape<typeof EntrySchema> & { readonly copyFrom?: string } = {},
): TreeEntry {
  const { copyFrom = "", ...rest } = more;
  const file = { kind: EntryKind.FILE, sizeBytes: 1n, mode: 0o644, digest: digestOf("x") };
  const entry = create(EntrySchema, { path, ...file, ...rest });
  const hasContent = entry.kind === EntryKind.FILE && copyFrom === "";
  return create(TreeEntrySchema, { entry, copyFrom, inlineBytes: hasContent ? 1n : 0n });
}

/** The messages of a tree of these entries, well-formed but for what stands in them. */
export function treeMessages(entries: readonly TreeEntry[]): FilesReadTreeResponse[] {
  const tally = createTreeTally();
  for (const { entry } of entries) if (entry) tally.add(entry);
  const bytes = entries.reduce((sum, { inlineBytes }) => sum + Number(inlineBytes), 0);
  const source = { workspace: "app", requestedPath: "", canonicalPath: "" };
  return [
    create(FilesReadTreeResponseSchema, {
      entries: [...entries],
      content: Buffer.alloc(bytes, "x"),
      source,
    }),
    create(FilesReadTreeResponseSchema, { treeTrailer: tally.trailer(0n) }),
  ];
}
