import type { MessageInitShape } from "@bufbuild/protobuf";
import type {
  FilesManifestResponseSchema,
  ManifestTrailer,
} from "../../../shared/gen/fairlead/v1/files_pb.ts";

/** A manifest as its messages brought it. */
export interface ReadManifest {
  readonly digest: string;
  readonly unchanged: boolean;
  /** The digest of each path, in the order in which they came; empty of a link. */
  readonly entries: Readonly<Record<string, string>>;
  /** Why a path could not be read. */
  readonly problems: Readonly<Record<string, string>>;
  readonly trailer: ManifestTrailer | undefined;
  /** How many messages it took. */
  readonly messages: number;
}

/** Reads a manifest to its end. */
export async function readManifestOf(
  parts: AsyncIterable<MessageInitShape<typeof FilesManifestResponseSchema>>,
): Promise<ReadManifest> {
  const entries: Record<string, string> = {};
  const problems: Record<string, string> = {};
  let first: MessageInitShape<typeof FilesManifestResponseSchema> | undefined;
  let trailer;
  let messages = 0;
  for await (const part of parts) {
    messages += 1;
    first ??= part;
    for (const entry of part.entries ?? []) entries[entry.path ?? ""] = entry.digest ?? "";
    for (const { path = "", fault } of part.problems ?? []) problems[path] = fault?.message ?? "";
    ({ trailer } = part);
  }
  return {
    digest: first?.digest ?? "",
    unchanged: first?.unchanged ?? false,
    entries,
    problems,
    trailer: trailer as ManifestTrailer | undefined,
    messages,
  };
}
