import type { Socket } from "node:net";
import { systemClock } from "../lifetime/clock.ts";

/** The least time between two that are let in, in milliseconds. */
const pauseMs = 2;

/** The most. */
const longestPauseMs = 10;

/** One that has waited for so long, in milliseconds, may have been given up by its peer. */
const usualStaleMs = 5000;

interface Waiting {
  readonly socket: Socket;
  readonly since: number;
}

/**
 * Lets connections in one after the other, once they have said something: a handshake costs as much as many calls, and the
 * calls of those that are there go on between two of them. A machine that is slow with one pauses for as long before the
 * next. When more come than it can take it lets in those first that came last, since a peer gives up after a while and a
 * handshake with nobody helps nobody. What waits is bounded by the time that a connection has for its first words.
 */
export function createNewcomers(
  letIn: (socket: Socket) => void,
  staleMs: number = usualStaleMs,
): (socket: Socket) => void {
  const waiting: Waiting[] = [];
  let isBusy = false;
  const next = (): Socket | undefined => {
    const oldest = waiting[0];
    const isStale = oldest && performance.now() - oldest.since > staleMs;
    return (isStale ? waiting.pop() : waiting.shift())?.socket;
  };
  const letAllIn = async (): Promise<void> => {
    isBusy = true;
    let restMs = pauseMs;
    for (let socket = next(); socket; socket = next()) {
      if (socket.destroyed) continue;
      const begunAt = performance.now();
      letIn(socket);
      // The time of the machine, not that of a test: what is spared is the processor.
      await systemClock.sleep(restMs);
      const lateMs = performance.now() - begunAt - restMs;
      restMs = Math.min(longestPauseMs, Math.max(pauseMs, lateMs));
    }
    isBusy = false;
  };
  return (socket) => {
    socket.once("readable", () => {
      if (socket.readableLength === 0) return void socket.destroy();
      waiting.push({ socket, since: performance.now() });
      if (!isBusy) void letAllIn();
    });
  };
}
