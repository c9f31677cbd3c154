import { createCoalescingQueue, type Queue } from "../../shared/flow/queue.ts";
import { Scope } from "../../shared/lifetime/scope.ts";
import type { Caller } from "../tools/caller.ts";
import type { FaceChange, FaceChangeKind } from "./face.ts";
import type { FaceParts } from "./session-face.ts";
import type { SessionRecord } from "./sessions.ts";

/** What a watch takes. */
export interface WatchParts extends FaceParts {
  readonly signal: AbortSignal;
}

/**
 * What changes for one caller from now on. Tools and skills are compared by digest, so a change that leaves the list as
 * it was says nothing. Ends with the signal, and when the session is closed.
 */
export async function* watchChanges(
  caller: () => Promise<Caller>,
  parts: WatchParts,
): AsyncGenerator<FaceChange> {
  const first = await caller();
  await using scope = new Scope("watch of a session", parts.signal);
  const queue = createCoalescingQueue<FaceChange>({
    limit: 16,
    keyOf: ({ kind }) => kind,
    onOverflow: () => ({ kind: "state", digest: "" }),
  });
  const onAbort = (): void => queue.close();
  scope.signal.addEventListener("abort", onAbort, { once: true });
  const toolsDigest = async (): Promise<string> => (await parts.tools.surface(await caller())).digest;
  const skillsDigest = async (): Promise<string> => (await parts.skills.list(await caller())).snapshot;
  follow(scope, queue, { kind: "tools", source: (s) => parts.tools.changes(s), digest: toolsDigest });
  follow(scope, queue, { kind: "skills", source: (s) => parts.skills.changes(s), digest: skillsDigest });
  scope.spawn("memory", async (signal) => {
    for await (const _change of parts.memory.changes({ signal }))
      await queue.push({ kind: "memory", digest: "" });
  });
  const { session } = first;
  if (session) {
    scope.spawn("state", async (signal) => {
      await followState(parts.sessions.states(session.id, { signal }), queue);
      // What was told is still read.
      if (!signal.aborted) queue.close();
    });
  }
  try {
    session?.lease.check();
    if (!scope.signal.aborted) yield* queue;
  } finally {
    scope.signal.removeEventListener("abort", onAbort);
  }
}

/** Tells each change of the session's state, up to its end. */
async function followState(states: AsyncIterable<SessionRecord>, queue: Queue<FaceChange>): Promise<void> {
  let isFirst = true;
  for await (const { state, reason, sinceMs, address } of states) {
    const [alias = ""] = address.split(":");
    const nextStep = state === "waiting_for_node" ? `fairlead nodes show ${alias}` : "";
    const standing = { state, reason, sinceMs, nextStep };
    if (!isFirst) await queue.push({ kind: "state", digest: "", standing });
    isFirst = false;
  }
}

interface Source {
  readonly kind: FaceChangeKind;
  readonly source: (options: { readonly signal: AbortSignal }) => AsyncIterable<unknown>;
  readonly digest: () => Promise<string>;
}

function follow(scope: Scope, queue: Queue<FaceChange>, { kind, source, digest }: Source): void {
  scope.spawn(kind, async (signal) => {
    const changes = source({ signal })[Symbol.asyncIterator]();
    // Asked for before the digest is taken, so that no change falls between the two.
    let next = changes.next();
    let last = await digest();
    for (let item = await next; item.done !== true; item = await next) {
      next = changes.next();
      const now = await digest();
      if (now === last) continue;
      last = now;
      await queue.push({ kind, digest: now });
    }
  });
}
