import type { Clock } from "../../../shared/lifetime/clock.ts";
import type { FaceChange } from "../../sessions/face.ts";

/** What a client can be told that it should list again. */
export interface ListNotices {
  toolsChanged(): void;
  resourcesChanged(): void;
}

/** How long changes are gathered before a notice, in milliseconds: one notice a burst. */
const gatherMs = 200;

/** Turns changes of a session into notices, one of a kind for a burst. Ends with the signal or the changes. */
export async function sendNotices(
  changes: AsyncIterable<FaceChange>,
  parts: { readonly notices: ListNotices; readonly clock: Clock; readonly signal: AbortSignal },
): Promise<void> {
  const waiting = new Set<string>();
  let sending: Promise<void> | undefined;
  const send = async (): Promise<void> => {
    await parts.clock.sleep(gatherMs, { signal: parts.signal });
    const kinds = new Set(waiting);
    waiting.clear();
    sending = undefined;
    if (kinds.has("tools")) parts.notices.toolsChanged();
    if (kinds.has("skills")) parts.notices.resourcesChanged();
  };
  for await (const { kind } of changes) {
    waiting.add(kind);
    sending ??= send().catch(() => undefined);
  }
}
