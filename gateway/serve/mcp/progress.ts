import type { Clock } from "../../../shared/lifetime/clock.ts";

/** A notice of progress. */
export interface ProgressNotice {
  readonly method: "notifications/progress";
  readonly params: {
    readonly progressToken: string | number;
    readonly progress: number;
    readonly message: string;
  };
}

/** Tells a client how far its call is. */
export interface Progress {
  /** So many bytes of output more. */
  advance(bytes: number): Promise<void>;
}

/** Least time between two notices, in milliseconds: at most ten a second. */
const intervalMs = 100;

/** Progress of a call, for a client that gave a token; for any other it says nothing. */
export function startProgress(
  token: string | number | undefined,
  parts: {
    readonly notify: (notice: ProgressNotice & { params: Record<string, unknown> }) => Promise<void>;
    readonly clock: Clock;
  },
): Progress {
  let bytes = 0;
  let lastAt = Number.NEGATIVE_INFINITY;
  return {
    advance: async (more) => {
      bytes += more;
      const now = parts.clock.now();
      if (token === undefined || now - lastAt < intervalMs) return;
      lastAt = now;
      await parts.notify({
        method: "notifications/progress",
        params: { progressToken: token, progress: bytes, message: `${bytes} bytes of output` },
      });
    },
  };
}
