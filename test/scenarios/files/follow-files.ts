import { expect } from "vitest";
import { type Fault, isFault } from "../../../shared/fault/fault.ts";
import {
  type Files,
  FilesWatchKind,
  type FilesWatchResponse,
} from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { Scope } from "../../../shared/lifetime/scope.ts";
import { noDeadline } from "../../../shared/rpc/deadline.ts";
import type { Client } from "../../../shared/rpc/service.ts";

/** A subscriber of a watch over the gateway. Disposing leaves. */
export interface FollowedFiles extends AsyncDisposable {
  /** What came so far, but for the first message. */
  readonly events: readonly FilesWatchResponse[];
  /** Why it ended; undefined while it goes on. */
  readonly fault: () => Fault | undefined;
  /** The cursor of the last event. */
  lastCursor(): string;
  /** Waits for an event that fits, of all that came so far. */
  seen(fits: (event: FilesWatchResponse) => boolean): Promise<void>;
  /** Asks for a barrier, and waits until it has come. */
  settle(): Promise<void>;
}

/** What is followed. */
export interface FollowOptions {
  /** `NODE:/NAME`. */
  readonly workspace: string;
  readonly path?: string;
  readonly since?: string;
}

const patience = { timeout: 30_000 };

/** Subscribes, and waits until the node has taken the subscription. */
export async function followFiles(
  client: Client<typeof Files>,
  options: FollowOptions,
): Promise<FollowedFiles> {
  const scope = new Scope("a subscriber");
  const events: FilesWatchResponse[] = [];
  let fault: Fault | undefined;
  let barriers = 0;
  const began = Promise.withResolvers<void>();
  scope.spawn("follow", async (signal) => {
    try {
      for await (const event of client.watch(options, { signal, deadlineMs: noDeadline })) {
        if (event.kind === FilesWatchKind.UNSPECIFIED) began.resolve();
        else events.push(event);
      }
    } catch (error) {
      if (isFault(error) && !signal.aborted) fault = error;
      began.reject(error);
    }
  });
  await began.promise;
  const { workspace } = options;
  return {
    events,
    fault: () => fault,
    lastCursor: () => events.at(-1)?.cursor ?? "",
    seen: (fits) => expect.poll(() => events.some(fits), patience).toBe(true),
    settle: async () => {
      barriers += 1;
      const token = `${process.pid}-${barriers}-${Math.random()}`;
      await expect
        .poll(async () => (await client.barrier({ workspace, token })).fault, patience)
        .toBeUndefined();
      await expect.poll(() => events.some((event) => event.token === token), patience).toBe(true);
    },
    [Symbol.asyncDispose]: () => scope.end(),
  };
}
