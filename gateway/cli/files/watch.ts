import { Fault, isFault, type JsonValue } from "../../../shared/fault/fault.ts";
import { Files, FilesWatchKind, type FilesWatchResponse } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { createBackoff } from "../../../shared/lifetime/backoff.ts";
import { noDeadline } from "../../../shared/rpc/deadline.ts";
import { fromWireFault } from "../../../shared/rpc/fault-wire.ts";
import type { CommandInput } from "../../../shared/terminal/command-input.ts";
import type { CommandModule } from "../../../shared/terminal/command.ts";
import { stoppedStatus } from "../../../shared/terminal/interruption.ts";
import type { Runtime } from "../../../shared/terminal/runtime.ts";
import { faultToJson } from "../fault-to-json.ts";
import { openGateway, type OpenGateway } from "../open-gateway.ts";
import { entryToJson, parseRemote } from "./remote.ts";

/** `files watch`. */
export const watchCommand: CommandModule = {
  words: "files watch",
  summary: "what happens in a folder on a node, as it happens, until it is stopped",
  example: "fairlead files watch devbox:/app/src --json",
  args: [{ name: "<path>", text: "NODE:/WORKSPACE/PATH" }],
  options: [{ flags: "--since <c>", text: "go on behind the event with this cursor" }],
  callsNode: true,
  run: watch,
};

const words = {
  [FilesWatchKind.UNSPECIFIED]: "",
  [FilesWatchKind.AVAILABLE]: "available",
  [FilesWatchKind.UNAVAILABLE]: "unavailable",
  [FilesWatchKind.GAP]: "gap",
  [FilesWatchKind.CREATED]: "created",
  [FilesWatchKind.CHANGED]: "changed",
  [FilesWatchKind.REMOVED]: "removed",
  [FilesWatchKind.MOVED]: "moved",
  [FilesWatchKind.PERMITTED]: "permitted",
  [FilesWatchKind.WITHDRAWN]: "withdrawn",
  [FilesWatchKind.SETTLED]: "settled",
} as const satisfies Record<FilesWatchKind, string>;

/** A kind in a word; one of a later version is called an event. */
function wordOf(kind: FilesWatchKind): string {
  const known: Readonly<Record<number, string | undefined>> = words;
  return known[kind] ?? "event";
}

/** Runs until it is stopped, which is no error. */
async function watch(input: CommandInput, runtime: Runtime): Promise<number> {
  try {
    return await watchOn(input, runtime);
  } catch (error) {
    if (runtime.signal.aborted) return stoppedStatus(runtime.signal);
    throw error;
  }
}

async function watchOn(input: CommandInput, runtime: Runtime): Promise<never> {
  const remote = parseRemote(input.argument("path"));
  await using gateway = await openGateway(runtime);
  const backoff = createBackoff({ firstMs: 200, maxMs: 5_000 });
  const place = { since: input.text("since") ?? "", hasBegun: false };
  for (;;) {
    try {
      await follow(gateway, { ...remote, place, runtime, onEvent: () => backoff.reset() });
    } catch (error) {
      runtime.signal.throwIfAborted();
      // What could never be watched fails; what was is watched again once its node is back.
      const isPassing = place.hasBegun && isFault(error) && error.retryable;
      if (!isPassing) throw error;
      runtime.output.note(`note: ${error.message}; trying again`);
    }
    await runtime.clock.sleep(backoff.next(), { signal: runtime.signal });
  }
}

interface Following {
  readonly workspace: string;
  readonly path: string;
  readonly place: { since: string; hasBegun: boolean };
  readonly runtime: Runtime;
  readonly onEvent: () => void;
}

async function follow(
  gateway: OpenGateway,
  { workspace, path, place, runtime, onEvent }: Following,
): Promise<void> {
  const request = { workspace, path, since: place.since };
  const events = gateway.client(Files).watch(request, { deadlineMs: noDeadline, ...gateway.call() });
  for await (const event of events) {
    place.hasBegun = true;
    if (event.kind === FilesWatchKind.UNSPECIFIED) continue;
    await runtime.output.event(toJson(event), () => [toText(event)]);
    place.since = event.cursor;
    onEvent();
  }
}

function toJson(event: FilesWatchResponse): JsonValue {
  const { kind, cursor, path, from, entry, fault, folders, coveredFolders } = event;
  const isState = kind === FilesWatchKind.AVAILABLE || kind === FilesWatchKind.UNAVAILABLE;
  return {
    cursor,
    kind: wordOf(kind),
    ...(path === "" ? {} : { path }),
    ...(from === "" ? {} : { from }),
    ...(entry ? { entry: entryToJson(entry) } : {}),
    ...(isState ? { folders: Number(folders), coveredFolders: Number(coveredFolders) } : {}),
    ...(fault ? { error: faultToJson(fault) } : {}),
  };
}

function toText({ kind, path, from, fault, folders, coveredFolders }: FilesWatchResponse): string {
  const word = wordOf(kind);
  const covered = `${coveredFolders} of ${folders} folders are watched`;
  if (kind === FilesWatchKind.MOVED) return `${word} ${from} -> ${path}`;
  if (kind === FilesWatchKind.GAP)
    return `${word}: events may be missing; compare with fairlead files ls --recursive`;
  if (kind === FilesWatchKind.AVAILABLE) return `${word}: ${covered}`;
  if (kind === FilesWatchKind.UNAVAILABLE)
    return `${word}: ${reason(fault)}; ${covered}, the others are looked at on a timer`;
  return path === "" ? word : `${word} ${path}`;
}

function reason(fault: FilesWatchResponse["fault"]): string {
  return (fault ? fromWireFault(fault) : new Fault("IO_ERROR", "no reason was given")).message;
}
