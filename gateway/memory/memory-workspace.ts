import type { MessageInitShape } from "@bufbuild/protobuf";
import type {
  MemoryHitSchema,
  MemoryIndexStateSchema,
  MemoryVectorsSchema,
} from "../../shared/gen/fairlead/v1/sessions_pb.ts";

/** A workspace whose memory files are indexed. */
export interface MemoryWorkspace {
  /** Names its index file: small letters, digits and hyphens; the same for as long as the workspace exists. */
  readonly id: string;
  readonly nodeId: string;
  /** The node's alias at this moment. */
  readonly alias: string;
  /** The name under which the node exports it. */
  readonly name: string;
}

/** Which workspaces there are, those of nodes that are away included. */
export interface MemoryWorkspaces {
  list(): readonly MemoryWorkspace[];
  /** An item after each change of the list. */
  changes(options: { readonly signal: AbortSignal }): AsyncIterable<unknown>;
}

/** A passage that was found, as it is told to a client. */
export type MemoryHit = Required<Omit<MessageInitShape<typeof MemoryHitSchema>, "$typeName" | "$unknown">>;

/** How it stands with vectors, as it is told to a client. */
export type MemoryVectors = Omit<MessageInitShape<typeof MemoryVectorsSchema>, "$typeName" | "$unknown">;

/** How fresh one index is, as it is told to a client. */
export type MemoryIndexState = Required<
  Omit<MessageInitShape<typeof MemoryIndexStateSchema>, "$typeName" | "$unknown">
>;

/** `NODE:/NAME`, as people write it. */
export function toAddress(workspace: MemoryWorkspace): string {
  return `${workspace.alias}:/${workspace.name}`;
}
