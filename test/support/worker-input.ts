import { ChildProcess } from "node:child_process";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { Writable } from "node:stream";

/** Everything that this process writes to the standard input of its children, from when it was made on. */
export interface WorkerInput extends Disposable {
  /** How they were started, and what went in, as one text. */
  text(): string;
}

/** Listens until it is disposed. */
export function recordWorkerInput(): WorkerInput {
  const parts: Buffer[] = [];
  const keep = (stream: Writable | null): Writable | null => {
    if (stream === null) return null;
    const write = stream.write.bind(stream) as (...given: unknown[]) => boolean;
    stream.write = (...given: unknown[]): boolean => {
      parts.push(Buffer.from(given[0] as string | Uint8Array));
      return write(...given);
    };
    return stream;
  };
  const onChild = (message: unknown): void => {
    if (typeof message !== "object" || message === null || !("process" in message)) return;
    const child = message.process;
    if (!(child instanceof ChildProcess)) return;
    // Told before the child has its streams, so that nothing is written before it is heard.
    let input: Writable | null = null;
    Object.defineProperty(child, "stdin", {
      configurable: true,
      enumerable: true,
      get: () => input,
      set: (stream: Writable | null) => {
        input = keep(stream);
        parts.push(Buffer.from(JSON.stringify(child.spawnargs)));
      },
    });
  };
  subscribe("child_process", onChild);
  return {
    text: () => Buffer.concat(parts).toString("latin1"),
    [Symbol.dispose]: () => void unsubscribe("child_process", onChild),
  };
}
