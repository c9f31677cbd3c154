import { create, type MessageInitShape } from "@bufbuild/protobuf";
import {
  EntryKind,
  type Entry,
  type EntryProblem,
  type FilesManifestRequest,
  type FilesManifestResponseSchema,
  type ManifestTrailer,
  ManifestTrailerSchema,
} from "../../shared/gen/fairlead/v1/files_pb.ts";
import type { CallContext } from "../../shared/rpc/service.ts";
import { checkDigest } from "./check-arguments.ts";
import type { FilesFaceOptions } from "./face.ts";
import { performStream, type Operation } from "./operation.ts";
import { below } from "./pass-reads.ts";
import { streamOptions, type Target } from "./target.ts";

/** Passes a manifest on, without the entries that the gateway's policy denies: they are as if they were not there. */
export function passManifest(
  options: FilesFaceOptions,
  request: FilesManifestRequest,
  context: CallContext,
): AsyncIterable<MessageInitShape<typeof FilesManifestResponseSchema>> {
  const { workspace, path } = request;
  const asked = {
    workspace,
    path,
    verb: "read",
    kind: "list_tree",
    check: () => checkDigest(request.knownDigest, "knownDigest"),
    terms: { digests: true },
    context,
  } as const;
  return performStream(options, asked, (operation) => manifestParts(request, operation));
}

async function* manifestParts(
  { knownDigest, shallow }: FilesManifestRequest,
  operation: Operation,
): AsyncIterable<MessageInitShape<typeof FilesManifestResponseSchema>> {
  const { target, pin, context } = operation;
  const parts = target.handle.files.manifest(
    { path: target.path, knownDigest, shallow, ...(pin ? { pin } : {}) },
    streamOptions(context),
  );
  let filter = new ManifestFilter(target, target.path);
  for await (const part of parts) {
    context.signal.throwIfAborted();
    const source = part.source ? { source: await operation.judged(part.source) } : {};
    if (source.source) {
      filter = new ManifestFilter(target, source.source.canonicalPath);
    }
    const entries = await filter.entries(part.entries);
    const problems = await filter.problems(part.problems);
    const trailer = part.trailer ? { trailer: filter.trailer(part.trailer) } : {};
    yield { ...part, ...source, ...trailer, entries, problems };
  }
}

/** Leaves out what is denied, and counts what is left. */
class ManifestFilter {
  readonly #target: Target;
  readonly #root: string;
  readonly #left: ManifestTrailer = create(ManifestTrailerSchema);

  constructor(target: Target, root: string) {
    this.#target = target;
    this.#root = root;
  }

  async entries(entries: readonly Entry[]): Promise<Entry[]> {
    const passed = await this.#pass(entries);
    for (const { kind, sizeBytes } of passed) {
      if (kind === EntryKind.FOLDER) this.#left.folders += 1n;
      else if (kind === EntryKind.LINK) this.#left.links += 1n;
      else this.#left.files += 1n;
      this.#left.sizeBytes += sizeBytes;
    }
    return passed;
  }

  async problems(problems: readonly EntryProblem[]): Promise<EntryProblem[]> {
    const passed = await this.#pass(problems);
    this.#left.failed += BigInt(passed.length);
    return passed;
  }

  trailer({ hashedFiles, hashedBytes }: ManifestTrailer): ManifestTrailer {
    return { ...this.#left, hashedFiles, hashedBytes };
  }

  async #pass<T extends { readonly path: string }>(items: readonly T[]): Promise<T[]> {
    const passed: T[] = [];
    for (const item of items)
      if (!(await this.#target.denial(below(this.#root, item.path)))) passed.push(item);
    return passed;
  }
}
