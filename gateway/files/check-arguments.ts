import { toByteCount } from "../../shared/content/byte-count.ts";
import { parseDigest } from "../../shared/content/digest.ts";
import {
  type FilesListRequest,
  type FilesReadRequest,
  type WriteHeader,
  WritePrecondition,
} from "../../shared/gen/fairlead/v1/files_pb.ts";
import { decodeListCursor } from "../../shared/names/list-cursor.ts";
import { requirePageLimit } from "../../shared/names/list-page.ts";
import type { WorkspacePath } from "../../shared/names/workspace-path.ts";
import { requirePossible } from "../../shared/tree/tree-rules.ts";

/** A negative number as it arrives in a field that has none. */
const negativeFrom = 2n ** 63n;

/** Fails with `INVALID_ARGUMENT` for what is no digest; an empty text is none that was given. */
export function checkDigest(text: string, field: string): void {
  if (text !== "") parseDigest(text, field);
}

/** Fails with `INVALID_ARGUMENT` for a page of no size, or a cursor that is not of this listing of `path`. */
export function checkListing(
  { recursive, limit, cursor }: Pick<FilesListRequest, "recursive" | "limit" | "cursor">,
  path: WorkspacePath,
): void {
  requirePageLimit(limit);
  if (cursor !== "") decodeListCursor({ path, recursive }, cursor);
}

/** Fails with `INVALID_ARGUMENT` for a range that no file has, or a condition that is none. */
export function checkReading(request: FilesReadRequest): void {
  toByteCount(request.offset, "offset");
  toByteCount(request.length, "length");
  checkDigest(request.ifMatch, "ifMatch");
  checkResume(request);
}

/** Fails with `INVALID_ARGUMENT` for a size or a condition that is none, `TOO_LARGE` for a size that no file has. */
export function checkWriting(header: WriteHeader): void {
  const { path, sizeBytes } = header;
  // A size that is merely too large for any file says so; this one was less than nothing where it came from.
  if (sizeBytes >= negativeFrom) toByteCount(sizeBytes, "sizeBytes");
  requirePossible({ path, sizeBytes });
  if (header.precondition === WritePrecondition.MATCH) parseDigest(header.ifMatch, "ifMatch");
  checkResume(header);
}

function checkResume({ resumeBytes, resumeDigest }: Pick<WriteHeader, "resumeBytes" | "resumeDigest">): void {
  if (toByteCount(resumeBytes, "resumeBytes") > 0) parseDigest(resumeDigest, "resumeDigest");
}
