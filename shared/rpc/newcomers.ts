import type { Socket } from "node:net";
import { systemClock } from "../lifetime/clock.ts";

/** The least time between two that are let in, in milliseconds. */
const pauseMs = 2;

/** The most. */
const longestPauseMs = 10;

/**
 * Lets connections in one after the other: a handshake costs as much as many calls, and the calls of those that are there go
 * on between two of them. A machine that is slow with one pauses for as long before the next. What waits is bounded by the
 * time that a connection has for its first words.
 */
export function createNewcomers(letIn: (socket: Socket) => void): (socket: Socket) => void {
  const waiting: Socket[] = [];
  let isBusy = false;
  const letAllIn = async (): Promise<void> => {
    isBusy = true;
    let restMs = pauseMs;
    for (let socket = waiting.shift(); socket; socket = waiting.shift()) {
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
    waiting.push(socket);
    if (!isBusy) void letAllIn();
  };
}
