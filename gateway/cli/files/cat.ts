import { createDigester, type Digester } from "../../../shared/content/digest.ts";
import { Fault } from "../../../shared/fault/fault.ts";
import { readToLimit } from "../../../shared/flow/read-to-limit.ts";
import type { FilesReadResponse } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { startDeadline } from "../../../shared/lifetime/clock.ts";
import { maxDeadlineMs } from "../../../shared/rpc/deadline.ts";
import type { CallOptions } from "../../../shared/rpc/service.ts";
import type { CommandInput } from "../../../shared/terminal/command-input.ts";
import type { CommandModule } from "../../../shared/terminal/command.ts";
import type { Runtime } from "../../../shared/terminal/runtime.ts";
import { bootstrapOption } from "./bootstrap-option.ts";
import { isLost, openLine, untilBack, type Line } from "./go-on.ts";
import { parseRemote, type Remote } from "./remote.ts";
import { stallMs } from "./stall-guard.ts";

/** `files cat`. */
export const catCommand: CommandModule = {
  words: "files cat",
  summary: "a file's bytes, to standard output",
  example: "fairlead files cat devbox:/app/log.txt --offset 1000 --length 500",
  args: [{ name: "<path>", text: "NODE:/WORKSPACE/PATH" }],
  options: [
    { flags: "--offset <n>", text: "first byte (default 0)" },
    { flags: "--length <n>", text: "at most so many bytes (default all)" },
    bootstrapOption,
  ],
  callsNode: true,
  run: cat,
};

/** Largest content that is shown inside a JSON document, in bytes. */
const maxJsonContentBytes = 4 * 1024 * 1024;

async function cat(input: CommandInput, runtime: Runtime): Promise<void> {
  const remote = parseRemote(input.argument("path"));
  const range = { min: 0, max: Number.MAX_SAFE_INTEGER };
  const offset = input.integer("offset", range) ?? 0;
  const length = input.integer("length", range);
  await using line = await openLine(runtime);
  const call = { signal: runtime.signal, deadlineMs: runtime.deadlineMs ?? maxDeadlineMs };
  const bootstrap = input.flag("bootstrap");
  const reading: Reading = { remote, offset, length: length ?? 0, bootstrap, line, call, runtime };
  // A length of nothing is nothing; on the wire it would mean all.
  const chunks = length === 0 ? noChunks() : verified(reading);
  if (!runtime.output.json) {
    for await (const chunk of chunks) await runtime.output.bytes(chunk);
    return;
  }
  const content = await readToLimit(chunks, maxJsonContentBytes);
  const text = content.toString("utf8");
  const isText = Buffer.from(text, "utf8").equals(content);
  await runtime.output.result(
    {
      path: remote.shown,
      offset,
      sizeBytes: content.byteLength,
      encoding: isText ? "utf8" : "base64",
      content: isText ? text : content.toString("base64"),
    },
    () => [],
  );
}

interface Reading {
  readonly remote: Remote;
  readonly offset: number;
  /** 0: to the end. */
  readonly length: number;
  readonly bootstrap: boolean;
  readonly line: Line;
  readonly call: CallOptions & { readonly signal: AbortSignal };
  readonly runtime: Runtime;
}

async function* noChunks(): AsyncGenerator<Uint8Array, void> {
  // Nothing was asked for.
}

/** A whole file that was cut off goes on behind what is out already, where it still begins with that. */
async function* verified(reading: Reading): AsyncGenerator<Uint8Array, void> {
  const { offset, length, call } = reading;
  const digester = createDigester();
  const isWhole = offset === 0 && length === 0;
  for (;;) {
    try {
      return yield* readOn(reading, digester);
    } catch (error) {
      if (!isWhole || digester.sizeBytes === 0 || call.signal.aborted || !isLost(error)) throw error;
      await waitForNode(reading);
    }
  }
}

async function waitForNode({
  remote: { workspace },
  line,
  call,
  runtime: { clock },
}: Reading): Promise<void> {
  using deadline = startDeadline({ timeoutMs: stallMs, signal: call.signal, clock });
  await untilBack({ workspace, line, call: { ...call, signal: deadline.signal }, clock });
}

async function* readOn(
  { remote: { workspace, path }, offset, length, bootstrap, line, call }: Reading,
  digester: Digester,
): AsyncGenerator<Uint8Array, void> {
  const held = digester.sizeBytes;
  const resume = held > 0 ? { resumeBytes: BigInt(held), resumeDigest: digester.digest() } : {};
  const request = { workspace, path, offset: BigInt(offset), length: BigInt(length), bootstrap, ...resume };
  const messages: AsyncIterable<FilesReadResponse> = line.files.read(request, call);
  for await (const { part } of messages) {
    if (part.case === "header" && part.value.resumedBytes !== BigInt(held)) throw changed(path);
    if (part.case === "chunk") {
      digester.update(part.value);
      yield part.value;
    } else if (part.case === "trailer") {
      if (part.value.digest === digester.digest()) return;
      throw new Fault("INTEGRITY_FAILURE", "the bytes that arrived are not those that were sent");
    }
  }
  throw new Fault("INTEGRITY_FAILURE", "the file was cut off before its end", { hint: "repeat the command" });
}

function changed(path: string): Fault {
  return new Fault("INTEGRITY_FAILURE", `${path} was changed while it was read`, {
    hint: "repeat the command",
  });
}
