import { create } from "@bufbuild/protobuf";
import { defaultReadLines } from "../../shared/core-tools/core-tools.ts";
import { Fault } from "../../shared/fault/fault.ts";
import { FilesReadRequestSchema } from "../../shared/gen/fairlead/v1/files_pb.ts";
import { LineCutter } from "./line-cutter.ts";
import { findNumber, findText, toResult, type RunTool, type ToolFiles } from "./tool-run.ts";

/** `read`: lines of a file, with the digest of the whole of it. */
export function createRead(files: Pick<ToolFiles, "read">): RunTool {
  return async function* read(run) {
    const path = findText(run.arguments, "path") ?? "";
    const cutter = new LineCutter({
      from: findNumber(run.arguments, "from") ?? 1,
      lines: findNumber(run.arguments, "lines") ?? defaultReadLines,
    });
    let digest = "";
    let canonicalPath = path;
    const { workspace, leaseEpoch, pin } = run;
    const request = create(FilesReadRequestSchema, {
      workspace,
      leaseEpoch,
      path,
      ...(pin ? { pin } : {}),
    });
    for await (const { part } of files.read(request, run.context)) {
      if (part?.case === "header") canonicalPath = part.value.source?.canonicalPath ?? path;
      else if (part?.case === "chunk") cutter.push(part.value);
      else if (part?.case === "trailer") digest = part.value.digest ?? "";
      if (cutter.isBinary) throw notText(path);
    }
    const { text, ...lines } = cutter.take();
    yield toResult(text, { path, canonicalPath, digest, sizeBytes: cutter.sizeBytes, ...lines });
  };
}

function notText(path: string): Fault {
  return new Fault("UNSUPPORTED_FILE_TYPE", `${path} is no text file`, {
    hint: "fetch it with `fairlead files get`",
    details: { path },
  });
}
