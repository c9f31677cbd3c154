import type { MessageInitShape } from "@bufbuild/protobuf";
import { EntryKind } from "../../shared/gen/fairlead/v1/files_pb.ts";
import type {
  SkillsListFilesResponseSchema,
  SkillsReadFileResponseSchema,
} from "../../shared/gen/fairlead/v1/skills_pb.ts";
import { toWireFault } from "../../shared/rpc/fault-wire.ts";
import type { SkillFileBytes, SkillFiles } from "../../shared/skill-file/skill-files.ts";

/** A part of a file as it travels; `workspace` is the export that it lies in. */
export function toWirePart(
  part: SkillFileBytes,
  workspace: string,
): MessageInitShape<typeof SkillsReadFileResponseSchema> {
  switch (part.kind) {
    case "header": {
      const { entry, path } = part;
      const source = { workspace, requestedPath: path, canonicalPath: entry.canonicalPath };
      return {
        part: {
          case: "header",
          value: {
            entry: {
              path,
              kind: EntryKind.FILE,
              sizeBytes: BigInt(entry.sizeBytes),
              mode: entry.mode,
              modifiedNs: entry.mtimeNs,
            },
            source,
          },
        },
      };
    }
    case "chunk":
      return { part: { case: "chunk", value: part.bytes } };
    case "trailer":
      return { part: { case: "trailer", value: { sizeBytes: BigInt(part.sizeBytes), digest: part.digest } } };
  }
}

/** What a skill's folder holds as it travels. */
export function toWireFiles({
  files,
  problems,
}: SkillFiles): MessageInitShape<typeof SkillsListFilesResponseSchema> {
  return {
    files: files.map(({ path, sizeBytes, digest, isExecutable }) => ({
      path,
      kind: EntryKind.FILE,
      sizeBytes: BigInt(sizeBytes),
      mode: isExecutable ? 0o755 : 0o644,
      digest,
    })),
    problems: problems.map(({ path, fault }) => ({ path, fault: toWireFault(fault) })),
  };
}
